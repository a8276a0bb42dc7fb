"""What is beside a group's generations, as lines of their own: deploys, members that flap, long phases, processes with one
group.instance.id, commits by no member, and a coordinator that is another broker now."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import (
    LIVES_KEPT,
    OBSERVED,
    SLOW_PHASE_MS,
    Life,
    deploy,
    flapping,
    is_due,
    known_cause,
)
from coterie.coordinator.state import COMPLETING, PREPARING
from coterie.proxy.observed.classic_group import ObservedClassicGroup, SeenRequest, error_code
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest

ENDS = ("stable", "empty", "epoch_raised")
JOINED = "member_joined"  # a kind of cause, by which a life begins with one of these events
BEGINNINGS = (JOINED, "epoch_raised")
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(slots=True)
class ObservedPatterns:
    """Of one group; ``emit`` takes the lines."""

    emit: Callable[[JournalLine], None]
    _last: JournalLine | None = None  # the group's
    _lives: deque[Life] = field(default_factory=lambda: deque(maxlen=LIVES_KEPT))
    _reported: dict[tuple[str, str], int] = field(default_factory=dict)
    _slow_since_ms: int = -1  # the beginning of the long phase that was stated last
    _coordinator: int | None = None
    _named: tuple[int, int] | None = None  # as FindCoordinator has it, and since when

    def saw(self, line: JournalLine) -> None:
        """A line of the group is in the journal."""
        self._last = line
        for cause in line.causes:
            has_come = line.event in BEGINNINGS and cause["kind"] == JOINED
            if has_come or line.event == "member_removed":
                client_id = cause.get("client_id", "")
                self._lives.append(Life(line.time_ms, cause.get("member_id", ""), client_id, has_come))
        if line.event in ENDS:
            for shown in (flapping(self._lives, line.time_ms), deploy(self._lives, line.members or 0, line.time_ms)):
                if shown is not None:
                    self._state(shown, line.time_ms)

    def responded(self, seen: SeenRequest, response: Any, now_ms: int) -> None:
        """The coordinator's response to a request for the group."""
        request, code = seen.request, error_code(response)
        if self._named is not None and seen.sent_ms >= self._named[1] and code not in ELSEWHERE:
            self._coordinated(now_ms)
        member_id = getattr(request, "member_id", "")
        if code == ErrorCode.FENCED_INSTANCE_ID:
            instance_id = getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)
            who = {"member_id": member_id, "client_id": seen.client_id}
            self._state(known_cause("instance_fenced", OBSERVED, group_instance_id=instance_id, **who), now_ms)
        elif isinstance(request, OffsetCommitRequest) and not member_id and code == ErrorCode.NONE:
            self._state(known_cause("commit_by_stranger", OBSERVED, client_id=seen.client_id), now_ms)

    def waited(self, one: ObservedClassicGroup, now_ms: int) -> None:
        """The time passes: a phase may be long, of which the member that all others wait for is the cause."""
        group = one.group
        is_long = group.phase in (PREPARING, COMPLETING) and now_ms - group.phase_since_ms >= SLOW_PHASE_MS
        if not is_long or group.phase_since_ms == self._slow_since_ms:
            return
        self._slow_since_ms = group.phase_since_ms
        if group.phase == PREPARING:
            kind, waits_for = "slow_join", [m for m in group.members if m not in group.waiting_joins]
        else:
            sent = {o.request.member_id for o in one.in_flight if isinstance(o.request, SyncGroupRequest)}
            kind, waits_for = "slow_sync", [m for m in group.members if m == group.leader and m not in sent]
        who = group.members[waits_for[0]] if len(waits_for) == 1 else None
        cause = known_cause(kind, OBSERVED)
        if who is not None:
            named = {"member_id": who.member_id, "client_id": who.client_id}
            cause = known_cause(kind, OBSERVED, group_instance_id=who.group_instance_id, **named)
        self._state(cause, now_ms)

    def coordinator_named(self, node_id: int, now_ms: int) -> None:
        """FindCoordinator names that broker; a response of a broker that does not know better yet may name the former one, so
        that a request with its response there decides."""
        if self._named is None or self._named[0] != node_id:
            self._named = node_id, now_ms

    def _coordinated(self, now_ms: int) -> None:
        assert self._named is not None
        former, self._coordinator = self._coordinator, self._named[0]
        if former is None or former == self._coordinator or self._last is None:
            return
        line = self._line("coordinator_moved", now_ms, self._last)
        line.coordinator, line.coordinator_from = self._coordinator, former
        self.emit(line)

    def _state(self, cause: dict[str, str], now_ms: int) -> None:
        if self._last is not None and is_due(self._reported, cause, now_ms):
            line = self._line("pattern_seen", now_ms, self._last)
            line.causes = [cause]
            self.emit(line)

    @staticmethod
    def _line(event: str, now_ms: int, last: JournalLine) -> JournalLine:
        state = last.state_to
        return JournalLine(now_ms, last.group, last.generation, event, state, state, members=last.members)
