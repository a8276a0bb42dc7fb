"""What the coordinator decides in one turn of the loop is one write; its responses leave after it. The journal's lines
are the same, in the same order, whether they are made with each decision or at the end of the turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie.broker.broker import Broker
from coterie.broker.groups.journal_writer import JournalRecord, JournalWriter
from coterie.broker.requests.pending import Pending
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.coordinator.commands import Command
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.write_queue import drive
from coterie.records.batch import batches
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.awaiting import until

COMMITS = 10
CLIENT = 'c"ä'


def commit(broker: Broker, group: str, partition: int) -> Pending:
    pending = Pending()
    partitions = [OffsetCommitRequestPartition(partition, 5, -1, committed_metadata="")]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    broker.groups.submit(request, pending, 8, "c", "/h")
    return pending


def codes(pendings: list[Pending]) -> list[int]:
    every: list[int] = []
    for pending in pendings:
        response: Any = pending.response
        every.append(response.topics[0].partitions[0].error_code)
    return every


def batch_sizes(broker: Broker) -> list[int]:
    """The number of records in each batch of the only partition of `__consumer_offsets`."""
    (partition,) = broker.topics.offsets_topic().partitions
    return [header.record_count for _, header in batches(partition.log.read(0, 1_000_000))]


@contextlib.asynccontextmanager
async def serving(folder: Path, **settings: str) -> AsyncIterator[Broker]:
    given = {"offsets.topic.num.partitions": "1"} | {name.replace("_", "."): value for name, value in settings.items()}
    broker = Broker(BrokerSettings(given), folder)
    await broker.start("127.0.0.1", 0)
    await asyncio.sleep(0)
    try:
        yield broker
    finally:
        await broker.stop()


async def test_one_turn_is_one_batch(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        pendings = [commit(broker, f"g{n}", 0) for n in range(COMMITS)]
        assert all(pending.response is None for pending in pendings)
        await asyncio.sleep(0)
        assert codes(pendings) == [ErrorCode.NONE] * COMMITS
        assert batch_sizes(broker) == [COMMITS]


async def test_who_reads_a_group_sees_what_was_decided_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        pending = commit(broker, "g", 0)
        group = broker.groups.group("g")
        assert group is not None
        assert list(group.offsets) == [("t", 0)]
        assert codes([pending]) == [ErrorCode.NONE]
        commit(broker, "h", 0)
        assert [group.group_id for group in broker.groups.groups()] == ["g", "h"]
        commit(broker, "i", 0)
        assert len(list(broker.groups.loaded_groups())) == 3


async def test_a_write_that_fails_refuses_what_it_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as broker:
        before = commit(broker, "g", 0)
        await asyncio.sleep(0)
        (partition,) = broker.topics.offsets_topic().partitions
        with monkeypatch.context() as patch:
            patch.setattr(partition.log.segments[-1].file, "append", fail)
            refused = [commit(broker, "g", 1), commit(broker, "h", 0)]
            await asyncio.sleep(0)
        after = [commit(broker, "g", 2), commit(broker, "h", 1)]
        await asyncio.sleep(0)
        assert codes([before, *refused, *after]) == [0, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, 0, 0]
        assert batch_sizes(broker) == [1, 2]
        groups = {group.group_id: list(group.offsets) for group in broker.groups.groups()}
        assert groups == {"g": [("t", 0), ("t", 2)], "h": [("t", 1)]}


async def test_with_fsync_responses_wait_for_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, log_flush_interval_messages="1") as broker:
        broker.groups.ready()
        (partition,) = broker.topics.offsets_topic().partitions
        file, syncs = partition.log.segments[-1].file, count()
        sync = file.sync
        monkeypatch.setattr(file, "sync", lambda: next(syncs) >= 0 and sync())
        pendings = [commit(broker, f"g{n}", 0) for n in range(COMMITS)]
        await asyncio.sleep(0)
        assert batch_sizes(broker) == [COMMITS]
        assert all(pending.response is None for pending in pendings)
        await until(lambda: pendings[-1].response is not None, "the responses come")
        assert codes(pendings) == [ErrorCode.NONE] * COMMITS
        assert next(syncs) == 1


async def test_with_fsync_a_sync_that_fails_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, log_flush_interval_messages="1") as broker:
        broker.groups.ready()
        (partition,) = broker.topics.offsets_topic().partitions
        monkeypatch.setattr(partition.log.segments[-1].file, "sync", fail)
        pendings = [commit(broker, f"g{n}", 0) for n in range(COMMITS)]
        async with asyncio.timeout(30):
            await broker.failed.wait()
        assert all(pending.response is None for pending in pendings)


def fail(*_: object) -> None:
    raise OSError(5, "Input/output error")


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
