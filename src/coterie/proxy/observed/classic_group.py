"""A group of the classic protocol as its members' requests and the coordinator's responses show it.

The group is the coordinator's own `Group`, changed by its events alone, and the lines are made of its steps: what a member's
request does to a group decides the coordinator's code, and what only the coordinator knows is taken from its responses: ids of
members, who is in a generation, and when a phase ends. A cause is `observed` where a request stated it or where a member's
silence of a session was followed by a rebalance; `inferred` where no response confirms it; `unknown` where another client, or
nobody that is seen here, caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.classic.replay import replay
from coterie.coordinator.classic.sync import empty_group_stored
from coterie.coordinator.journal import patterns as known
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.replay import restart_session
from coterie.coordinator.shard import Step
from coterie.coordinator.state import CAN_REBALANCE, PREPARING, Cause, Group, Member
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupRequest

# What the coordinator accepts or refuses by its settings shows in its responses.
ANY_CONFIG = CoordinatorConfig(group_min_session_timeout_ms=0, group_max_session_timeout_ms=2**31 - 1)
SILENT_SLACK_MS = 1_000  # by which a response here may be later than its session's restart at the coordinator
NOT_SEEN = "not_seen"
Evidence = tuple[str, str]  # of `known.EVIDENCE`, and the rule of an inferred one
OBSERVED: Evidence = (known.OBSERVED, "")
UNKNOWN: Evidence = (known.UNKNOWN, "")
SILENT: Evidence = (known.INFERRED, "silent_session")
LEFT: Evidence = (known.INFERRED, "leave_without_response")
NAMED: Evidence = (known.INFERRED, "named_to_the_leader")
LONG_WAIT_MS = 10_000


@dataclass(slots=True, eq=False)
class SeenRequest:
    """A request of a group's member, as it passed. ``sent_ms``: when it went to the coordinator."""

    request: Any
    api_version: int
    client_id: str
    client_host: str
    sent_ms: int

    def context(self, now_ms: int, member_id: str = "") -> Context:
        """As the coordinator has it; ``member_id``: the one that it gave to a newcomer."""
        prefix = getattr(self.request, "group_instance_id", None) or self.client_id
        return Context(
            now_ms,
            token=self,
            fresh_id=member_id.removeprefix(f"{prefix}-"),
            api_version=self.api_version,
            client_id=self.client_id,
            client_host=self.client_host,
        )


def error_code(response: Any) -> int:
    """Of a response with one error, or, of a commit, the first partition's."""
    if hasattr(response, "error_code"):
        return int(response.error_code)
    return next((p.error_code for t in response.topics for p in t.partitions), int(ErrorCode.NONE))


@dataclass(slots=True)
class ObservedClassicGroup:
    """``is_whole``: every member is known here, from a leader's list; ``in_flight``: requests without a response."""

    group: Group
    lines: JournalLines
    emit: Callable[[JournalLine], None]
    in_flight: list[SeenRequest] = field(default_factory=list)
    is_whole: bool = False
    held_back: list[tuple[SeenRequest, Any]] = field(default_factory=list)  # JoinGroup responses before the leader's
    lost_joins: list[SeenRequest] = field(default_factory=list)  # newcomers whose connection ended before the response
    held_back_ms: int = 0  # since when
    # JoinGroups sent while the leader's SyncGroup was under way.
    beside_sync: list[SeenRequest] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)  # members whose requests do not pass here
    is_unexplained: bool = False  # the rebalance under way has no cause yet
    causes: list[tuple[int, Cause]] = field(default_factory=list)  # of the rebalance under way, with their times
    _evidence: dict[tuple[str, str], Evidence] = field(
        default_factory=dict
    )  # by kind and member; observed where there is none

    def apply(self, events: Iterable[e.Event], now_ms: int, evidence: Evidence = OBSERVED) -> None:
        """Applies them, then starts the rebalance that they call for, and ends it where nobody is left."""
        for event in events:
            cause = getattr(event, "cause", None)
            self.is_unexplained = self.is_unexplained and cause is None
            if cause is not None and evidence is not OBSERVED:
                self._evidence[cause.kind, cause.member_id] = evidence
            self._apply(event, now_ms)
        group = self.group
        if group.wanted and group.phase in CAN_REBALANCE:
            timeout_ms = group.rebalance_timeout_ms()
            self._apply(e.RebalanceStarted(tuple(group.wanted), now_ms + timeout_ms), now_ms)
        is_left = not group.members and not group.reservations and not self.has_newcomers
        if is_left and self.is_whole:
            self.end_empty(now_ms)

    @property
    def has_newcomers(self) -> bool:
        """Whether a member has joined whose id comes with its response."""
        return any(isinstance(o.request, JoinGroupRequest) and not o.request.member_id for o in self.in_flight)

    def _apply(self, event: e.Event, now_ms: int) -> None:
        group, before = self.group, self.group.phase
        replay(group, event, now_ms)
        if isinstance(event, e.RebalanceStarted):
            self.causes = [(now_ms, cause) for cause in event.causes]
        elif group.phase == PREPARING and (cause := getattr(event, "cause", None)) is not None:
            self.causes.append((now_ms, cause))
        step = Step(group.group_id, event, before, group.phase, group.generation)
        line = self.lines.line(step, group, now_ms)
        if line is not None:
            for cause in line.causes:
                evidence = self._evidence.get((cause["kind"], cause.get("member_id", "")), OBSERVED)
                cause |= known.known_cause(cause["kind"], *evidence)
            self.emit(line)
        if isinstance(event, e.GroupStored):
            self._evidence.clear()

    def end_empty(self, now_ms: int) -> None:
        """Ends the rebalance under way without a member."""
        if self.group.phase == PREPARING:
            self._apply(empty_group_stored(self.group, self.group.generation + 1, now_ms), now_ms)

    def replay_silently(self, event: e.Event, now_ms: int) -> None:
        """Applies an event without a line."""
        replay(self.group, event, now_ms)

    def restart(self, causes: Iterable[Cause], now_ms: int) -> None:
        """The rebalance under way is another one than it seemed, of these causes."""
        self.group.wanted = []
        self._apply(e.RebalanceStarted(tuple(causes), now_ms + self.group.rebalance_timeout_ms()), now_ms)

    def lost_join(self, member_id: str) -> SeenRequest | None:
        """The member's JoinGroup, where its connection ended before the response."""
        token = self.group.waiting_joins.get(member_id)
        waiting = [*self.in_flight, *(seen for seen, _ in self.held_back)]
        return token if isinstance(token, SeenRequest) and token not in waiting else None

    def drop_reservations(self, now_ms: int) -> None:
        """Ids that were given out and not used in time."""
        for member_id in [i for i, r in self.group.reservations.items() if r.deadline_ms <= now_ms]:
            self.apply([e.ReservationDropped(member_id, Cause("session_timeout", member_id))], now_ms, SILENT)

    # -- what is not stated -------------------------------------------------------------------------------------------

    def silent(self, now_ms: int) -> list[Member]:
        """Members whose session is over, by the time since their last response."""
        group = self.group
        return [
            m
            for m in group.members.values()
            if m.deadline_ms - SILENT_SLACK_MS <= now_ms
            and not (group.is_waiting(m.member_id) or m.is_new or m.member_id in self.strangers)
        ]

    def remove_silent(self, now_ms: int, evidence: Evidence = OBSERVED) -> bool:
        """Removes them, at the ends of their sessions; whether there was one."""
        silent = sorted(self.silent(now_ms), key=lambda member: member.deadline_ms)
        for member in silent:
            at_ms = min(member.deadline_ms, now_ms)
            self.apply([e.MemberRemoved(member.member_id, self.cause("session_timeout", member))], at_ms, evidence)
        return bool(silent)

    def gone(self, member: Member, now_ms: int) -> None:
        """The coordinator has no such member any more."""
        group = self.group
        began_ms, timeout_ms = group.phase_since_ms, group.rebalance_timeout_ms()
        if member in self.silent(now_ms):
            self.remove_silent(now_ms)
        elif group.phase == PREPARING and now_ms - began_ms + SILENT_SLACK_MS >= timeout_ms:
            self.apply([e.MemberRemoved(member.member_id, self.cause("rebalance_timeout", member))], now_ms)
        else:
            self.apply([e.MemberRemoved(member.member_id, self.cause("member_gone", member))], now_ms, UNKNOWN)

    def start(self, now_ms: int) -> None:
        """A rebalance whose cause is not known yet."""
        self.is_unexplained = True
        self._apply(e.RebalanceStarted((), now_ms + self.group.rebalance_timeout_ms()), now_ms)

    def want(self, now_ms: int) -> None:
        """A rebalance whose cause nothing here has shown."""
        self.apply([e.RebalanceWanted(Cause(NOT_SEEN))], now_ms, UNKNOWN)

    @staticmethod
    def cause(kind: str, member: Member) -> Cause:
        return Cause(kind, member.member_id, member.client_id, member.group_instance_id)


def form_missed(one: ObservedClassicGroup, response: Any, kept: Collection[str], now_ms: int) -> None:
    """Generations that formed, or groups that were empty, while no JoinGroup was open whose response would have passed: the
    connections of their members had ended. A later response shows by its generation that there was one.

    ``response``: a JoinGroup's, which ends the phase; ``kept``: members that are in its generation. The others whose
    connections ended were the missed generation; who joined after it did so in the phase that ends now."""
    group, missed = one.group, response.generation_id - 1
    if missed <= group.generation:
        return
    lost = {i: seen for i in group.waiting_joins if i not in kept and (seen := one.lost_join(i)) is not None}
    later = [(group.members[i], token) for i, token in group.waiting_joins.items() if i not in lost]
    sent = [token.sent_ms for _, token in later if isinstance(token, SeenRequest)]
    began_ms = min(sent, default=group.phase_since_ms)
    for member_id, seen in lost.items():  # its session began with the generation, soon after it had joined
        restart_session(group, member_id, seen.sent_ms + group.members[member_id].session_timeout_ms)
    before = [m for m in group.members.values() if not group.is_waiting(m.member_id)]
    expired = [m for m in before if m.deadline_ms <= began_ms]
    if not lost and (not expired or len(expired) < len(before)):
        return
    earlier = [cause for time_ms, cause in one.causes if time_ms < began_ms]
    causes = [cause for time_ms, cause in one.causes if time_ms >= began_ms and cause.member_id not in lost]
    # Of these none was in the missed generation; without one, the last to expire left the group empty.
    for member in [*(expired if lost else []), *(member for member, _ in later)]:
        one.replay_silently(e.MemberRemoved(member.member_id, one.cause("member_gone", member)), began_ms)
    if lost:
        # A group that was empty waits for its initial delay alone; any other, for the members of before.
        is_over = all(member.deadline_ms <= began_ms for member in group.members.values())
        waited_ms = now_ms - max(sent, default=now_ms)
        was_empty = is_over and missed > group.generation + 1 and waited_ms < LONG_WAIT_MS
        generation, leader = missed - was_empty, next(iter(lost))
    else:
        was_empty, generation, leader = True, group.generation, expired[0].member_id
    one.replay_silently(
        e.GenerationFormed(generation, response.protocol_name or "", leader, None), group.phase_since_ms
    )
    if was_empty:
        if not lost:
            one.restart(earlier, group.phase_since_ms)
        one.remove_silent(began_ms, SILENT)
        one.end_empty(began_ms)
    for member, token in later:
        joined = e.MemberJoined(member, response.protocol_type or "", token, one.cause("member_joined", member))
        one.replay_silently(joined, began_ms)
    one.restart(causes, began_ms)
