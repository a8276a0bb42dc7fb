"""Committed offsets and the leader epochs with them (KIP-320), where a machine loses the end of a log that a group has read."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer, LogTruncationError, OffsetAndMetadata, Producer
from coterie.log.filesystem import MemoryFileSystem
from tests.client.group import QUICK, polled, read

T0 = ("t", 0)
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
LOST = 2  # of five records


@contextlib.asynccontextmanager
async def running(disk: MemoryFileSystem) -> AsyncIterator[tuple[Broker, dict[str, Any]]]:
    """A broker with its address as clients take it."""
    broker = Broker(BrokerSettings(SETTINGS), memory=disk)
    host, port = await broker.start("127.0.0.1", 0)
    try:
        yield broker, {"bootstrap.servers": f"{host}:{port}"}
    finally:
        await broker.stop()


def without_the_end(broker: Broker, disk: MemoryFileSystem) -> MemoryFileSystem:
    """As the disk is once the power is back: the log lacks its last records."""
    log = broker.topics.partition(*T0).log
    cut_at = next(at for at, header in log.segments[0].headers(0) if header.base_offset == log.end_offset - LOST)
    left = copy.deepcopy(disk)
    left.files["t-0/00000000000000000000.log"].truncate(cut_at)
    return left


async def produce(address: dict[str, Any], *values: bytes) -> None:
    async with Producer(address) as producer:
        for value in values:
            await producer.send_and_wait("t", value)


def reader(address: dict[str, Any], group_id: str, **more: Any) -> Consumer:
    manual = {"group.id": group_id, "enable.auto.commit": False}
    return Consumer(address | QUICK | manual | {name.replace("_", "."): value for name, value in more.items()})


async def before_and_after(story: Any) -> None:
    """Five records are read and committed by two groups, by one of them without the leader epoch; two are lost with the
    machine, and six are appended by its next life. ``story`` gets the address then."""
    disk = MemoryFileSystem()
    async with running(disk) as (broker, address):
        async with Admin(address) as admin:
            await admin.create_topic("t", 1)
            await produce(address, b"a", b"b", b"c", b"d", b"e")
            async with reader(address, "with") as consumer:
                await consumer.assign([T0])
                await polled(consumer, lambda: consumer.position(T0) == 5)
                await consumer.commit()
            await admin.alter_consumer_group_offsets("without", {T0: 5})
            committed = [await admin.list_consumer_group_offsets_metadata(group) for group in ("with", "without")]
            assert committed == [{T0: OffsetAndMetadata(5, 0)}, {T0: OffsetAndMetadata(5, -1)}]
        left = without_the_end(broker, disk)
    async with running(left) as (_, address):
        await produce(address, b"D", b"E", b"F", b"G", b"H", b"I")
        await story(address)


def test_a_log_that_was_cut_behind_a_committed_offset_and_grew_again() -> None:
    """The group goes on where the log was cut. Without the epoch it goes on at an offset that means other records now."""

    async def story(address: dict[str, Any]) -> None:
        async with reader(address, "with") as consumer:
            await consumer.assign([T0])
            assert await read(consumer, 6) == [b"D", b"E", b"F", b"G", b"H", b"I"]
            await consumer.commit()
            assert (await consumer.committed_metadata([T0]))[T0] == OffsetAndMetadata(9, 1)
        async with reader(address, "without") as consumer:
            await consumer.assign([T0])
            assert await read(consumer, 4) == [b"F", b"G", b"H", b"I"], "D and E are never read"

    asyncio.run(before_and_after(story))


def test_without_a_policy_the_reader_is_notified() -> None:
    async def story(address: dict[str, Any]) -> None:
        async with reader(address, "with", auto_offset_reset="none") as consumer:
            await consumer.assign([T0])
            with pytest.raises(LogTruncationError, match="cut by a new leader at 3, before the position 5") as cut:
                await polled(consumer, lambda: False)
            assert cut.value.divergent_offset == OffsetAndMetadata(3, 0)

    asyncio.run(before_and_after(story))
