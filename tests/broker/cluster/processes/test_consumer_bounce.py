"""Consumers while the brokers of a cluster restart, or are all gone: Kafka's ConsumerBounceTest, by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from coterie.client import KafkaError, TopicPartition
from coterie.client.consumer.consumer import Consumer
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.wire.errors import ErrorCode
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import TOPIC, addresses, all_in_sync, clustered, create, log_of, produce

TP = TopicPartition(TOPIC, 0)
ALL = (1, 2, 3)
MAX_SIZE = 5
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "10",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": str(MAX_SIZE),
    "auto.create.topics.enable": "false",
}
QUICK = {"heartbeat.interval.ms": "100", "metadata.max.age.ms": "200", "request.timeout.ms": "2000"}
GRACE_S = 2.0


def consumer_of(cluster: ClusterBrokers, group: str = "group", **settings: str) -> Consumer[bytes, bytes]:
    given = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    return Consumer({**addresses(cluster), **QUICK, **given, **settings})


async def received(consumer: Consumer[bytes, bytes], count: int) -> list[int]:
    """Offsets of so many records, as they come."""
    offsets: list[int] = []

    async def polled() -> bool:
        for records in (await consumer.poll(50)).values():
            offsets.extend(record.offset for record in records)
        return len(offsets) >= count

    await until(polled, lambda: f"{len(offsets)} of {count} records")
    return offsets


@asynccontextmanager
async def bouncing(cluster: ClusterBrokers) -> AsyncIterator[asyncio.Task[None]]:
    """Each broker in turn is killed and starts again, once all are in sync."""

    async def bounce() -> None:
        for broker in list(cluster.brokers.values()):
            await all_in_sync(cluster, *ALL)
            await broker.kill()
            await until(lambda: len(cluster.live()[0].broker.cluster.live) == 2, "the others to know it")
            await broker.start()
        await all_in_sync(cluster, *ALL)

    task = asyncio.create_task(bounce())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_consumption_with_broker_failures() -> None:
    """testConsumptionWithBrokerFailures: every record in its order, and every commit kept. Kafka ignores the test."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL, {"min.insync.replicas": "2"})
        await produce(cluster, *[b"%d" % number for number in range(100)])
        async with consumer_of(cluster) as consumer, bouncing(cluster) as bounces:
            consumer.subscribe([TOPIC])
            expected, rounds = 0, 0
            while not bounces.done() or not rounds:
                for records in (await consumer.poll(50)).values():
                    for record in records:
                        assert record.offset == expected
                        expected += 1
                    await consumer.commit()
                    assert (await consumer.committed([TP]))[TP] == consumer.position(TP) == expected
                if expected == 100:
                    await consumer.seek_to_beginning()
                    expected, rounds = 0, rounds + 1
            bounces.result()
            assert consumer.assignment() == {TP}


async def test_seek_and_commit_with_broker_failures() -> None:
    """testSeekAndCommitWithBrokerFailures"""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL, {"min.insync.replicas": "2"})
        await produce(cluster, *[b"%d" % number for number in range(100)])
        await until(lambda: {log_of(broker).high_watermark for broker in cluster.live()} == {100})
        async with AsyncExitStack() as stack:
            consumer = await stack.enter_async_context(consumer_of(cluster))
            await consumer.assign([TP])
            bounces, turn = await stack.enter_async_context(bouncing(cluster)), 0
            while not bounces.done() or turn < 6:
                turn += 1
                if turn % 2:
                    await consumer.seek_to_end()
                    assert consumer.position(TP) == 100
                else:
                    consumer.seek(TP, turn % 100)
                    assert consumer.position(TP) == turn % 100
                await consumer.commit()
                assert (await consumer.committed([TP]))[TP] == consumer.position(TP)
            bounces.result()


async def test_subscribe_when_topic_unavailable() -> None:
    """testSubscribeWhenTopicUnavailable: it is created later; and later all brokers are gone for a time."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL, name="other")
        async with consumer_of(cluster, **{"enable.auto.commit": "true"}) as consumer:
            consumer.subscribe([TOPIC])
            assert await consumer.poll(300) == {}
            await create(cluster, ALL)
            values = [b"%d" % number for number in range(50)]
            await produce(cluster, *values)
            assert await received(consumer, 50) == [*range(50)]
            await consumer.commit()
            for broker in cluster.live():
                await broker.kill()
            assert await consumer.poll(100) == {}
            for broker in cluster.brokers.values():
                await broker.start()
            await all_in_sync(cluster, *ALL)
            await produce(cluster, *values)
            assert await received(consumer, 50) == [*range(50, 100)]


async def closed_within(consumer: Consumer[bytes, bytes], seconds: float, timeout_ms: float = 30_000) -> None:
    started_s = time.monotonic()
    await consumer.close(timeout_ms)
    assert time.monotonic() - started_s < seconds + GRACE_S


async def consumed(
    cluster: ClusterBrokers, group: str, *, assigns: bool, session_timeout_ms: int = 60_000
) -> Consumer[bytes, bytes]:
    """A consumer of the ten records, which commits when it is closed."""
    consumer = consumer_of(
        cluster, group, **{"enable.auto.commit": "true", "session.timeout.ms": str(session_timeout_ms)}
    )
    if assigns:
        await consumer.assign([TP])
    else:
        consumer.subscribe([TOPIC])
    await received(consumer, 10)
    return consumer


async def joins_at_once(cluster: ClusterBrokers, group: str) -> int:
    """A new member does not wait for the session of a former one, which is longer; returns the committed offset."""
    async with consumer_of(cluster, group) as consumer:
        consumer.subscribe([TOPIC])

        async def assigned() -> bool:
            await consumer.poll(20)
            return consumer.assignment() == {TP}

        await until(assigned, "an assignment")
        return (await consumer.committed([TP]))[TP]


async def test_close() -> None:
    """testClose: while all is well, while the coordinator is gone, while all brokers are gone."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL)
        await produce(cluster, *[b"%d" % number for number in range(10)])
        await closed_within(await consumed(cluster, "well", assigns=False), 1)
        assert await joins_at_once(cluster, "well") == 10
        await all_in_sync(cluster, *ALL)

        member = await consumed(cluster, "member", assigns=False, session_timeout_ms=3_000)
        alone = await consumed(cluster, "alone", assigns=True)
        coordinator = cluster.coordinator("member")
        assert coordinator is not None
        await coordinator.kill()
        await asyncio.gather(closed_within(member, 2), closed_within(alone, 2))
        await coordinator.start()
        assert await joins_at_once(cluster, "member") in (-1, 10)
        assert await joins_at_once(cluster, "alone") == 10
        await all_in_sync(cluster, *ALL)

        member = await consumed(cluster, "member-2", assigns=False)
        alone = await consumed(cluster, "alone-2", assigns=True)
        for broker in cluster.live():
            await broker.kill()
        # The second one is bounded by request.timeout.ms.
        await asyncio.gather(closed_within(member, 0.5, 500), closed_within(alone, 2))


async def test_rolling_broker_restarts_with_smaller_max_group_size() -> None:
    """testRollingBrokerRestartsWithSmallerMaxGroupSizeConfigDisruptsBigGroup: one of three members has to go."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL)
        await _enlarged(cluster, 6)
        consumers = [consumer_of(cluster) for _ in range(3)]
        failures: list[KafkaError] = []
        polls = [asyncio.create_task(_polled(consumer, failures)) for consumer in consumers]
        await until(lambda: [len(consumer.assignment()) for consumer in consumers] == [2, 2, 2], "a balanced group")
        cluster.settings["group.max.size"] = "2"
        for broker in list(cluster.brokers.values()):
            await broker.stop()
            await broker.start()
            await all_in_sync(cluster, *ALL)
        await until(lambda: failures, "a member that is refused")
        await until(
            lambda: sorted(len(consumer.assignment()) for consumer in consumers)[-2:] == [3, 3], "a group of two"
        )
        assert [error.code for error in failures] == [ErrorCode.GROUP_MAX_SIZE_REACHED]
        await _ended(polls, consumers)


async def test_consumer_receives_fatal_exception_when_group_passes_max_size() -> None:
    """testConsumerReceivesFatalExceptionWhenGroupPassesMaxSize: and the group lives on."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL)
        await _enlarged(cluster, MAX_SIZE)
        consumers, failures = [consumer_of(cluster) for _ in range(MAX_SIZE)], list[KafkaError]()
        counts = [list[int]() for _ in range(MAX_SIZE)]
        polls = [
            asyncio.create_task(_polled(consumer, failures, count))
            for consumer, count in zip(consumers, counts, strict=True)
        ]
        await until(lambda: [len(consumer.assignment()) for consumer in consumers] == [1] * MAX_SIZE, "a full group")
        async with consumer_of(cluster) as extra:
            extra.subscribe([TOPIC])
            with pytest.raises(KafkaError) as refused:
                await received(extra, 1)
        assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        for partition in range(MAX_SIZE):
            await produce(cluster, *[b"%d" % number for number in range(20)], partition=partition)
        await until(lambda: [sum(count) for count in counts] == [20] * MAX_SIZE, lambda: f"records {counts}")
        assert failures == []
        await _ended(polls, consumers)


async def _enlarged(cluster: ClusterBrokers, partitions: int) -> None:
    controller = cluster.controller()
    assert controller is not None
    changes = controller.broker.topic_changes
    assert changes is not None
    await changes.enlarge(TOPIC, partitions, None, validate_only=False)
    await until(lambda: cluster.all_know(TOPIC, partitions), "the partitions")


async def _polled(
    consumer: Consumer[bytes, bytes], failures: list[KafkaError], counts: list[int] | None = None
) -> None:
    """A member that polls until it fails, or is cancelled; ``counts`` gets the number of records of each poll."""
    counts = [] if counts is None else counts
    consumer.subscribe([TOPIC])
    try:
        while True:
            counts += [len(records) for records in (await consumer.poll(50)).values()]
    except KafkaError as error:
        failures.append(error)
        await consumer.close()


async def _ended(polls: list[asyncio.Task[None]], consumers: list[Consumer[bytes, bytes]]) -> None:
    for poll in polls:
        poll.cancel()
    await asyncio.wait(polls)
    await asyncio.gather(*(consumer.close() for consumer in consumers))


async def test_close_during_rebalance() -> None:
    """testCloseDuringRebalance: a member leaves at once; where no broker is there, it ends without."""
    async with clustered(3, SETTINGS) as cluster:
        await create(cluster, ALL)
        await _enlarged(cluster, 10)
        first, second, third, fourth = [consumer_of(cluster, **{"session.timeout.ms": "60000"}) for _ in range(4)]

        async def assigned(*members: Consumer[bytes, bytes]) -> None:
            async def done() -> bool:
                await asyncio.gather(*(member.poll(20) for member in members))
                return {len(member.assignment()) for member in members} == {10 // len(members)}

            await until(done, "an assignment")

        first.subscribe([TOPIC])
        second.subscribe([TOPIC])
        await assigned(first, second)
        third.subscribe([TOPIC])
        assert await third.poll(200) == {}
        await closed_within(first, 1)
        assert third.assignment() == set(), "the second has not polled"
        await assigned(second, third)

        fourth.subscribe([TOPIC])
        assert await fourth.poll(200) == {}
        for broker in cluster.live():
            await broker.kill()
        for consumer in (second, third, fourth):
            await closed_within(consumer, 2, 2_000)
