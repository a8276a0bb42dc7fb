"""Which records of transactions a share group reads, and its lag (ShareConsumerDeliveryTest, ShareConsumerLagTest)."""

from __future__ import annotations

import pytest

from coterie.client import AcknowledgeType, Admin, Producer
from tests.client.consumer.share_groups import EXPLICIT, T0, ShareGroups, in_share_groups, polled, share_groups


async def transactions(groups: ShareGroups, *values: str) -> None:
    """One transaction a value: committed, unless the value begins with "aborted"."""
    async with Producer(groups.address | {"transactional.id": "x"}) as producer:
        await producer.init_transactions()
        for value in values:
            producer.begin_transaction()
            await (await producer.send("t", value.encode(), partition=0))
            await (producer.abort_transaction() if value.startswith("aborted") else producer.commit_transaction())


@pytest.mark.parametrize(
    ("isolation", "read"),
    [("read_committed", [b"a", b"b"]), ("read_uncommitted", [b"a", b"aborted", b"b"])],
    ids=["testReadCommittedIsolationLevel", "testReadUncommittedIsolationLevel"],
)
@in_share_groups()
async def test_isolation_levels(groups: ShareGroups, isolation: str, read: list[bytes]) -> None:
    await groups.set("g", share_isolation_level=isolation)
    await transactions(groups, "a", "aborted", "b")
    async with groups.consumer() as consumer:
        consumer.subscribe(["t"])
        assert [record.value for record in await polled(consumer, len(read))] == read
        assert await consumer.poll(3_000) == {}


@in_share_groups()
async def test_a_group_begins_to_read_committed_records_alone(groups: ShareGroups) -> None:
    """testAlterReadUncommittedToReadCommittedIsolationLevel: released records too"""
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.subscribe(["t"])
        await transactions(groups, "a", "aborted 1")
        records = await polled(consumer, 2)
        assert [record.value for record in records] == [b"a", b"aborted 1"]
        for record in records:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        await consumer.commit()
        await groups.set("g", share_isolation_level="read_committed")
        await transactions(groups, "aborted 2", "b", "aborted 3", "c")
        seen = []
        while len(seen) < 3:
            for record in await polled(consumer):
                seen.append(record.value)
                consumer.acknowledge(record)
        assert seen == [b"a", b"b", b"c"]
        assert await consumer.poll(3_000) == {}


@pytest.mark.parametrize(
    ("type", "again"),
    [(AcknowledgeType.RELEASE, [(b"a", 2)]), (AcknowledgeType.REJECT, [])],
    ids=[
        "testAlterReadCommittedToReadUncommittedIsolationLevelWithReleaseAck",
        "testAlterReadCommittedToReadUncommittedIsolationLevelWithRejectAck",
    ],
)
@in_share_groups()
async def test_a_group_begins_to_read_all_records(
    groups: ShareGroups, type: AcknowledgeType, again: list[tuple[bytes, int]]
) -> None:
    """Records of aborted transactions that were passed over stay so."""
    await groups.set("g", share_isolation_level="read_committed")
    acknowledged: set[int] = set()
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: acknowledged.update(offsets[T0]))
        consumer.subscribe(["t"])
        await transactions(groups, "a", "aborted 1", "b")
        for record in await polled(consumer, 2):
            consumer.acknowledge(record, type if record.value == b"a" else AcknowledgeType.ACCEPT)
        await consumer.commit()
        assert acknowledged == {0, 1, 3, 4, 5}, "markers too; the broker passes over the aborted record by itself"
        await groups.set("g", share_isolation_level="read_uncommitted")
        await transactions(groups, "aborted 2")
        seen = []
        while (b"aborted 2", 1) not in seen:
            for record in await polled(consumer):
                seen.append((record.value, record.delivery_count))
                consumer.acknowledge(record)
        assert seen == [*again, (b"aborted 2", 1)]


async def lag(groups: ShareGroups) -> int | None:
    async with Admin(groups.address) as admin:
        return (await admin.list_share_group_offsets("g"))[T0].lag


@in_share_groups()
async def test_the_lag_of_several_consumers(groups: ShareGroups) -> None:
    """testSharePartitionLagForMultipleShareConsumers"""
    await groups.send(b"1", b"2", b"3")
    async with groups.consumer(**EXPLICIT) as first, groups.consumer(**EXPLICIT) as second:
        first.subscribe(["t"])
        second.subscribe(["t"])
        for record in await polled(first, 3):
            first.acknowledge(record)
        await first.commit()
        assert await lag(groups) == 0
        await groups.send(b"4", b"5")
        assert await lag(groups) == 2
        four, five = await polled(second, 2)
        assert await lag(groups) == 2, "records that are acquired"
        second.acknowledge(four, AcknowledgeType.RELEASE)
        second.acknowledge(five)
        await second.commit()
        assert await lag(groups) == 1, "the record that was released"


@in_share_groups()
async def test_the_lag_after_offsets_were_set_and_deleted(groups: ShareGroups) -> None:
    """testSharePartitionLagAfterAlterShareGroupOffsets testSharePartitionLagAfterDeleteShareGroupOffsets
    testDescribeShareGroupOffsetsForEmptySharePartition: nothing was acquired, so nothing is stored and listed"""
    async with Admin(groups.address) as admin:
        async with groups.consumer() as consumer:
            consumer.subscribe(["t"])
            assert await consumer.poll(3_000) == {}
            assert await admin.list_share_group_offsets("g") == {}
            await groups.send(*[b"%d" % number for number in range(5)])
            await polled(consumer, 5)
            await consumer.commit()
            assert await lag(groups) == 0
        await admin.alter_share_group_offsets("g", {T0: 3})
        assert await lag(groups) == 2
        await admin.delete_share_group_offsets("g", ["t"])
        assert await admin.list_share_group_offsets("g") == {}
        async with groups.consumer() as consumer:
            consumer.subscribe(["t"])
            await polled(consumer, 5)
            await consumer.commit()
        assert await lag(groups) == 0, "it began at the first records again"


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", "__share_group_state"],
    ids=["testSharePartitionLagOnGroupCoordinatorMovement", "testSharePartitionLagOnShareCoordinatorMovement"],
)
def test_the_lag_once_a_coordinator_has_moved(topic: str) -> None:
    """The broker that has the group's coordinator, or its states, is stopped, and another one is that coordinator."""
    settings = {"default.replication.factor": 3, "offsets.topic.num.partitions": 1}
    settings |= {
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 3,
    }

    async def read(groups: ShareGroups) -> None:
        await groups.send(b"1", b"2", b"3")
        async with groups.consumer(**EXPLICIT) as consumer:
            consumer.subscribe(["t"])
            one, two, three = await polled(consumer, 3)
            consumer.acknowledge(one)
            consumer.acknowledge(two, AcknowledgeType.RELEASE)
            consumer.acknowledge(three)
            await consumer.commit()
        assert await lag(groups) == 1

    async def leader(groups: ShareGroups) -> int:
        async with Admin(groups.address) as admin:
            return (await admin.describe_topics([topic]))[topic].partitions[0].leader.id

    async def lag_is_still_known(groups: ShareGroups) -> None:
        assert await lag(groups) == 1

    with share_groups(settings, brokers=3) as (world, groups):
        world.run(read(groups), 600)
        former = world.run(leader(groups), 60)
        groups.broker.stop(former)
        groups.address = {"bootstrap.servers": groups.broker.bootstrap_servers}
        assert world.run(leader(groups), 60) != former
        world.run(lag_is_still_known(groups), 60)
