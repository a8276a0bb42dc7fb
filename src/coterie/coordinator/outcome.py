"""The values that enter and leave the core: the circumstances of a command, and its results.

The order is the contract: submit -> append -> commit -> answer once durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.coordinator.events import Event
from coterie.coordinator.state import Token
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode


@dataclass(slots=True)
class CoordinatorConfig:
    """Kafka's settings of a group coordinator, with its defaults; times in ms."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    # KIP-752: off is the behaviour of 2.6, where a member that never syncs holds the group up for ever.
    sync_timeout_enabled: bool = True
    # Off: Kafka before 4, where the departure of a pending id from a settled group starts no rebalance.
    pending_leave_rebalances: bool = True


@dataclass(slots=True)
class Context:
    """The circumstances of a command: the time (ms), the token of the waiting request, a fresh id for a new member,
    and the client."""

    now_ms: int
    token: Token = None
    fresh_id: str = ""
    api_version: int = 0
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer for the request that ``token`` stands for."""

    token: Token
    response: Message


@dataclass(slots=True)
class Outcome:
    """The result of a `decide` function. ``deadlines`` maps member ids to new session deadlines (ms); it needs no event.

    ``divisible``: its records may go into several batches, since each stands for itself (tombstones).
    ``producer`` (id, epoch) marks the records as those of its transaction.

    ``on_append_error`` gives the outcome where the records cannot be appended; None: the response carries the error."""

    events: list[Event] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    deadlines: list[tuple[str, int]] = field(default_factory=list)
    producer: tuple[int, int] | None = None
    divisible: bool = False
    on_append_error: Callable[[ErrorCode], Outcome] | None = None
