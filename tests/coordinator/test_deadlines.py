"""The heap of deadlines: what members that left have behind them goes, and a group whose record could not be written is settled
again."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coterie.coordinator import deadlines
from coterie.coordinator.commands import DeadlineExpired
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard
from coterie.coordinator.state import Phase
from coterie.coordinator.write_queue import WriteQueue
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest

SESSION_MS = 10_000


class Groups:
    """A shard whose next ``failing`` appends fail."""

    def __init__(self) -> None:
        self.shard = Shard(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
        self.queue = WriteQueue(self.shard, self._append, lambda decision, steps: None, lambda: 65_536)
        self.failing = self.joined = 0

    def _append(self, decisions: list[Decision]) -> None:
        if self.failing:
            self.failing -= 1
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

    def join(self, group_id: str, now_ms: int) -> str:
        """A new member of the group, which then is Stable; its id."""
        self.joined += 1
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(group_id, SESSION_MS, SESSION_MS, "", None, "consumer", protocols)
        self.queue.execute(request, Context(now_ms, self.joined, str(self.joined), 3, "c", "/h"))
        self.queue.write()
        member_id = f"c-{self.joined}"
        generation = self.shard.groups[group_id].generation
        self.queue.execute(SyncGroupRequest(group_id, generation, member_id), Context(now_ms, -self.joined))
        self.queue.write()
        return member_id

    def leave(self, group_id: str, member_id: str, now_ms: int) -> None:
        self.queue.execute(LeaveGroupRequest(group_id, member_id), Context(now_ms, "leave", api_version=2))
        self.queue.write()

    def phases(self) -> set[Phase]:
        return {group.phase for group in self.shard.groups.values()}

    def expired(self, now_ms: int) -> list[DeadlineExpired]:
        commands = []
        for command in self.shard.expired(now_ms):
            commands.append(command)
            self.queue.execute(command, Context(now_ms))
            self.queue.write()
        return commands


def test_members_that_left_leave_no_entries_for_ever() -> None:
    """Each lay in the heap for the five minutes in which a new member may wait to be let in."""
    groups = Groups()
    for n in range(5_000):
        groups.leave("g", groups.join("g", n), n)
    assert len(groups.shard._deadlines) <= deadlines.SWEPT_FROM + 1


def test_a_sweep_keeps_every_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "SWEPT_FROM", 4)
    groups, sizes, members = Groups(), list[int](), dict[str, str]()
    for n in range(50):
        groups.leave(f"g{n}", groups.join(f"g{n}", n), n)
        members[f"g{n}"] = groups.join(f"g{n}", n)
        sizes.append(len(groups.shard._deadlines))
    assert any(after < before for before, after in pairwise(sizes)), "nothing was swept"
    expired = groups.expired(49 + SESSION_MS)
    assert {(command.group_id, command.member_id) for command in expired} >= set(members.items())
    assert groups.phases() == {Phase.EMPTY}


def test_a_member_has_one_entry_however_its_session_moves() -> None:
    """The entry of its first deadline, which came later than its session's, was kept and renewed as well."""
    groups = Groups()
    member_id = groups.join("g", 0)
    for now_ms in range(0, 3_600_000, 5_000):
        groups.queue.execute(HeartbeatRequest("g", 1, member_id), Context(now_ms, "heartbeat"))
        assert groups.expired(now_ms) == []
    assert len(groups.shard._deadlines) == 1


def test_a_group_is_settled_again_where_its_record_was_not_written() -> None:
    groups = Groups()
    member_id = groups.join("g", 0)
    groups.failing = 3
    groups.leave("g", member_id, 1)
    for now_ms in (501, 1001):
        assert groups.phases() == {Phase.PREPARING}
        assert groups.expired(now_ms - 1) == []
        assert groups.expired(now_ms) == [DeadlineExpired("g")], "one attempt at a time, however long the disk fails"
    assert groups.phases() == {Phase.PREPARING}
    assert groups.expired(1501) == [DeadlineExpired("g")]
    assert groups.phases() == {Phase.EMPTY}
