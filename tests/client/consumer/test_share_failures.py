"""Share consumers whose brokers, coordinators, topics or neighbours fail (Kafka's ShareConsumerTest), in virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from coterie.client import AcknowledgeType, Admin, KafkaError, TopicPartition
from tests.client.consumer.share_groups import (
    EXPLICIT,
    LIMIT_S,
    T0,
    ShareGroups,
    counts,
    in_share_groups,
    polled,
    share_groups,
)


@pytest.mark.parametrize("ends", ["stop", "pause"])
def test_a_close_once_the_broker_is_gone(ends: str) -> None:
    """testConsumerCloseOnBrokerShutdown: it waits for the brokers no longer than its bound"""
    with share_groups() as (world, groups):
        consumer = groups.consumer()

        async def read() -> None:
            consumer.subscribe(["t"])
            await groups.send(b"one")
            await polled(consumer)

        world.run(read(), LIMIT_S)
        groups.broker.stop() if ends == "stop" else groups.broker.pause()
        before_s = world.now_s
        world.run(consumer.close(5_000), LIMIT_S)
        assert world.now_s - before_s < 15


@pytest.mark.parametrize(
    "how",
    ["implicit", "commit", "commit_async"],
    ids=[
        "testLeaderRestartWithoutLeadershipChangeImplicitAcknowledgement",
        "testLeaderRestartWithoutLeadershipChangeExplicitAcknowledgementSync",
        "testLeaderRestartWithoutLeadershipChangeExplicitAcknowledgementAsync",
    ],
)
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_a_leader_that_starts_again(how: str, ends: str) -> None:
    """What the member had is released with its session: its acknowledgement fails, and the record comes once more."""
    with share_groups() as (world, groups):
        consumer = groups.consumer(**({} if how == "implicit" else EXPLICIT))
        failed: list[bool] = []

        async def read() -> None:
            consumer.set_acknowledgement_commit_callback(lambda offsets, error: failed.append(error is not None))
            consumer.subscribe(["t"])
            await groups.send(b"one")
            assert counts(await polled(consumer)) == [(0, 1)]

        async def read_on() -> None:
            if how != "implicit":
                consumer.acknowledge(("t", 0, 0))
                results = await (consumer.commit() if how == "commit" else consumer.commit_async())
                assert isinstance(results[T0], KafkaError)
            await groups.send(b"two")
            again = await polled(consumer, 2)
            assert [record.value for record in again] == [b"one", b"two"]
            if how != "implicit":
                for record in again:
                    consumer.acknowledge(record)
            assert await consumer.commit() == {T0: None}
            assert await consumer.poll(3_000) == {}
            await consumer.close()

        world.run(read(), LIMIT_S)
        groups.broker.stop() if ends == "stop" else groups.broker.kill()
        groups.broker.restart()
        world.run(read_on(), LIMIT_S)
        assert failed == [True, False]


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_records_that_were_buffered_when_the_broker_ended(ends: str) -> None:
    """The broker has released them with the session, and another member has accepted them (seed 61221 of the kinds)."""
    with share_groups() as (world, groups):
        consumer = groups.consumer()

        async def buffer() -> None:
            consumer.subscribe(["t"])
            assert await consumer.poll(5_000) == {}
            await groups.send(b"one")
            await asyncio.sleep(1)

        async def accept() -> None:
            async with groups.consumer() as other:
                other.subscribe(["t"])
                await polled(other)
                assert await other.commit() == {T0: None}

        async def read_on() -> None:
            assert await consumer.poll(3_000) == {}
            await groups.send(b"two")
            assert [record.value for record in await polled(consumer)] == [b"two"]
            await consumer.close()

        world.run(buffer(), LIMIT_S)
        groups.broker.stop() if ends == "stop" else groups.broker.kill()
        groups.broker.restart()
        world.run(accept(), LIMIT_S)
        world.run(read_on(), LIMIT_S)


@in_share_groups()
async def test_a_consumer_that_fails_leaves_its_records_to_the_others(groups: ShareGroups) -> None:
    """testMultipleConsumersInGroupFailureConcurrentConsumption"""
    total, seen = 200, set[int]()

    async def fail(groups: ShareGroups) -> None:
        async with groups.consumer(max_poll_records=5, **EXPLICIT) as consumer:
            consumer.subscribe(["t"])
            await polled(consumer)
            with pytest.raises(RuntimeError, match="not acknowledged"):
                await consumer.poll(1_000)

    async def read(groups: ShareGroups) -> None:
        async with groups.consumer(max_poll_records=5) as consumer:
            consumer.subscribe(["t"])
            while len(seen) < total:
                seen.update(record.offset for each in (await consumer.poll(500)).values() for record in each)
                await consumer.commit()

    for _ in range(total // 10):
        await groups.send(*[b"x"] * 10)
    await asyncio.gather(fail(groups), fail(groups), *[read(groups) for _ in range(3)])
    assert seen == set(range(total))


@in_share_groups()
async def test_one_of_two_topics_is_deleted(groups: ShareGroups) -> None:
    """testSubscriptionAndPollFollowedByTopicDeletion: the other one is read on"""
    async with Admin(groups.address) as admin, groups.consumer() as consumer:
        await admin.create_topic("u", 1)
        consumer.subscribe(["t", "u"])
        await groups.send(b"one")
        await groups.send(b"two", topic="u")
        assert {record.topic for record in await polled(consumer, 2)} == {"t", "u"}
        await admin.delete_topic("u")
        for number in range(3):
            await groups.send(b"%d" % number)
            assert [record.topic for record in await polled(consumer)] == ["t"]


@in_share_groups()
async def test_new_partitions_of_a_known_topic(groups: ShareGroups) -> None:
    """testAddedPartitionsOfKnownTopicStartAtOffsetZero: also of a group that begins at the end of a topic"""
    await groups.set("g", share_auto_offset_reset="latest")
    await groups.send(b"before the group")
    async with Admin(groups.address) as admin, groups.consumer() as consumer:
        consumer.subscribe(["t"])
        assert await consumer.poll(5_000) == {}
        await admin.create_partitions("t", 2)
        for value in (b"before", b"it", b"knew"):
            await groups.send(value, partition=1)
        records = await polled(consumer, 3)
        assert [(record.partition, record.offset) for record in records] == [(1, 0), (1, 1), (1, 2)]


@in_share_groups({"group.share.max.share.sessions": 1})
async def test_a_broker_without_room_for_a_session(groups: ShareGroups) -> None:
    """testShareGroupShareSessionCacheIsFull: the second consumer has records once the first has left"""
    await groups.set("other")
    await groups.send(b"one")
    first, second = groups.consumer(), groups.consumer("other")
    first.subscribe(["t"])
    await polled(first)
    second.subscribe(["t"])
    assert await second.poll(20_000) == {}
    await first.close()
    assert counts(await polled(second)) == [(0, 1)]
    await second.close()


@in_share_groups()
async def test_what_was_acknowledged_with_the_wrong_name(groups: ShareGroups) -> None:
    """testExplicitAcknowledgeOffsetThrowsParametersError: of a record that cannot be read, by its position"""
    await groups.send(b"four", b"no number")
    async with groups.consumer(value_deserializer="IntegerDeserializer", **EXPLICIT) as consumer:
        consumer.subscribe(["t"])
        (record,) = await polled(consumer)
        consumer.acknowledge(record)
        with pytest.raises(KafkaError, match="IntegerDeserializer needs 4 bytes"):
            await polled(consumer)
        for wrong in (("u", 0, 1), ("t", 1, 1), ("t", 0, 0)):
            with pytest.raises(LookupError, match="is not in hand"):
                consumer.acknowledge(wrong, AcknowledgeType.REJECT)
        consumer.acknowledge(("t", 0, 1), AcknowledgeType.REJECT)
        assert await consumer.commit() == {T0: None}
        with pytest.raises(LookupError, match="is not in hand"):
            consumer.acknowledge(("t", 0, 1), AcknowledgeType.REJECT)
        assert await consumer.poll(3_000) == {}


@in_share_groups()
async def test_many_consumers_producers_and_groups(groups: ShareGroups) -> None:
    """testComplexShareConsumer: released, rejected and accepted at random, each record ends once"""
    total, generator = 150, random.Random(7)
    ended: dict[str, list[int]] = {"g": [], "other": []}

    async def read(groups: ShareGroups, group: str) -> None:
        mine = ended[group]
        while len(mine) < total:
            async with groups.consumer(group, max_poll_records=7, **EXPLICIT) as consumer:
                consumer.subscribe(["t"])
                for _ in range(8):
                    for record in [record for each in (await consumer.poll(300)).values() for record in each]:
                        again = record.delivery_count < 5 and generator.random() < 0.3
                        type = AcknowledgeType.RELEASE if again else generator.choice(list(AcknowledgeType)[::2])
                        consumer.acknowledge(record, type)
                        if not again:
                            mine.append(record.offset)

    async def write(groups: ShareGroups) -> None:
        for _ in range(total // 10):
            await groups.send(*[b"x"] * 10)
            await asyncio.sleep(0.2)

    await groups.set("other")
    await asyncio.gather(write(groups), *[read(groups, group) for group in ("g", "g", "g", "other", "other")])
    assert {group: sorted(offsets) for group, offsets in ended.items()} == {g: list(range(total)) for g in ended}


def test_a_commit_ends_with_the_last_brokers_response() -> None:
    """testResultHandlerCompleteIfEmpty"""
    settings = {"default.replication.factor": 1, "share.coordinator.state.topic.replication.factor": 1}

    async def story(groups: ShareGroups) -> None:
        ended: list[float] = []
        async with groups.consumer(**EXPLICIT, fetch_max_wait_ms=30_000) as consumer:
            consumer.set_acknowledgement_commit_callback(lambda offsets, error: ended.append(loop.time()))
            consumer.subscribe(["u"])
            assert await consumer.poll(10_000) == {}
            for partition in (0, 1):
                await groups.send(b"a", topic="u", partition=partition)
            await asyncio.sleep(1)
            for record in await polled(consumer, 2):
                consumer.acknowledge(record)
            groups.broker.delay("ShareAcknowledge", 5_000)
            loop, start = asyncio.get_running_loop(), asyncio.get_running_loop().time()
            committing = consumer.commit_async()
            while not ended:
                await consumer.poll(100)
            assert ended[0] < start + 1
            assert not committing.done()
            assert await committing == {TopicPartition("u", 0): None, TopicPartition("u", 1): None}
            assert loop.time() >= start + 5

    with share_groups(settings, brokers=2) as (world, groups):
        groups.broker.create_topic("u", 2)
        world.run(story(groups), LIMIT_S)


@pytest.mark.parametrize("topic", ["__share_group_state", "__consumer_offsets"])
def test_a_coordinator_moves(topic: str) -> None:
    """testShareConsumerAfterCoordinatorMovement: the share coordinator's broker is stopped, or the group coordinator's, and
    the member goes on with the one that follows"""
    settings = {"default.replication.factor": 3, "offsets.topic.num.partitions": 1}
    settings |= {
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 3,
    }
    with share_groups(settings, brokers=3) as (world, groups):
        consumer = groups.consumer()

        async def read(*values: bytes) -> list[bytes | None]:
            consumer.subscribe(["t"])
            await groups.send(*values)
            records = await polled(consumer, len(values))
            assert await consumer.commit() == {TopicPartition("t", 0): None}
            return [record.value for record in records]

        async def coordinator() -> int:
            async with Admin(groups.address) as admin:
                return (await admin.describe_topics([topic]))[topic].partitions[0].leader.id

        async def close() -> None:
            await consumer.close()

        assert world.run(read(b"1", b"2"), LIMIT_S) == [b"1", b"2"]
        former = world.run(coordinator(), 60)
        groups.broker.stop(former)
        groups.address = {"bootstrap.servers": groups.broker.bootstrap_servers}
        assert world.run(coordinator(), 60) != former
        assert world.run(read(b"3", b"4"), LIMIT_S) == [b"3", b"4"]
        world.run(close(), 60)
