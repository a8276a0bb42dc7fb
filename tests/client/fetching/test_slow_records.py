"""Work that takes long between two records of `async for` (issue M, 4), in virtual time: each record counts as a poll, what was
handed out is committed, and an iterator whose partitions are lost stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import Consumer, PartitionsLostError, TopicPartition
from coterie.client.blocking import BlockingConsumer
from coterie.testing import LocalBroker, simulate

RECORDS = 100
INTERVAL_MS = 10_000  # max.poll.interval.ms
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
Work = Callable[[], Awaitable[None]]


def settings_of(servers: str, protocol: str = "classic") -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "group.id": "billing",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": INTERVAL_MS,
        "metadata.max.age.ms": 1_000,
    }


async def work() -> None:
    """Other tasks of the loop run meanwhile."""
    await asyncio.sleep(1)


async def work_that_holds_the_loop() -> None:
    loop: Any = asyncio.get_running_loop()
    loop.now_s += 1


class Reader:
    """One consumer and what it has done; ``paces``: seconds of work for a record, by offset."""

    def __init__(self, settings: dict[str, Any], work: Work = work) -> None:
        self.offsets: list[int] = []
        self.lost: list[frozenset[TopicPartition]] = []
        self.settings, self.work, self.paces = settings, work, dict[int, int]()

    async def read(self) -> None:
        consumer = Consumer(self.settings)
        consumer.subscribe(["t"])
        while True:
            try:
                async for record in consumer:
                    self.offsets.append(record.offset)
                    for _ in range(self.paces.pop(record.offset, 1)):
                        await self.work()
            except PartitionsLostError as error:
                self.lost.append(error.partitions)


def filled(world: Any) -> Any:
    broker = world.broker()
    broker.create_topic("t", 1)
    broker.produce("t", *(b"%d" % n for n in range(RECORDS)))
    return broker


@PROTOCOLS
@pytest.mark.parametrize("doing", [work, work_that_holds_the_loop])
def test_a_hundred_seconds_of_work_on_a_hundred_records(protocol: str, doing: Work) -> None:
    """Ten times max.poll.interval.ms in one fetch."""
    with simulate() as world:
        broker = filled(world)
        reader = Reader(settings_of(broker.bootstrap_servers, protocol), doing)
        world.spawn("one", reader.read)
        broker.until_stable("billing", members=1)
        generation = broker.until_stable("billing", members=1)
        world.until(lambda: len(reader.offsets) >= RECORDS // 2, "half of the records")
        half = reader.offsets[-1]
        # Every five seconds what was worked on, and no more; a loop that is held takes some turns to send it.
        assert half - 12 <= broker.committed("billing")["t", 0] <= half
        world.until(lambda: len(reader.offsets) == RECORDS, "all records")
        world.advance(20)
        assert reader.offsets == list(range(RECORDS))
        assert reader.lost == []
        assert broker.committed("billing") == {("t", 0): RECORDS}
        assert broker.until_stable("billing", members=1) == generation


@PROTOCOLS
@pytest.mark.parametrize("doing", [work, work_that_holds_the_loop])
def test_one_record_that_takes_longer_than_the_interval_stops_the_iterator(
    protocol: str, doing: Work, caplog: pytest.LogCaptureFixture
) -> None:
    with simulate() as world:
        broker = filled(world)
        reader = Reader(settings_of(broker.bootstrap_servers, protocol), doing)
        reader.paces[20] = 30
        world.spawn("one", reader.read)
        world.until(lambda: reader.lost, "the error")
        assert reader.lost == [{("t", 0)}]
        assert reader.offsets == list(range(21)), "no further record of what was lost"
        committed = broker.committed("billing")["t", 0]
        assert 8 <= committed <= 20
        world.until(lambda: len(reader.offsets) == 21 + RECORDS - committed, "the others")
        assert reader.offsets[21:] == list(range(committed, RECORDS)), "again from the last commit"
        world.advance(20)
        assert len(reader.lost) == 1
    (warning,) = [text for text in caplog.messages if "max.poll.interval.ms" in text]
    assert warning.startswith(
        "a member leaves group billing, and its partitions go to others: poll was not called for max"
    )


@PROTOCOLS
def test_a_batch_of_poll_that_takes_longer_than_the_interval_is_warned_of(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The records are the caller's by then; none that is still buffered follows them."""
    offsets: list[list[int]] = []

    async def read(settings: dict[str, Any]) -> None:
        consumer = Consumer(settings | {"max.poll.records": 30})
        consumer.subscribe(["t"])
        while True:
            for records in (await consumer.poll(1_000)).values():
                offsets.append([record.offset for record in records])
                if len(offsets) <= 2:
                    loop: Any = asyncio.get_running_loop()
                    loop.now_s += 30

    with simulate() as world:
        broker = filled(world)
        world.spawn("one", read, settings_of(broker.bootstrap_servers, protocol))
        world.until(lambda: sum(map(len, offsets)) >= 2 * 30 + RECORDS, "all records")
        first = list(range(30))
        assert offsets[:3] == [first, first, first], "from the last commit, of which there is none"
    assert sum("a member leaves group billing" in text for text in caplog.messages) == 2


def test_polls_that_find_records_at_hand_let_the_loop_run() -> None:
    """User code that never awaits and has records at hand: heartbeats and commits go out between its polls."""

    async def read(settings: dict[str, Any]) -> None:
        consumer = Consumer(settings | {"max.poll.records": 1})
        consumer.subscribe(["t"])
        while True:
            await consumer.poll(1_000)
            await work_that_holds_the_loop()

    with simulate() as world:
        broker = filled(world)
        world.spawn("one", read, settings_of(broker.bootstrap_servers))
        broker.until_committed("billing", {("t", 0): RECORDS // 2}, timeout_s=RECORDS)
        assert broker.requested("Heartbeat") >= 5
        assert broker.requested("JoinGroup") <= 2


def test_a_blocking_iterator_counts_as_polling_with_each_record(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", *(b"%d" % n for n in range(5)))
    polled_ms: list[int] = []
    with BlockingConsumer(settings_of(coterie_broker.bootstrap_servers)) as consumer:
        consumer.subscribe(["t"])
        for record in consumer:
            membership = consumer._client._membership
            assert membership is not None
            machine: Any = membership.machine
            polled_ms.append(machine.state.heartbeat.last_poll_ms)
            if record.offset == 4:
                break
            time.sleep(0.15)
    assert len(set(polled_ms)) == 5, polled_ms


async def test_an_idle_member_that_loses_its_partitions_only_joins_again(coterie_broker: LocalBroker) -> None:
    """Nothing was handed out, so nothing can have gone wrong."""
    coterie_broker.create_topic("t", 1)
    async with Consumer(settings_of(coterie_broker.bootstrap_servers)) as consumer:
        consumer.subscribe(["t"])
        record = asyncio.ensure_future(anext(aiter(consumer)))
        await asyncio.to_thread(coterie_broker.until_stable, "billing")
        coterie_broker.expire("billing", "coterie")
        coterie_broker.produce("t", b"value")
        assert (await record).value == b"value"
