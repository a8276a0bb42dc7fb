"""The values that enter and leave the core: the circumstances of a command, and its results.

The order is the contract: decide -> append -> commit -> respond once durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coterie.assignors.server_side import SERVER_ASSIGNORS, ServerAssignor
from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.state import MigrationPolicy
from coterie.coordinator.events import Event
from coterie.coordinator.state import Token
from coterie.coordinator.streams.tasks import ConfiguredInternalTopic
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest

NO_TOPICS = TopicsImage()


@dataclass(slots=True)
class CoordinatorConfig:
    """Kafka's settings of a group coordinator, with its defaults; times in ms. One with the name of a broker setting has its
    value (`BrokerSettings.coordinator`)."""

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
    # Of groups of the consumer protocol (KIP-848). The first assignor is that of members that request none.
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    consumer_group_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_group_assignors: Mapping[str, ServerAssignor] = field(default_factory=lambda: SERVER_ASSIGNORS)
    # Of share groups (KIP-932).
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_share_assignment_interval_ms: int = 1_000
    # Of streams groups (KIP-1071). The first assignor is that of groups that name none.
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_max_size: int = 2**31 - 1
    group_streams_num_standby_replicas: int = 0
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    group_streams_assignors: tuple[str, ...] = ("sticky",)
    streams_assignor_name: str | None = None  # of the group itself
    regex_problem: Callable[[str], str | None] = lambda regex: None  # why it cannot be compiled


@dataclass(slots=True)
class Context:
    """The circumstances of a command: the time (ms), the token of the waiting request, a fresh id for a new member,
    the client, and, for groups of the consumer protocol, the broker's topics."""

    now_ms: int
    token: Token = None
    fresh_id: str = ""
    api_version: int = 0
    client_id: str = ""
    client_host: str = ""
    topics: TopicsImage = NO_TOPICS


@dataclass(slots=True)
class Reply:
    """A response for the request that ``token`` stands for."""

    token: Token
    response: Message


@dataclass(slots=True)
class Outcome:
    """The result of a `decide` function. ``deadlines`` maps member ids to new session deadlines (ms); it needs no event.

    ``divisible``: its records may go into several batches, since each stands for itself (tombstones).
    ``producer`` (id, epoch) marks the records as those of its transaction.

    ``is_heartbeat``: a Heartbeat restarts the session, so that the member's interval can be measured.

    ``resolve`` are regular expressions whose topics the driver is to look up and submit as `RegexesResolved`.

    ``initialize`` requests states of the share coordinator for of partitions; `StatesInitialized` is submitted with the result.

    ``internal_topics`` are created by the driver before it responds: their errors go into the response.

    ``on_append_error`` gives the outcome where the records cannot be appended; None: the response carries the error."""

    events: list[Event] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    deadlines: list[tuple[str, int]] = field(default_factory=list)
    producer: tuple[int, int] | None = None
    divisible: bool = False
    resolve: frozenset[str] = frozenset()
    initialize: InitializeShareGroupStateRequest | None = None
    internal_topics: tuple[ConfiguredInternalTopic, ...] = ()
    is_heartbeat: bool = False
    on_append_error: Callable[[ErrorCode], Outcome] | None = None
