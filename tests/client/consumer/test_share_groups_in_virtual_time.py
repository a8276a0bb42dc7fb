"""A share consumer on coterie's broker in virtual time; names are those of Kafka's ShareConsumerTest, ShareConsumerRenewTest
and ShareConsumerCallbackTest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import AcknowledgeType, Admin, ConfigError, KafkaError, Producer, TopicPartition, WakeupError
from tests.client.consumer.share_groups import EXPLICIT, T0, U0, Reports, ShareGroups, counts, in_share_groups, polled


@in_share_groups()
async def test_subscriptions(groups: ShareGroups) -> None:
    """testSubscribeAndPollNoRecords testSubscribePollUnsubscribe testSubscribePollSubscribe testSubscribeUnsubscribePollFails
    testSubscribeSubscribeEmptyPollFails testSubscriptionAndPollMultiple testSubscriptionFollowedByTopicCreation"""
    async with groups.consumer() as consumer:
        consumer.subscribe(["t"])
        assert consumer.subscription() == {"t"}
        assert await consumer.poll(500) == {}
        await groups.send(b"one")
        assert counts(await polled(consumer)) == [(0, 1)]
        await groups.send(b"two")
        assert counts(await polled(consumer)) == [(1, 1)]
        consumer.subscribe(["new"])
        await consumer.poll(500)
        async with Admin(groups.address) as admin:
            await admin.create_topic("new", 1)
        await groups.send(b"three", topic="new")
        assert [record.topic for record in await polled(consumer)] == ["new"]
        await consumer.unsubscribe()
        assert consumer.subscription() == set()
        with pytest.raises(ConfigError, match="poll needs a subscription"):
            await consumer.poll(500)
        consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="subscribe needs a topic; call unsubscribe to leave the group"):
            consumer.subscribe([])


@in_share_groups()
async def test_what_a_record_has(groups: ShareGroups) -> None:
    """testHeaders testMaxPollRecords testPollRecordsGreaterThanMaxBytes testFetchRecordLargerThanMaxPartitionFetchBytes"""
    await groups.send(b"x" * 2_000, key=b"k", headers=[("h", b"v")])
    await groups.send(*[b"%d" % n for n in range(20)])
    limits: dict[str, Any] = {"max_poll_records": 5, "share_acquire_mode": "record_limit", "fetch_max_bytes": 1}
    async with groups.consumer(**limits) as consumer:
        consumer.subscribe(["t"])
        first, *_ = await polled(consumer)
        assert (first.key, list(first.headers), len(first.value or b"")) == (b"k", [("h", b"v")], 2_000)
        seen = 1
        while seen < 21:
            records = await polled(consumer)
            assert len(records) <= 5
            seen += len(records)


@in_share_groups()
async def test_explicit_acknowledgements(groups: ShareGroups) -> None:
    """testExplicitAcknowledgeSuccess testExplicitAcknowledgementCommitAsync testExplicitAcknowledgementCommitAsyncPartialBatch
    testExplicitAcknowledgeReleasePollAccept testAcknowledgementCommitCallbackSuccessfulAcknowledgementOnCommitSync"""
    reports: Reports = []
    await groups.send(b"a", b"b", b"c")
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        consumer.subscribe(["t"])
        a, b, c = await polled(consumer, 3)
        consumer.acknowledge(a)
        consumer.acknowledge(b)
        task = consumer.commit_async()
        await groups.send(b"d")
        with pytest.raises(RuntimeError, match="1 records of the last poll are not acknowledged"):
            await consumer.poll(5_000)
        assert await task == {T0: None}
        consumer.acknowledge(c, AcknowledgeType.RELEASE)
        again = await polled(consumer, 2)
        assert counts(again) == [(2, 2), (3, 1)]
        for record in again:
            consumer.acknowledge(record)
        assert await consumer.commit() == {T0: None}
    assert reports == [({T0: {0, 1}}, None), ({T0: {2}}, None), ({T0: {2, 3}}, None)]


@in_share_groups()
async def test_implicit_acknowledgements(groups: ShareGroups) -> None:
    """testImplicitAcknowledgementCommitAsync testConfiguredImplicitAcknowledgeExplicitAcknowledgeFails"""
    await groups.send(b"a", b"b")
    async with groups.consumer(share_acknowledgement_mode="implicit") as consumer:
        consumer.subscribe(["t"])
        records = await polled(consumer, 2)
        with pytest.raises(RuntimeError, match=r"needs share\.acknowledgement\.mode=explicit"):
            consumer.acknowledge(records[0])
        assert await consumer.commit_async() == {T0: None}
    async with groups.consumer() as consumer:
        consumer.subscribe(["t"])
        assert await consumer.poll(5_000) == {}


@in_share_groups()
async def test_control_records_are_skipped(groups: ShareGroups) -> None:
    """testControlRecordsSkipped"""
    async with Producer(groups.address | {"transactional.id": "x"}) as producer:
        await producer.init_transactions()
        for commits in (True, False):
            producer.begin_transaction()
            await (await producer.send("t", b"of a transaction", partition=0))
            await (producer.commit_transaction() if commits else producer.abort_transaction())
    await groups.send(b"of none")
    async with groups.consumer() as consumer:
        consumer.subscribe(["t"])
        assert [record.offset for record in await polled(consumer, 3)] == [0, 2, 4]
        assert await consumer.commit() == {T0: None}
        assert await consumer.poll(3_000) == {}


@in_share_groups()
async def test_a_fetch_of_control_records_alone(groups: ShareGroups) -> None:
    """testControlRecordsOnEmptyFetch: their offsets end, and no record is returned"""
    async with (
        groups.consumer() as consumer,
        Producer(groups.address | {"transactional.id": "x"}) as producer,
        Admin(groups.address) as admin,
    ):
        consumer.subscribe(["t"])
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send("t", b"one", partition=0))
        await polled(consumer)
        await consumer.commit()
        await producer.commit_transaction()
        assert (await admin.list_share_group_offsets("g"))[T0].lag == 1
        assert await consumer.poll(3_000) == {}
        assert (await admin.list_share_group_offsets("g"))[T0].lag == 0


@in_share_groups()
async def test_another_subscription(groups: ShareGroups) -> None:
    """testAcknowledgementSentOnSubscriptionChange: what is left of the former one is acknowledged"""
    reports: Reports = []
    async with Admin(groups.address) as admin, groups.consumer() as consumer:
        await admin.create_topic("u", 1)
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        consumer.subscribe(["t"])
        await groups.send(b"one")
        await polled(consumer)
        consumer.subscribe(["u"])
        await groups.send(b"two", topic="u")
        await polled(consumer)
        await consumer.commit()
    assert reports == [({T0: {0}}, None), ({U0: {0}}, None)]


@in_share_groups()
async def test_several_consumers(groups: ShareGroups) -> None:
    """testMultipleConsumersWithDifferentGroupIds testMultipleConsumersInGroupSequentialConsumption
    testMultipleConsumersInGroupConcurrentConsumption testMultipleConsumersInMultipleGroupsConcurrentConsumption"""

    async def read(groups: ShareGroups, group: str, seen: list[int], wanted: int) -> None:
        async with groups.consumer(group, max_poll_records=10) as consumer:
            consumer.subscribe(["t"])
            while len(seen) < wanted:
                records = [record for of in (await consumer.poll(200)).values() for record in of]
                seen += [record.offset for record in records]
                await consumer.commit()

    await groups.set("other")
    for _ in range(10):
        await groups.send(*[b"x"] * 10)
    seen: dict[str, list[int]] = {"g": [], "other": []}
    readers = [read(groups, group, seen[group], 100) for group in ("g", "g", "g", "other", "other")]
    await asyncio.gather(*readers)
    assert {group: sorted(offsets) for group, offsets in seen.items()} == {group: list(range(100)) for group in seen}


@in_share_groups()
async def test_a_lock_times_out(groups: ShareGroups) -> None:
    """testAcquisitionLockTimeoutOnConsumer testRenewAcknowledgementInvalidStateRecord
    testAcknowledgementCommitCallbackInvalidRecordStateException"""
    reports: Reports = []
    await groups.send(b"slow")
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        consumer.subscribe(["t"])
        (record,) = await polled(consumer)
        assert consumer.acquisition_lock_timeout_ms() == 30_000
        await asyncio.sleep(31)
        consumer.acknowledge(record, AcknowledgeType.RENEW)
        assert "INVALID_RECORD_STATE" in str((await consumer.commit())[T0])
        (again,) = await polled(consumer)
        assert counts([again]) == [(0, 2)]
        consumer.acknowledge(again)
        assert await consumer.commit() == {T0: None}
    assert [(offsets, str(error)[:20]) for offsets, error in reports] == [
        ({T0: {0}}, "INVALID_RECORD_STATE"),
        ({T0: {0}}, "None"),
    ]


@in_share_groups()
async def test_renewals(groups: ShareGroups) -> None:
    """testRenewAcknowledgementOnCommitSync testRenewAcknowledgementNoResultInPoll testRenewAcknowledgementDisabled"""
    await groups.send(*[b"%d" % n for n in range(10)])
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.subscribe(["t"])
        records = await polled(consumer, 10)
        for record in records:
            consumer.acknowledge(record, AcknowledgeType.RENEW if record.offset % 2 else AcknowledgeType.ACCEPT)
        assert await consumer.commit() == {T0: None}
        await groups.send(b"later")
        renewed = await polled(consumer, 5)
        assert counts(renewed) == [(offset, 1) for offset in (1, 3, 5, 7, 9)], "the renewed ones come alone"
        for record in renewed:
            consumer.acknowledge(record)
        assert counts(await polled(consumer)) == [(10, 1)]
        consumer.acknowledge(("t", 0, 10))
    await groups.set("strict", share_renew_acknowledge_enable="false")
    async with groups.consumer("strict", **EXPLICIT) as consumer:
        consumer.subscribe(["t"])
        first, *_ = await polled(consumer, 11)
        consumer.acknowledge(first, AcknowledgeType.RENEW)
        assert "INVALID_RECORD_STATE" in str((await consumer.commit())[T0])


@in_share_groups()
async def test_a_callback_that_is_taken_away(groups: ShareGroups) -> None:
    """testCallbackHandlerConfig: a later one hears nothing of what ended without one, and a renewed record comes back"""
    reports: Reports = []
    await groups.send(b"a", b"b")
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        consumer.subscribe(["t"])
        a, b = await polled(consumer, 2)
        consumer.acknowledge(a)
        consumer.acknowledge(b, AcknowledgeType.RENEW)
        assert await consumer.commit_async() == {T0: None}
        consumer.set_acknowledgement_commit_callback(None)
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        assert counts(await polled(consumer)) == [(1, 1)]
        assert reports == []
        consumer.acknowledge(b)
        assert await consumer.commit() == {T0: None}
    assert reports == [({T0: {1}}, None)]


@in_share_groups()
async def test_callbacks(groups: ShareGroups) -> None:
    """testAcknowledgementCommitCallbackOnClose testAcknowledgementCommitCallbackThrowsException
    testAcknowledgementCommitCallbackCallsShareConsumerWakeup testWakeupWithFetchedRecordsAvailable"""
    closed: Reports = []
    await groups.send(b"a", b"b")
    async with groups.consumer(**EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: closed.append((offsets, error)))
        consumer.subscribe(["t"])
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(0)
        a, b = await polled(consumer, 2)
        consumer.acknowledge(a)
        consumer.acknowledge(b, AcknowledgeType.RELEASE)
    assert closed == [({T0: {0, 1}}, None)]

    async with groups.consumer() as consumer:

        def wake(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
            consumer.wakeup()

        def fail(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
            raise LookupError("of the user's callback")

        consumer.set_acknowledgement_commit_callback(fail)
        consumer.subscribe(["t"])
        assert counts(await polled(consumer)) == [(1, 2)]
        with pytest.raises(LookupError, match="of the user's callback"):
            await consumer.commit()
        consumer.set_acknowledgement_commit_callback(wake)
        await groups.send(b"c")
        assert counts(await polled(consumer)) == [(2, 1)]
        await consumer.commit()
        with pytest.raises(WakeupError):
            await consumer.poll(0)
        consumer.set_acknowledgement_commit_callback(None)
        await groups.send(b"d")
        await polled(consumer)
        await consumer.commit()
        assert await consumer.poll(0) == {}, "nobody is called"


@in_share_groups()
async def test_records_that_are_deleted_go_from_the_group(groups: ShareGroups) -> None:
    """testLsoMovementByRecordsDeletion"""
    await groups.send(*[b"%d" % n for n in range(5)])
    await groups.send(*[b"%d" % n for n in range(5)])
    async with Admin(groups.address) as admin, groups.consumer() as consumer:
        await admin.delete_records({T0: 5})
        consumer.subscribe(["t"])
        assert [offset for offset, _ in counts(await polled(consumer, 5))] == [5, 6, 7, 8, 9]
        await consumer.commit()
        await groups.send(*[b"%d" % n for n in range(5)])
        await admin.delete_records({T0: 15})
        assert await consumer.poll(3_000) == {}


@in_share_groups({"group.share.max.size": "1"})
async def test_errors_of_topics_and_of_a_full_group(groups: ShareGroups) -> None:
    """testSubscribeOnInvalidTopicThrowsInvalidTopicException testShareGroupMaxSizeConfigExceeded
    testCommitSyncFailsForDeletedTopic"""
    async with groups.consumer("invalid") as consumer:
        consumer.subscribe(["topic abc"])
        with pytest.raises(KafkaError, match="topic abc"):
            await consumer.poll(10_000)
    async with Admin(groups.address) as admin, groups.consumer(**EXPLICIT) as consumer:
        await admin.create_topic("u", 1)
        await groups.send(b"one", topic="u")
        consumer.subscribe(["u"])
        (record,) = await polled(consumer)
        consumer.acknowledge(record)
        async with groups.consumer() as second:
            second.subscribe(["u"])
            with pytest.raises(KafkaError, match="GROUP_MAX_SIZE_REACHED"):
                await second.poll(20_000)
        await admin.delete_topic("u")
        await asyncio.sleep(5)
        assert (await consumer.commit())[U0] is not None
