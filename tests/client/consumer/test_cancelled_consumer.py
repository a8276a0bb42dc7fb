"""Each call of a consumer is cancelled at each of its awaits. Then the consumer works on: no record is left out or returned
twice, no commit goes astray, and a membership that is given up is over."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import pytest

from coterie.client import Consumer, RebalanceListener, TopicPartition
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until
from tests.client.cancelling import Cancelled, at_every_await
from tests.client.group import QUICK

_NUMBERS = itertools.count()
RECORDS = 5
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class SlowListener(RebalanceListener):
    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


class Reader:
    """A consumer, of a group and a topic of its own for each story; the topic has two partitions, and the first has the records
    0, 1, ... RECORDS - 1. ``values``: those of the records that were returned."""

    def __init__(self, broker: LocalBroker, protocol: str = "classic", **settings: object) -> None:
        self.broker, self.name = broker, f"t{next(_NUMBERS)}"
        self._before = set(threading.enumerate())  # another test's consumer may have left its own
        broker.create_topic(self.name, 2)
        self.first, self.second = TopicPartition(self.name, 0), TopicPartition(self.name, 1)
        self.produce(*range(RECORDS))
        group = {"bootstrap.servers": broker.bootstrap_servers, "group.id": self.name, "group.protocol": protocol}
        quick = {key: value for key, value in QUICK.items() if protocol == "classic" or key != "heartbeat.interval.ms"}
        more = {key.replace("_", "."): value for key, value in settings.items()}
        self.consumer: Consumer[bytes, bytes] = Consumer(group | quick | more)
        self.values: list[int] = []

    def produce(self, *values: int) -> None:
        self.broker.produce(self.name, *(b"%d" % value for value in values), partition=0)

    async def poll(self, most: int | None = None) -> None:
        for records in (await self.consumer.poll(50, most)).values():
            self.values += [int(record.value or b"") for record in records]

    async def read(self, count: int) -> list[int]:
        """Polls until so many values have come; returns them all."""
        while len(self.values) < count:
            await self.poll()
        return self.values

    async def join(self) -> None:
        self.consumer.subscribe([self.name])
        while len(self.consumer.assignment()) < 2:
            await self.poll()

    async def close(self) -> None:
        """Nothing is left behind: no task, no thread, no member."""
        await self.consumer.close()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks)
        await until(lambda: not self._heartbeats(), threading.enumerate)
        assert self.broker.members(self.name) == {}

    def _heartbeats(self) -> list[threading.Thread]:
        return [t for t in set(threading.enumerate()) - self._before if t.name == "coterie-heartbeat"]

    def committed(self) -> int:
        return self.broker.committed(self.name).get(self.first, -1)


@PROTOCOLS
@pytest.mark.parametrize("is_auto", [True, False])
@at_every_await()
async def test_the_poll_that_joins(
    cancelled: Cancelled, coterie_broker: LocalBroker, protocol: str, is_auto: bool
) -> None:
    reader = Reader(coterie_broker, protocol, enable_auto_commit=is_auto)

    async def poll() -> None:
        while not reader.values:
            await reader.poll(2)

    reader.consumer.subscribe([reader.name])
    await cancelled.during(poll())
    assert await reader.read(RECORDS) == list(range(RECORDS))
    if not is_auto:
        await reader.consumer.commit()
    await reader.close()
    assert reader.committed() == RECORDS


@pytest.mark.parametrize("as_arrow", [True, False])
@at_every_await()
async def test_a_poll(cancelled: Cancelled, coterie_broker: LocalBroker, as_arrow: bool) -> None:
    reader = Reader(coterie_broker)
    await reader.join()
    await reader.read(RECORDS)
    reader.produce(*range(RECORDS, 9))

    async def poll() -> None:
        while len(reader.values) == RECORDS:
            if as_arrow:
                table = await reader.consumer.poll_arrow(200)
                reader.values += [int(value) for value in table["value"].to_pylist()]
            else:
                await reader.poll(2)

    await cancelled.during(poll())
    assert await reader.read(9) == list(range(9))
    await reader.close()
    assert reader.committed() == 9


@PROTOCOLS
@pytest.mark.parametrize("name", ["commit", "commit given offsets", "wait for an asynchronous commit"])
@at_every_await()
async def test_a_commit(cancelled: Cancelled, coterie_broker: LocalBroker, protocol: str, name: str) -> None:
    """It may be made or not, but never after a later one."""
    reader = Reader(coterie_broker, protocol, enable_auto_commit=False)
    await reader.join()
    await reader.read(RECORDS)
    consumer = reader.consumer
    if name.startswith("wait"):
        consumer.pause(consumer.assignment())
        consumer.commit_async({reader.first: 1})
    await cancelled.during(consumer.commit({reader.first: 2}, 5_000) if "given" in name else consumer.commit())
    assert cancelled.is_due or reader.committed() == (2 if "given" in name else RECORDS)
    await consumer.commit({reader.first: 3})
    assert reader.committed() == 3
    assert await consumer.committed([reader.first]) == {reader.first: 3}
    await reader.close()
    assert reader.committed() == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [("committed", 3), ("end_offsets", RECORDS), ("beginning_offsets", 0), ("offsets_for_times", 0)],
)
@at_every_await()
async def test_a_lookup_of_offsets(cancelled: Cancelled, coterie_broker: LocalBroker, name: str, expected: int) -> None:
    reader = Reader(coterie_broker)
    await reader.consumer.commit({reader.first: 3})
    call: Callable[[Any], Awaitable[object]] = getattr(reader.consumer, name)
    requested = {reader.first: 0} if name == "offsets_for_times" else [reader.first]
    await cancelled.during(call(requested))
    assert await call(requested) == {reader.first: expected}
    await reader.close()


@pytest.mark.parametrize(("name", "expected"), [("seek_to_beginning", 0), ("seek_to_end", RECORDS)])
@at_every_await()
async def test_a_seek(cancelled: Cancelled, coterie_broker: LocalBroker, name: str, expected: int) -> None:
    """The position is that of before, or the new one."""
    reader = Reader(coterie_broker)
    await reader.join()
    reader.consumer.seek(reader.first, 2)
    reader.values.clear()
    await cancelled.during(getattr(reader.consumer, name)([reader.first]))
    position = reader.consumer.position(reader.first)
    assert position == expected or (cancelled.is_due and position == 2)
    reader.produce(RECORDS)
    assert await reader.read(RECORDS + 1 - position) == list(range(position, RECORDS + 1))
    await reader.close()


# -- the end of a membership ------------------------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("listener", [None, SlowListener()], ids=["no listener", "slow listener"])
@at_every_await()
async def test_an_unsubscribe(
    cancelled: Cancelled, coterie_broker: LocalBroker, protocol: str, listener: RebalanceListener | None
) -> None:
    """Nothing is assigned any more, and the group is left; another subscription or assignment is possible."""
    reader = Reader(coterie_broker, protocol)
    await reader.join()
    reader.consumer.subscribe([reader.name], listener)
    await reader.read(RECORDS)
    await cancelled.during(reader.consumer.unsubscribe())
    assert reader.consumer.assignment() == set()
    assert reader.consumer.subscription() == set()
    await until(lambda: not coterie_broker.members(reader.name), "the group is left")
    await reader.consumer.assign([reader.first])
    reader.consumer.seek(reader.first, 1)
    assert await reader.read(2 * RECORDS - 1) == [*range(RECORDS), *range(1, RECORDS)]
    await reader.consumer.unsubscribe()
    await reader.join()
    await reader.close()


@PROTOCOLS
async def test_a_lookup_of_the_membership_before_is_of_no_interest(coterie_broker: LocalBroker, protocol: str) -> None:
    """Its error came before the `unsubscribe`, and no poll was there to raise it."""
    reader = Reader(coterie_broker, protocol)
    coterie_broker.fail("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=1)
    reader.consumer.subscribe([reader.name])
    lookups = reader.consumer._loop._lookups
    while not lookups:
        await reader.consumer.poll()
    await asyncio.wait(lookups)
    await reader.consumer.unsubscribe()
    await reader.join()
    await reader.read(RECORDS)
    await reader.close()


@at_every_await()
async def test_an_unsubscribe_from_an_assignment(cancelled: Cancelled, coterie_broker: LocalBroker) -> None:
    reader = Reader(coterie_broker)
    await reader.consumer.assign([reader.first])
    await reader.read(RECORDS)
    await cancelled.during(reader.consumer.unsubscribe())
    assert reader.consumer.assignment() == set()
    await reader.join()
    await reader.close()


@PROTOCOLS
@pytest.mark.parametrize("listener", [None, SlowListener()], ids=["no listener", "slow listener"])
@at_every_await()
async def test_a_close(
    cancelled: Cancelled, coterie_broker: LocalBroker, protocol: str, listener: RebalanceListener | None
) -> None:
    """The group is left, and no heartbeat goes out any more."""
    reader = Reader(coterie_broker, protocol)
    await reader.join()
    reader.consumer.subscribe([reader.name], listener)
    await reader.read(RECORDS)
    await cancelled.during(reader.consumer.close())
    await until(lambda: not coterie_broker.members(reader.name), "the group is left")
    await reader.close()
    assert cancelled.is_due or reader.committed() == RECORDS


@PROTOCOLS
@at_every_await(least=0)
async def test_a_close_while_the_group_is_being_joined(
    cancelled: Cancelled, coterie_broker: LocalBroker, protocol: str
) -> None:
    reader = Reader(coterie_broker, protocol)
    reader.consumer.subscribe([reader.name])
    await reader.poll()
    await cancelled.during(reader.consumer.close())
    await until(lambda: not coterie_broker.members(reader.name), "the group is left")
    await reader.close()
