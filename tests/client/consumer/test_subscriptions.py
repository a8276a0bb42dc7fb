"""What a consumer reads by its user's choice; tests named as in Kafka's SubscriptionStateTest and KafkaConsumerTest. Which of
the assigned partitions are read is in tests/consuming/test_assigned_positions.py."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from coterie.client import (
    Admin,
    ConfigError,
    Consumer,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
    WakeupError,
)
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until
from tests.client.group import QUICK, member, polled, read

OF_CONSUMER_PROTOCOL = {name: value for name, value in QUICK.items() if name != "heartbeat.interval.ms"}
T0, T1, U0, V0 = (TopicPartition(*where) for where in (("t", 0), ("t", 1), ("u", 0), ("v", 0)))


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 2)
    coterie_broker.create_topic("u", 1)
    coterie_broker.create_topic("v", 1)
    return coterie_broker


def of_protocol(broker: LocalBroker, protocol: str) -> Consumer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "group.protocol": protocol}
    return Consumer(OF_CONSUMER_PROTOCOL | settings)


async def topics(consumer: Consumer) -> None:
    consumer.subscribe(["t"])


async def pattern(consumer: Consumer) -> None:
    consumer.subscribe(re.compile(".*"))


async def regex(consumer: Consumer) -> None:
    consumer.subscribe(SubscriptionPattern("t.*"))


async def partitions(consumer: Consumer) -> None:
    await consumer.assign([T0])


KINDS = [topics, pattern, regex, partitions]


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
async def test_kinds_of_subscriptions_do_not_mix(
    broker: LocalBroker,
    first: Callable[[Consumer], Awaitable[None]],
    second: Callable[[Consumer], Awaitable[None]],
) -> None:
    """cantSubscribeTopicAndPattern, cantSubscribePatternAndTopic, cantSubscribePartitionAndPattern,
    cantSubscribePatternAndPartition, testMixedPatternSubscriptionNotAllowed"""
    async with of_protocol(broker, "consumer") as one:
        await first(one)
        if first is second:
            await second(one)
            return
        with pytest.raises(ConfigError, match="cannot be mixed; call unsubscribe first"):
            await second(one)
        await one.unsubscribe()
        await second(one)


async def test_one_subscription_after_the_other(broker: LocalBroker) -> None:
    """testSubscription, unsubscribeUserAssignment, unsubscribeUserSubscribe, testAssignOnEmptyTopicPartition,
    partitionAssignmentChangeOnTopicSubscription"""
    async with member(broker) as one:

        def state() -> tuple[set[str], set[TopicPartition]]:
            return one.subscription(), one.assignment()

        await one.assign([T0, T1])
        assert state() == (set(), {T0, T1})
        await one.unsubscribe()
        assert state() == (set(), set())
        one.subscribe(["u"])
        assert state() == ({"u"}, set())
        await polled(one, lambda: one.assignment() == {U0})
        one.subscribe(["t"])
        assert state() == ({"t"}, {U0}), "the assignment stays until the rebalance"
        await one.unsubscribe()
        assert state() == (set(), set())
        await one.assign([T0])
        assert state() == (set(), {T0})
        await one.assign([])
        assert state() == (set(), set())
        one.subscribe(["u"])
        await one.assign([])
        assert state() == (set(), set())


async def test_a_pattern_that_is_replaced(broker: LocalBroker) -> None:
    """patternSubscription, partitionAssignmentChangeOnPatternSubscription, testRegexSubscription,
    testChangingRegexSubscription, unsubscription"""
    async with member(broker) as one:
        one.subscribe(re.compile("[tu]"))
        await polled(one, lambda: one.assignment() == {T0, T1, U0})
        assert one.subscription() == {"t", "u"}
        one.subscribe(re.compile("v"))
        assert one.assignment() == {T0, T1, U0}
        await polled(one, lambda: one.assignment() == {V0})
        assert one.subscription() == {"v"}
        await one.unsubscribe()
        assert (one.subscription(), one.assignment()) == (set(), set())
        await one.assign([T0])
        assert one.assignment() == {T0}


async def test_a_pattern_for_the_broker_until_it_is_given_up(broker: LocalBroker) -> None:
    """testSubscribeToRe2JPattern, testSubscriptionPattern"""
    async with of_protocol(broker, "consumer") as one:
        one.subscribe(SubscriptionPattern("t.*"))
        assert one.subscription() == set()
        await polled(one, lambda: one.assignment() == {T0, T1})
        await one.unsubscribe()
        assert one.assignment() == set()
        one.subscribe(["u"])
        await polled(one, lambda: one.assignment() == {U0})


async def nothing(_: Consumer) -> None:
    pass


async def no_partitions(consumer: Consumer) -> None:
    await consumer.assign([T0])
    await consumer.assign([])


async def no_topics(consumer: Consumer) -> None:
    with pytest.raises(ValueError, match="subscribe needs a topic; call unsubscribe to leave the group"):
        consumer.subscribe([])


async def unsubscribed(consumer: Consumer) -> None:
    consumer.subscribe(["t"])
    await consumer.unsubscribe()


@pytest.mark.parametrize("before", [nothing, no_partitions, no_topics, unsubscribed])
async def test_a_poll_needs_something_to_read(
    broker: LocalBroker, before: Callable[[Consumer], Awaitable[None]]
) -> None:
    """testPollWithNoSubscription, testPollWithEmptyUserAssignment, testPollWithEmptySubscription"""
    async with member(broker) as one:
        await before(one)
        with pytest.raises(ConfigError, match="poll needs a subscription or an assignment"):
            await one.poll()


@pytest.mark.parametrize("auto", [True, False])
async def test_another_subscription_is_read_after_the_rebalance(broker: LocalBroker, auto: bool) -> None:
    """testSubscriptionChangesWithAutoCommitEnabled, testSubscriptionChangesWithAutoCommitDisabled: what is revoked is committed
    where that is automatic, and nothing more of it is returned."""
    broker.produce("t", b"t", partition=0)
    broker.produce("u", b"u1", b"u2")
    async with member(broker, enable_auto_commit=auto) as one:
        one.subscribe(["t", "u"])
        await polled(one, lambda: one.assignment() and one.position(T0) == 1 and one.position(U0) == 2)
        broker.produce("u", b"u3")
        broker.produce("v", b"v")
        one.subscribe(["t", "v"])
        assert (one.subscription(), one.assignment()) == ({"t", "v"}, {T0, T1, U0})
        values: list[bytes | None] = []
        while b"v" not in values:
            values += await read(one)
        assert set(values) <= {b"t", b"v"}
        assert one.assignment() == {T0, T1, V0}
        committed = broker.committed("g") if broker.requested("OffsetCommit") else {}
        assert committed.get(U0) == (2 if auto else None)
        await one.unsubscribe()
        assert (one.subscription(), one.assignment()) == (set(), set())


@pytest.mark.parametrize("auto", [True, False])
async def test_another_assignment(broker: LocalBroker, auto: bool) -> None:
    """testManualAssignmentChangeWithAutoCommitEnabled, testManualAssignmentChangeWithAutoCommitDisabled: what was read of the
    one before is committed where that is automatic; no rebalance would."""
    broker.produce("t", b"1", b"2", partition=0)
    async with member(broker, enable_auto_commit=auto) as one:
        await one.assign([T0])
        await polled(one, lambda: one.position(T0) == 2)
        await one.assign([U0])
        assert one.assignment() == {U0}
        if auto:
            await asyncio.to_thread(broker.until_committed, "g", {T0: 2})
        else:
            assert broker.requested("OffsetCommit") == 0


async def test_the_error_of_a_lookup_of_another_assignment(broker: LocalBroker) -> None:
    """T0 has no committed offset to begin at, and another assignment comes before a poll could raise that."""
    async with member(broker, **{"auto.offset.reset": "none"}) as one:
        await one.assign([T0])
        await one.poll(0)
        await until(lambda: one._starts.due())
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            await admin.alter_consumer_group_offsets("g", {U0: 0})
        await one.assign([U0])
        await one.poll(0)


@pytest.mark.parametrize("how", ["unsubscribed", "lost", "closed"])
async def test_a_listener_that_raises_whenever_it_is_notified(broker: LocalBroker, how: str) -> None:
    """testUnsubscribeShouldTriggerPartitionsRevokedWithValidGeneration,
    testUnsubscribeShouldTriggerPartitionsLostWithNoGeneration, testRebalanceException: the assignment changes all the same."""

    class Raising(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise ValueError(f"assigned {len(partitions)}")

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            raise ValueError(f"revoked {len(partitions)}")

        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            raise ValueError(f"lost {len(partitions)}")

    one = member(broker)
    one.subscribe(["t"], Raising())
    with pytest.raises(ValueError, match="assigned 2"):
        await polled(one, lambda: False)
    assert one.assignment() == {T0, T1}
    if how == "lost":
        broker.expire("g", "one")
        assert one._membership is not None
        machine = one._membership.machine
        await until(lambda: machine.generation < 0, "the member hears that it is none")
    with pytest.raises(ValueError, match="lost 2" if how == "lost" else "revoked 2"):
        await (one.close() if how == "closed" else one.unsubscribe())
    await one.close()


async def test_records_of_what_is_kept_come_during_a_rebalance(broker: LocalBroker) -> None:
    """testReturnRecordsDuringRebalance: and none of a topic that is left out, although its partition is still assigned."""
    broker.produce("t", b"1", partition=0)
    async with member(broker, partition_assignment_strategy="cooperative-sticky") as one:
        one.subscribe(["t", "u"])
        assert await read(one) == [b"1"]
        with broker.hold("JoinGroup") as held:
            broker.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
            await polled(one, lambda: held.held)
            one.subscribe(["t", "v"])
            broker.produce("u", b"left out")
            broker.produce("t", b"2", partition=0)
            assert await read(one) == [b"2"]
            assert await one.poll(100) == {}
            assert (one.subscription(), one.assignment()) == ({"t", "v"}, {T0, T1, U0})
        broker.produce("v", b"3")
        assert await read(one) == [b"3"]
        assert one.assignment() == {T0, T1, V0}


async def test_a_wakeup_with_records_at_hand(broker: LocalBroker) -> None:
    """testWakeupWithFetchDataAvailable: the position stays, and the next poll returns them."""
    broker.produce("t", *[b"%d" % n for n in range(5)], partition=0)
    async with member(broker) as one:
        await one.assign([T0])
        one.seek(T0, 0)
        await until(lambda: one._fetcher.positions[T0].is_buffered())
        one.wakeup()
        with pytest.raises(WakeupError):
            await one.poll()
        assert one.position(T0) == 0
        assert len((await one.poll())[T0]) == 5
        assert one.position(T0) == 5


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_topic_that_cannot_be(broker: LocalBroker, protocol: str) -> None:
    """testSubscriptionOnInvalidTopic"""
    async with of_protocol(broker, protocol) as one:
        one.subscribe(["topic abc"])
        with pytest.raises(Exception, match="INVALID_TOPIC_EXCEPTION"):
            await polled(one, lambda: False)


async def test_a_round_whose_sync_fails_is_begun_again(broker: LocalBroker) -> None:
    """testShouldAttemptToRejoinGroupAfterSyncGroupFailed"""
    broker.produce("t", b"1", partition=0)
    async with member(broker, enable_auto_commit=False) as one:
        one.subscribe(["t"])
        assert await read(one) == [b"1"]
        await one.commit()
        joins = broker.requested("JoinGroup")
        with broker.hold("SyncGroup") as held:
            broker.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
            await polled(one, lambda: held.held)
            broker.drop_connections()
            await polled(one, lambda: broker.requested("JoinGroup") >= joins + 2)
        broker.produce("t", b"2", partition=0)
        assert await read(one) == [b"2"]


async def test_positions_of_paused_partitions(broker: LocalBroker) -> None:
    """testPause, testOffsetOfPausedPartitions"""
    broker.produce("t", b"1", b"2", b"3", partition=0)
    async with member(broker) as one:
        await one.assign([T0, T1])
        assert one.paused() == set()
        one.pause([T0, T1])
        assert one.paused() == {T0, T1}
        await one.seek_to_end([T0, T1])
        assert (one.position(T0), one.position(T1)) == (3, 0)
        assert await one.committed([T0]) == {T0: -1}
        one.resume([T0])
        assert one.paused() == {T1}
        await one.unsubscribe()
        assert one.paused() == set()
