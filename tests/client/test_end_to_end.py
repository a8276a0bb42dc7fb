"""Our own client against our own broker, in one process, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import (
    Admin,
    Consumer,
    Delivery,
    KafkaError,
    Producer,
    RebalanceListener,
    RecordMetadata,
    TopicPartition,
)
from coterie.client.errors import CommitFailedError
from coterie.client.producer.partitions import murmur2
from coterie.wire.errors import ErrorCode
from tests.awaiting import LoopClock, quiet, until
from tests.broker_process import BrokerProcess
from tests.client.group import polled

FAST = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2", "num.partitions": "4"}


@asynccontextmanager
async def running(settings: dict[str, str] | None = None, data: Path | None = None) -> AsyncIterator[dict[str, Any]]:
    broker = Broker(BrokerSettings(FAST | (settings or {})), data)
    host, port = await broker.start("127.0.0.1", 0)
    try:
        yield {"bootstrap.servers": f"{host}:{port}"}
    finally:
        await broker.stop()


def group_of(address: dict[str, Any], group: str = "g", **more: Any) -> Consumer:
    quick = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest"}
    return Consumer(address | quick | {"group.id": group} | more)


async def produce(address: dict[str, Any], count: int, topic: str = "t", **settings: Any) -> None:
    async with Producer(address | settings) as producer:
        for n in range(count):
            await producer.send(topic, b"v%d" % n, b"k%d" % n, headers=[("n", b"%d" % n)])


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_produced_is_consumed(codec: str) -> None:
    async with running() as address:
        await produce(address, 1000, **{"compression.type": codec})
        async with group_of(address) as consumer:
            consumer.subscribe(["t"])
            got: dict[bytes, bytes] = {}
            while len(got) < 1000:
                for records in (await consumer.poll(2000)).values():
                    for r in records:
                        assert r.key is not None
                        assert r.value is not None
                        assert r.headers == (("n", r.key[1:]),)
                        got[r.key] = r.value
            assert got == {b"k%d" % n: b"v%d" % n for n in range(1000)}


async def test_deliveries_name_partition_and_offset() -> None:
    async with running() as address, Producer(address) as producer:
        first = await producer.send("t", b"a", partition=2)
        second = await producer.send("t", b"b", partition=2)
        await producer.flush()
        assert [(m.partition, m.offset) for m in (await first, await second)] == [(2, 0), (2, 1)]


def test_a_producer_waits_for_a_broker_that_is_not_up_yet(tmp_path: Path) -> None:
    """Found by the soak: a producer that was started while the broker was away gave up at once."""
    process = BrokerProcess(tmp_path / "data")
    process.kill()

    async def send() -> RecordMetadata:
        async with Producer({"bootstrap.servers": process.address}) as producer:
            sending = asyncio.create_task(producer.send("t", b"v"))
            clock = LoopClock()
            for _ in range(3):
                await quiet()
                clock.jump(0.1)
            assert not sending.done()
            await asyncio.to_thread(process.start)
            return await (await sending)

    try:
        assert asyncio.run(send()).offset == 0
    finally:
        process.stop()


async def test_a_record_leaves_after_linger_without_a_flush() -> None:
    """Found by the demo: an idle sender slept on, and a lone record left only with the next full batch."""
    async with running() as address, Producer(address | {"linger.ms": 10}) as producer:
        for n in range(3):
            delivery = await producer.send("t", b"x", partition=0)
            assert (await asyncio.wait_for(_awaited(delivery), 5)).offset == n
            await quiet()


async def _awaited(delivery: Delivery) -> RecordMetadata:
    return await delivery


async def test_a_second_member_takes_its_share_and_gives_it_back() -> None:
    async with running() as address:
        await produce(address, 10)
        events: list[tuple[str, int]] = []

        class Listener(RebalanceListener):
            def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                events.append(("revoked", len(partitions)))

            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                events.append(("assigned", len(partitions)))

        one, two = group_of(address), group_of(address)

        async def both_have_two() -> bool:
            await asyncio.gather(one.poll(100), two.poll(100))
            return len(one.assignment()) == len(two.assignment()) == 2

        one.subscribe(["t"], Listener())
        await until(lambda: _has(one, 4), "the first member owns all")
        two.subscribe(["t"])
        await until(both_have_two, "both own two")
        await two.close()
        await until(lambda: _has(one, 4), "the first member owns all again")
        await one.close()
        assert events == [
            ("assigned", 4),
            ("revoked", 4),
            ("assigned", 2),
            ("revoked", 2),
            ("assigned", 4),
            ("revoked", 4),
        ]


async def _has(consumer: Consumer, count: int) -> bool:
    await consumer.poll(100)
    return len(consumer.assignment()) == count


async def test_a_static_member_returns_without_a_rebalance() -> None:
    async with running() as address, Admin(address) as admin:
        await produce(address, 10)
        one, two = group_of(address), group_of(address, **{"group.instance.id": "i2"})
        one.subscribe(["t"])
        two.subscribe(["t"])

        async def both() -> bool:
            await asyncio.gather(one.poll(100), two.poll(100))
            return len(one.assignment()) == len(two.assignment()) == 2

        await until(both, "both own two")
        generation, held = one.generation, two.assignment()
        await two.close()
        again = group_of(address, **{"group.instance.id": "i2"})
        again.subscribe(["t"])
        await until(lambda: _has(again, 2), "it is back")
        await one.poll(500)
        assert again.assignment() == held
        assert (one.generation, again.generation) == (generation, generation)
        assert (await admin.describe_consumer_group("g")).state == "Stable"
        await one.close()
        await again.close()


async def test_offsets_and_members_survive_a_restart(tmp_path: Path) -> None:
    async with running(data=tmp_path) as address:
        await produce(address, 100)
        async with group_of(address) as consumer:
            consumer.subscribe(["t"])
            count = 0
            while count < 100:
                count += sum(map(len, (await consumer.poll(2000)).values()))
            await consumer.commit()
    async with running(data=tmp_path) as address, Admin(address) as admin:
        await produce(address, 20)
        assert sum(end - at for at, end in (await admin.lag("g")).values()) == 20
        async with group_of(address) as consumer:
            consumer.subscribe(["t"])
            values = set()
            while len(values) < 20:
                values |= {r.value for records in (await consumer.poll(2000)).values() for r in records}
            assert values == {b"v%d" % n for n in range(20)}


async def test_a_commit_after_the_group_moved_on_says_what_to_change() -> None:
    async with running() as address:
        await produce(address, 10)
        slow = group_of(address | {"enable.auto.commit": False})
        slow.subscribe(["t"])
        await until(lambda: _has(slow, 4), "it owns all")
        assert slow._membership is not None
        machine: Any = slow._membership.machine
        stale = replace(machine.state.membership, generation=machine.generation - 1)
        machine.state = replace(machine.state, membership=stale)
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
            await slow.commit()
        await slow.close()


async def test_seek_pause_position_and_lag() -> None:
    async with running() as address:
        async with Producer(address) as producer:
            for n in range(50):
                await producer.send("t", b"%d" % n, partition=0)
        async with Consumer(address) as consumer:
            await consumer.assign([("t", 0)])
            await polled(consumer, lambda: consumer.position(("t", 0)) == 50)
            consumer.seek(("t", 0), 10)
            records = (await consumer.poll(2000, 5))[("t", 0)]
            assert [r.offset for r in records] == [10, 11, 12, 13, 14]
            assert (consumer.position(("t", 0)), consumer.lag()) == (15, {("t", 0): 35})
            consumer.pause([("t", 0)])
            assert await consumer.poll(200) == {}
            consumer.resume([("t", 0)])
            assert (await consumer.poll(2000))[("t", 0)][0].offset == 15


async def test_admin_topics_groups_and_records() -> None:
    async with running() as address, Admin(address) as admin:
        await admin.create_topic("a", 3, {"retention.ms": "1000"})
        assert (await admin.describe_configs("a"))["retention.ms"].value == "1000"
        with pytest.raises(KafkaError) as exists:
            await admin.create_topic("a")
        assert exists.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        await admin.create_partitions("a", 5)
        assert len(await admin.partitions(["a"])) == 5
        await produce(address, 20, "a")
        starts = await admin.delete_records({("a", 0): -1})
        ends = await admin.list_offsets({("a", 0): -1})
        assert starts == ends
        await admin.alter_consumer_group_offsets("simple", {("a", 1): 7})
        assert [g.group_id for g in await admin.list_groups()] == ["simple"]
        assert await admin.list_consumer_group_offsets("simple") == {("a", 1): 7}
        await admin.delete_topic("a")
        assert await admin.list_consumer_group_offsets("simple") == {}
        await admin.delete_consumer_group("simple")
        assert await admin.list_groups() == []


@pytest.mark.parametrize(
    ("key", "expected"),
    # The vectors of Kafka's UtilsTest.testMurmur2.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFF_FFFF


def test_a_group_grows_with_its_topic_and_lives_through_a_broker_restart(tmp_path: Path) -> None:
    """The leader notices new partitions; a broker that is killed and comes back causes no rebalance by itself."""
    process = BrokerProcess(tmp_path / "data")

    async def story() -> None:
        address = {"bootstrap.servers": process.address}
        quick: dict[str, Any] = {"metadata.max.age.ms": 500, "request.timeout.ms": 5000}
        async with Admin(address) as admin, group_of(address, **quick) as consumer:
            await admin.create_topic("t", 2)
            consumer.subscribe(["t"])
            await until(lambda: _has(consumer, 2), "it owns both")
            await admin.create_partitions("t", 5)
            await until(lambda: _has(consumer, 5), "it owns the new ones too")
            generation = consumer.generation
            process.kill()
            process.start()
            await produce(address, 20)
            got = 0
            async with asyncio.timeout(20):
                while got < 20:
                    got += sum(map(len, (await consumer.poll(500)).values()))
            await consumer.commit()
            assert consumer.generation == generation

    try:
        run(story())
    finally:
        process.stop()
