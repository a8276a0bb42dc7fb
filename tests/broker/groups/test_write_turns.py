"""What the coordinator decides in one turn of the loop is one write; its responses leave after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.requests.pending import Pending
from coterie.broker.settings import BrokerSettings
from coterie.records.batch import batches
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.awaiting import until

COMMITS = 10


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
