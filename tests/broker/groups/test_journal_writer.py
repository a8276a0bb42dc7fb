"""The journal's lines are the same, in the same order, whether they are made with each decision or at the end of the turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie.broker.groups.journal_writer import JournalRecord, JournalWriter
from coterie.broker.storage.replica_effects import ReplicaEffects
from coterie.coordinator.commands import Command
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.write_queue import drive
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CLIENT = 'c"ä'


class OneTurn:
    """Writers of the journal of one shard, whose requests all come in one turn of the loop."""

    def __init__(self, writers: int) -> None:
        self.shard = Shard(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
        self.written: list[list[JournalRecord]] = []
        self.due: list[Callable[[], object]] = []
        self.writers = [self._writer() for _ in range(writers)]
        self.now_ms = 0

    def _writer(self) -> JournalWriter:
        topics = SimpleNamespace(in_cluster=True, name_of=lambda *_: None)
        scheduler = SimpleNamespace(call_soon=self.due.append)
        writer = JournalWriter(cast(Any, topics), cast(Any, scheduler), ReplicaEffects(), True)
        writer.send = self.written.append
        return writer

    def submit(self, command: Command, member_id: str, version: int = 3) -> None:
        self.now_ms += 1
        ctx = Context(self.now_ms, member_id, member_id, version, CLIENT, "/h")
        drive(self.shard, self.shard.decide(command, ctx), lambda decisions: None, self._committed)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for writer in self.writers:
            writer.record(decision, steps)

    def end(self) -> None:
        for write in self.due:
            write()


def _join(group_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0\0\0\0\0")]
    )


@pytest.mark.parametrize("loads", [False, True])
def test_lines_made_at_the_end_of_a_turn_are_those_made_at_once(loads: bool) -> None:
    turn, at_once = OneTurn(2), list[JournalLine]()
    turn.writers[0].listeners.append(at_once.append)
    turn.submit(_join("g"), "one")
    turn.submit(_join("h"), "two")
    turn.submit(LeaveGroupRequest("g", f"{CLIENT}-one"), "", 2)
    if loads:
        for writer in turn.writers:
            for group in turn.shard.every_group():
                writer.loaded(group)
    for epoch in (0, 1):  # the group becomes one of the consumer protocol
        beat = ConsumerGroupHeartbeatRequest("g", "three", epoch, None, None, 10_000, ["t"], topic_partitions=[])
        turn.submit(beat, "", 1)
    shares = [SyncGroupRequestAssignment(f"{CLIENT}-two", b"")]
    turn.submit(SyncGroupRequest("h", 1, f"{CLIENT}-two", assignments=shares), "")
    turn.submit(LeaveGroupRequest("h", f"{CLIENT}-two"), "", 2)
    assert len(turn.due) == 2, "one write of each writer for the turn"
    turn.end()
    first, second = turn.written
    assert first == second
    assert [line.to_json().encode() for line in at_once] == [value for _, _, value, _ in first]
    generic = [json.dumps(json.loads(value), separators=(",", ":")) for _, _, value, _ in first]
    assert generic == [value.decode() for _, _, value, _ in first]
    events = [line.event for line in at_once if line.group == "g"]
    assert events[:3] == ["member_joined", "rebalance_started", "generation_formed"]
    assert events[3:6] == ["member_removed", "rebalance_started", "empty"]
    (stable,) = [line for line in at_once if line.event == "stable"]
    assert (stable.sync_ms is None) == loads, "the beginning of a phase is not loaded"
    assert {"group_removed", "epoch_raised", "target_computed"} <= set(events[6:])


def test_a_turn_without_lines_writes_nothing() -> None:
    turn = OneTurn(1)
    turn.writers[0].write()
    assert turn.written == []
