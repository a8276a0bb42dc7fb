"""Commits of a whole consumer when it closes, and its interceptors; Kafka's CommitRequestManagerTest by name. The
machine's rules are in tests/consuming/test_consumer_commits.py. Committed offsets and the leader epochs with them
(KIP-320), where a machine loses the end of a log that a group has read."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import (
    Admin,
    CommitFailedError,
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    LogTruncationError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from coterie.log.filesystem import MemoryFileSystem
from coterie.testing import ErrorCode, LocalBroker
from tests.client.consumer.test_consumer_membership import member as consumer_member
from tests.client.group import QUICK, member, polled, read, settled

T0 = TopicPartition("t", 0)
MANUAL: dict[str, Any] = {"enable_auto_commit": False}
Heard = list[tuple[dict[TopicPartition, int], Exception | None]]
PARTITION = ("t", 0)
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
LOST = 2  # of five records


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 1)
    return coterie_broker


@pytest.mark.parametrize("how", ["classic", "consumer", "without membership"])
async def test_a_commit_that_is_under_way_is_made_before_the_end(broker: LocalBroker, how: str) -> None:
    """testSignalClose: without membership the coordinator is still to be looked up. The callback is called."""
    heard: Heard = []
    of_protocol = consumer_member if how == "consumer" else member
    async with of_protocol(broker, **MANUAL) as one:
        if how != "without membership":
            await settled(one, 1)
        one.commit_async({T0: 7}, lambda offsets, error: heard.append((offsets, error)))
    assert heard == [({T0: 7}, None)]
    assert broker.committed("g") == {T0: 7}


async def test_a_commit_ends_at_the_close_with_the_error_of_its_coordinator(broker: LocalBroker) -> None:
    """testPollWithFatalErrorDuringCoordinatorIsEmptyAndClosing"""
    heard: Heard = []
    async with member(broker, **MANUAL) as one:
        broker.fail("FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        one.commit_async({T0: 7}, lambda offsets, error: heard.append((offsets, error)))
    ((_, error),) = heard
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert broker.requested("OffsetCommit") == 0


async def test_a_commit_without_a_coordinator_does_not_hold_up_the_close(broker: LocalBroker) -> None:
    """testPollWithClosingAndPendingRequests"""
    one = member(broker, **MANUAL)
    with broker.hold("FindCoordinator"):
        task = one.commit_async({T0: 7})
        await one.close(timeout_ms=50)
        await asyncio.wait([task])
    assert task.cancelled() or task.exception() is not None
    assert broker.requested("OffsetCommit") == 0


async def test_a_stale_epoch_ends_a_users_commit(broker: LocalBroker) -> None:
    """testCommitSyncFailsWithCommitFailedExceptionOnStaleMemberEpoch"""
    async with await settled(consumer_member(broker, **MANUAL), 1) as one:
        broker.fail("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, times=2)
        for commit in (one.commit, one.commit_async):
            with pytest.raises(CommitFailedError) as failed:
                await commit({T0: 7})
            assert failed.value.code == ErrorCode.STALE_MEMBER_EPOCH
        await one.commit({T0: 8})
    assert broker.requested("OffsetCommit") == 3


class Committed(ConsumerInterceptor):
    def __init__(self) -> None:
        self.offsets: list[object] = []

    def on_commit(self, offsets: object) -> None:
        self.offsets.append(offsets)


async def test_interceptors_see_automatic_commits_that_were_made(broker: LocalBroker) -> None:
    """testAutocommitInterceptorsInvoked, testAutocommitInterceptorsNotInvokedOnError"""
    seen = Committed()
    broker.produce("t", b"a")
    async with member(broker, interceptor_classes=[seen], auto_commit_interval_ms=20) as one:
        await one.assign([T0])
        rule = broker.fail("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=2)
        await polled(one, lambda: rule.times == 0, "two automatic commits fail")
        assert seen.offsets == []
        await polled(one, lambda: {T0: 1} in seen.offsets, "an automatic commit is made")
    assert len(seen.offsets) == broker.requested("OffsetCommit") - 2


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
    log = broker.topics.partition(*PARTITION).log
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
                await consumer.assign([PARTITION])
                await polled(consumer, lambda: consumer.position(PARTITION) == 5)
                await consumer.commit()
            await admin.alter_consumer_group_offsets("without", {PARTITION: 5})
            committed = [await admin.list_consumer_group_offsets_metadata(group) for group in ("with", "without")]
            assert committed == [{PARTITION: OffsetAndMetadata(5, 0)}, {PARTITION: OffsetAndMetadata(5, -1)}]
        left = without_the_end(broker, disk)
    async with running(left) as (_, address):
        await produce(address, b"D", b"E", b"F", b"G", b"H", b"I")
        await story(address)


def test_a_log_that_was_cut_behind_a_committed_offset_and_grew_again() -> None:
    """The group goes on where the log was cut. Without the epoch it goes on at an offset that means other records now."""

    async def story(address: dict[str, Any]) -> None:
        async with reader(address, "with") as consumer:
            await consumer.assign([PARTITION])
            assert await read(consumer, 6) == [b"D", b"E", b"F", b"G", b"H", b"I"]
            await consumer.commit()
            assert (await consumer.committed_metadata([PARTITION]))[PARTITION] == OffsetAndMetadata(9, 1)
        async with reader(address, "without") as consumer:
            await consumer.assign([PARTITION])
            assert await read(consumer, 4) == [b"F", b"G", b"H", b"I"], "D and E are never read"

    asyncio.run(before_and_after(story))


def test_without_a_policy_the_reader_is_notified() -> None:
    async def story(address: dict[str, Any]) -> None:
        async with reader(address, "with", auto_offset_reset="none") as consumer:
            await consumer.assign([PARTITION])
            with pytest.raises(LogTruncationError, match="cut by a new leader at 3, before the position 5") as cut:
                await polled(consumer, lambda: False)
            assert cut.value.divergent_offset == OffsetAndMetadata(3, 0)

    asyncio.run(before_and_after(story))
