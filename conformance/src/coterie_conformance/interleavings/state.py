"""What a search goes through: a small group, its states, and the key under which a state is known."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Group
from coterie.member.config import MemberConfig
from coterie.member.state import MemberState
from coterie.wire.declaration import Message

GROUP, TOPIC = "g", "t"
START_MS = 1_000_000
TICK_MS = 3_000  # all time-outs are multiples of it, so that deadlines meet
OUT, PARKED, BACK, BROKEN = "out", "parked", "back", "broken"


class FaultBudget(NamedTuple):
    """What may still go wrong: processes that die (the broker's comes back at once, with what was written), requests or
    responses that are lost, and times at which a deadline passes while something is on its way."""

    crashes: int = 0
    broker_crashes: int = 0
    losses: int = 0
    slow: int = 0


NO_FAULTS = FaultBudget()


@dataclass(frozen=True, slots=True)
class Flight:
    """A request and its response; ``key`` stands for the content of what is on its way. ``given_up``: the member has given the
    connection up, and the request arrives all the same."""

    serial: int
    request: Message
    where: str
    key: int
    response: Message | None = None
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class MemberProcess:
    """A member's process; ``state`` None: it has died. ``ids``: member ids that it was given so far."""

    state: MemberState | None
    flights: tuple[Flight, ...] = ()
    revocations: int = 0
    ids: int = 0


@dataclass(slots=True)
class State:
    """The whole at one time. ``stored``: the last record of each key in the log."""

    now_ms: int
    group: Group | None
    heap: list[tuple[int, str, str]]
    stored: dict[bytes, bytes | None]
    processes: tuple[MemberProcess, ...]
    faults: FaultBudget


@dataclass(frozen=True, slots=True)
class SmallGroup:
    """What is searched."""

    members: int = 3
    partitions: int = 2
    assignor: str = "range"
    faults: FaultBudget = NO_FAULTS
    static: bool = False
    initial_delay_ms: int = 0

    def member_config(self, number: int) -> MemberConfig:
        """Of the member of that number: time-outs of a few ticks, no pause before a retry."""
        return MemberConfig(
            GROUP,
            f"i{number}" if self.static else None,
            session_timeout_ms=3 * TICK_MS,
            heartbeat_interval_ms=TICK_MS,
            max_poll_interval_ms=3 * TICK_MS,
            retry_backoff_ms=0,  # at once: the races are those of the events, not of a pause
            retry_backoff_max_ms=0,
            assignors=(self.assignor,),
        )

    def coordinator_config(self) -> CoordinatorConfig:
        """Time-outs of the same ticks."""
        return CoordinatorConfig(
            group_initial_rebalance_delay_ms=self.initial_delay_ms,
            new_member_join_timeout_ms=3 * TICK_MS,
        )


class TransitionKind(StrEnum):
    """What may happen; from TIME_PASSES_MEANWHILE on only as often as `FaultBudget` allows."""

    REQUEST_ARRIVES = "request arrives"
    RESPONSE_ARRIVES = "response arrives"
    LOSS_IS_NOTICED = "loss is noticed"
    LISTENER_RETURNS = "listener returns"
    TIME_PASSES = "time passes"
    TIME_PASSES_MEANWHILE = "time passes while something is on its way"
    MEMBER_CRASHES = "member crashes"
    IS_LOST = "request or response is lost"
    CONNECTION_IS_GIVEN_UP = "connection is given up"
    BROKER_RESTARTS = "broker restarts"


class Transition(NamedTuple):
    """One event: of a process, of one of its requests."""

    kind: TransitionKind
    process: int = -1
    serial: int = -1


def copied(group: Group | None) -> Group | None:
    """A twin that can change by itself; what is never changed in place is shared."""
    if group is None:
        return None
    twin = copy.copy(group)
    twin.members = {name: copy.copy(member) for name, member in group.members.items()}
    twin.reservations = {name: copy.copy(reserved) for name, reserved in group.reservations.items()}
    twin.static_members, twin.waiting_joins = dict(group.static_members), dict(group.waiting_joins)
    twin.waiting_syncs, twin.pending_sync = dict(group.waiting_syncs), set(group.pending_sync)
    twin.protocol_counts, twin.wanted = copy.copy(group.protocol_counts), list(group.wanted)
    return twin


def deadlines_of(group: Group | None) -> Iterator[int]:
    """Of its members, of the ids that are reserved, and its own, in ms."""
    if group is not None:
        yield from (member.deadline_ms for member in group.members.values())
        yield from (reserved.deadline_ms for reserved in group.reservations.values())
        own_ms = group.next_deadline_ms()
        if own_ms is not None:
            yield own_ms


def key_of(state: State) -> int:
    """The same for two states that differ by the date alone, and, but for chance, for no others."""
    now_ms, group = state.now_ms, state.group
    processes = tuple(
        (
            _member_key(p.state, now_ms, p.flights),
            p.revocations,
            p.ids,
            tuple([(f.serial, f.where, f.key, f.given_up) for f in p.flights]),
        )
        for p in state.processes
    )
    return hash((processes, state.faults, _group_key(group, now_ms) if group is not None else None))


def _member_key(state: MemberState | None, now_ms: int, flights: tuple[Flight, ...]) -> Hashable:
    if state is None:
        return None
    coordinator, heartbeat, round_ = state.coordinator, state.heartbeat, state.round
    waiting = next((f.serial for f in flights if f.request is round_.request), -1)
    check_ms = round_.unassigned_check_due_ms
    return (
        state.stage.value,
        state.membership,
        (
            coordinator.known,
            coordinator.lookup_in_flight,
            coordinator.failures,
            max(coordinator.retry_at_ms - now_ms, 0),
        ),
        (
            heartbeat.in_flight,
            heartbeat.due_ms - now_ms,
            heartbeat.session_deadline_ms - now_ms,
            heartbeat.last_poll_ms - now_ms,
        ),
        (
            round_.request is None,
            waiting,
            round_.rejoin_after,
            repr(round_.subscribers),
            round_.metadata_snapshot is None,
        ),
        (round_.withholds, None if check_ms is None else check_ms - now_ms),
        state.ownership,
    )


def _group_key(group: Group, now_ms: int) -> Hashable:
    members = tuple(
        [
            (m.member_id, m.group_instance_id, m.protocols, m.assignment, m.is_new, m.deadline_ms - now_ms)
            for m in group.members.values()
        ]
    )
    join_ms, sync_ms = group.join_deadline_ms, group.sync_deadline_ms
    return (
        (group.phase.value, group.generation, group.protocol, group.protocol_type, group.leader, group.subscriptions),
        members,
        tuple(group.static_members.items()),
        tuple([(name, reserved.deadline_ms - now_ms) for name, reserved in group.reservations.items()]),
        (tuple(group.waiting_joins.items()), tuple(group.waiting_syncs.items()), frozenset(group.pending_sync)),
        tuple([(cause.kind, cause.member_id) for cause in group.wanted]),
        (None if join_ms is None else join_ms - now_ms, None if sync_ms is None else sync_ms - now_ms),
        (group.initial_delay_left_ms, group.joined_during_delay),
    )
