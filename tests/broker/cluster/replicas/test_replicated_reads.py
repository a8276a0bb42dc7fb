"""What consumers get of a partition with replicas: whom the leader epoch lets in, what a waiting Fetch learns, and offsets
before the high watermark. Kafka's PartitionTest and ReplicaManagerTest, by their names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.storage.topic import Partition
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT, batches
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.replication.states import PartitionState, ReplicaFetch, ReplicaFetched, ReplicationConfig, StoppedReplica
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.awaiting import quiet
from tests.broker.cluster.replicas.test_replicated_writes import LONG_MS, ME, OTHER, one_of_two
from tests.broker.connections.test_server import Client

THIRD = 3
NAME = ("t", 0)
NOT_LEADER, FENCED, UNKNOWN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST, LATEST = -2, -1
CONSUMER, DEBUGGING = -1, -2  # ids of no replica
PRODUCER, PRODUCER_EPOCH = 234, 5


class Story:
    """Broker 1 of a cluster, what the controller and the followers send it, and a client. The topic t has one partition."""

    def __init__(self, broker: Broker, client: Client, partition: Partition) -> None:
        self.broker, self.client, self.partition = broker, client, partition
        now_ms, failures = broker.clock.now_ms, list[Exception]()
        hosted = HostedTopics(
            broker.topics,
            broker.flusher,
            broker.settings,
            "c",
            now_ms,
            broker.role_changed,
            lambda _: None,
            lambda _: None,
            failures.append,
        )
        self.manager = ReplicaManager(ME, ReplicationConfig(), hosted, now_ms)
        self.manager.write_isr = lambda effect: None
        self.manager.replicas.registered(1)
        broker.replica_effects.act, broker.replica_effects.notify = self.manager.act, self.manager.notify

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    # -- the controller and followers -----------------------------------------------------------------------------------

    def assume(self, leader: int, epoch: int, isr: tuple[int, ...] = (ME, OTHER)) -> None:
        """LeaderAndIsr."""
        state = PartitionState(leader, epoch, isr, 1, 0, (ME, OTHER, THIRD))
        assert self.manager.leader_and_isr(1, 1, {NAME: state}) == {}

    def stop(self) -> None:
        """StopReplica, with the log."""
        assert self.manager.stop_replicas(1, 1, {NAME: StoppedReplica(-1, delete=True)}) == {}

    def fetched(self, by: int, offset: int) -> ReplicaFetched:
        """A follower's Fetch."""
        epoch = self.manager.replicas.leader(NAME).state.leader_epoch
        return self.manager.fetch(NAME, ReplicaFetch(by, epoch, offset, 0))

    # -- records --------------------------------------------------------------------------------------------------------

    def _append(self, data: bytes, *, is_marker: bool = False) -> None:
        def work(log: PartitionLog) -> Appended:
            return log.append_own(data, 1) if is_marker else log.append(data, 1)

        self.broker.replica_effects.append(self.partition, work, self.broker.clock.now_ms())

    def append(self, *timestamps: int) -> None:
        """A batch of records with these timestamps."""
        self._append(encode_batch([(timestamp, b"k", b"v", ()) for timestamp in timestamps]))

    def append_transactional(self, sequence: int, count: int = 1) -> None:
        items = [(1_000, b"k", b"v", ())] * count
        ids = {"producer_id": PRODUCER, "producer_epoch": PRODUCER_EPOCH, "base_sequence": sequence}
        self._append(encode_batch(items, **ids, attributes=TRANSACTIONAL_BIT))

    def end_transaction(self, *, committed: bool) -> None:
        self._append(end_of_transaction(PRODUCER, PRODUCER_EPOCH, committed, 0, 1_000), is_marker=True)

    # -- the client -----------------------------------------------------------------------------------------------------

    async def fetch(
        self,
        epoch: int = -1,
        offset: int = 0,
        isolation: int = READ_UNCOMMITTED,
        version: int = 11,
        min_bytes: int = 0,
        wait_ms: int = 0,
    ) -> PartitionData:
        wanted = [FetchPartition(0, epoch, offset, partition_max_bytes=100_000)]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=100_000,
            isolation_level=isolation,
            topics=[FetchTopic("t", partitions=wanted)],
            rack_id="rack-a",
        )
        response = await self.client.ask(request, FetchResponse, version)
        return response.responses[0].partitions[0]

    def waiting(self, epoch: int = -1) -> asyncio.Task[PartitionData]:
        return asyncio.create_task(self.fetch(epoch, min_bytes=1, wait_ms=LONG_MS))

    async def listed(
        self, timestamp: int, epoch: int = -1, isolation: int = READ_UNCOMMITTED, replica_id: int = CONSUMER
    ) -> ListOffsetsPartitionResponse:
        topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, epoch, timestamp)])]
        request = ListOffsetsRequest(replica_id, isolation, topics)
        return (await self.client.ask(request, ListOffsetsResponse, 5)).topics[0].partitions[0]

    async def offset(self, timestamp: int, isolation: int = READ_UNCOMMITTED, replica_id: int = CONSUMER) -> int:
        row = await self.listed(timestamp, isolation=isolation, replica_id=replica_id)
        assert row.error_code == ErrorCode.NONE
        return row.offset

    async def end_of_epoch(self, epoch: int) -> int:
        """Its error."""
        topics = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, epoch, 0)])]
        request = OffsetForLeaderEpochRequest(CONSUMER, topics)
        return (await self.client.ask(request, OffsetForLeaderEpochResponse, 3)).topics[0].partitions[0].error_code


@asynccontextmanager
async def story_of_one() -> AsyncIterator[Story]:
    async with one_of_two() as (broker, client, partition, _):
        yield Story(broker, client, partition)


# -- leader epochs --------------------------------------------------------------------------------------------------------

ROLES = [  # the leader in epoch 5, the request's epoch, the error
    (ME, -1, ErrorCode.NONE),
    (ME, 5, ErrorCode.NONE),
    (ME, 4, FENCED),
    (ME, 6, UNKNOWN),
    (OTHER, -1, NOT_LEADER),
    (OTHER, 5, NOT_LEADER),
    (OTHER, 4, FENCED),
    (OTHER, 6, UNKNOWN),
]


@pytest.mark.parametrize(("leader", "epoch", "error"), ROLES)
async def test_the_epochs_of_consumers_requests(leader: int, epoch: int, error: ErrorCode) -> None:
    """testOffsetForLeaderEpochValidationForLeader, testOffsetForLeaderEpochValidationForFollower,
    testReadRecordEpochValidationForLeader, testReadRecordEpochValidationForFollower,
    testFetchOffsetForTimestampEpochValidationForLeader, testFetchOffsetForTimestampEpochValidationForFollower,
    testFetchOffsetSnapshotEpochValidationForLeader and testFetchOffsetSnapshotEpochValidationForFollower (a Fetch that would
    wait): as where only the leader may answer. No follower of coterie answers consumers (KIP-392)."""
    async with story_of_one() as one:
        one.assume(leader, 5)
        assert await one.end_of_epoch(epoch) == error
        assert (await one.fetch(epoch)).error_code == error
        assert (await one.listed(0, epoch)).error_code == error
        waiting = one.waiting(epoch)
        await quiet()
        assert waiting.done() == (error != ErrorCode.NONE)
        if error == ErrorCode.NONE:
            one.append(1_000)
            one.fetched(OTHER, 1)
        assert (await waiting).error_code == error


@pytest.mark.parametrize(("version", "epoch"), [(11, 1), (11, -1), (10, -1)])
async def test_a_leader_serves_every_consumer_and_names_no_other_replica(version: int, epoch: int) -> None:
    """testFetchFromLeaderAlwaysAllowed, testReplicaSelector, testDefaultReplicaSelector, testPreferredReplicaAsLeader"""
    async with story_of_one() as one:
        one.assume(ME, 1)
        row = await one.fetch(epoch, version=version)
        assert (row.error_code, row.preferred_read_replica) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize("version", [10, 11])
async def test_a_follower_serves_no_consumers(version: int) -> None:
    """testFetchFollowerNotAllowedForOlderClients. Kafka's followers serve those of version 11 (KIP-392)."""
    async with story_of_one() as one:
        one.assume(OTHER, 0)
        assert (await one.fetch(0, version=version)).error_code == NOT_LEADER


CHANGES = [  # the epoch of a Fetch that waits at the leader of epoch 1, what it becomes, and the error
    (-1, "follower", NOT_LEADER),
    (1, "follower", FENCED),
    (1, "leader", FENCED),
    (-1, "leader", None),
    (-1, "none", NOT_LEADER),
    (1, "none", NOT_LEADER),
]


@pytest.mark.parametrize(("epoch", "becomes", "error"), CHANGES)
async def test_a_fetch_that_waits_where_the_role_changes(epoch: int, becomes: str, error: ErrorCode | None) -> None:
    """testBecomeFollowerWhileOldClientFetchInPurgatory, testBecomeFollowerWhileNewClientFetchInPurgatory,
    testClearFetchPurgatoryOnStopReplica: at once, not when its time is over."""
    async with story_of_one() as one:
        one.assume(ME, 1)
        waiting = one.waiting(epoch)
        await quiet()
        assert not waiting.done()
        if becomes == "none":
            one.stop()
        else:
            one.assume(ME if becomes == "leader" else OTHER, 2)
        await quiet()
        assert waiting.done() == (error is not None)
        if error is None:
            one.append(1_000)
            one.fetched(OTHER, 1)
        assert (await waiting).error_code == (error or ErrorCode.NONE)


# -- offsets before the high watermark ------------------------------------------------------------------------------------


async def test_what_is_above_the_high_watermark_is_for_followers_alone() -> None:
    """testFetchBeyondHighWatermark: the high watermark may have moved since a consumer learnt of it, so that there is no
    error."""
    async with story_of_one() as one:
        one.assume(ME, 0, isr=(ME, OTHER, THIRD))
        for _ in range(2):
            one.append(1_000)
        assert one.fetched(OTHER, 1).batches
        for offset in (0, 1, 2):
            row = await one.fetch(offset=offset)
            assert (row.error_code, row.records, row.high_watermark) == (ErrorCode.NONE, b"", 0)
        assert (await one.fetch(offset=3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_the_latest_offset_is_that_of_the_isolation() -> None:
    """testListOffsetIsolationLevels: a tool for replicas, which is no consumer, gets the end of the log.
    testFetchLatestOffsetIncludesLeaderEpoch"""
    async with story_of_one() as one:
        one.assume(ME, 5)
        one.append_transactional(0, 3)
        for high_watermark in (0, 1):
            one.log.move_high_watermark(high_watermark)
            assert await one.offset(LATEST, replica_id=DEBUGGING) == 3
            row = await one.listed(LATEST)
            assert (row.offset, row.leader_epoch) == (high_watermark, 5)
            assert await one.offset(LATEST, READ_COMMITTED) == 0
            for isolation, replica_id in ((0, DEBUGGING), (0, CONSUMER), (READ_COMMITTED, CONSUMER)):
                assert await one.offset(EARLIEST, isolation, replica_id) == 0
        one.log.move_high_watermark(3)
        assert await one.offset(1_000) == 0
        assert await one.offset(1_000, READ_COMMITTED) == -1


async def test_offsets_never_fall_when_the_leader_changes() -> None:
    """testMonotonicOffsetsAfterLeaderChange (KIP-207)"""
    async with story_of_one() as one:
        one.assume(ME, 8, isr=(ME, THIRD))
        one.append(10, 11)
        one.append(12, 20, 21)
        assert one.log.high_watermark == 0
        for follower in (OTHER, THIRD):
            for offset in (0, 2):
                one.fetched(follower, offset)
        assert one.log.high_watermark == 2
        assert await one.offset(LATEST, replica_id=DEBUGGING) == 5
        assert await one.offset(LATEST) == 2
        assert await one.offset(30) == -1
        one.assume(THIRD, 9, isr=(ME, THIRD))
        one.assume(ME, 10, isr=(ME, THIRD))
        assert (await one.listed(LATEST)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert await one.offset(LATEST, replica_id=DEBUGGING) == 5
        assert await one.offset(EARLIEST) == 0
        row = await one.listed(11)
        assert (row.error_code, row.offset, row.timestamp) == (ErrorCode.NONE, 1, 11)
        assert (await one.listed(100)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        one.fetched(OTHER, 5)
        one.fetched(THIRD, 5)
        assert await one.offset(LATEST) == 5
        assert await one.offset(100) == -1


# -- transactions -----------------------------------------------------------------------------------------------------------


def number_of_batches(row: PartitionData) -> int:
    return len([*batches(row.records or b"")])


async def test_committed_records_are_read_once_the_marker_is_replicated() -> None:
    """testReadCommittedFetchLimitedAtLSO"""
    async with story_of_one() as one:
        one.assume(ME, 0)
        for sequence in range(3):
            one.append_transactional(sequence)
        one.fetched(OTHER, 3)
        for wait_ms in (0, 1):  # the second waits in vain
            row = await one.fetch(isolation=READ_COMMITTED, min_bytes=1_000 * wait_ms, wait_ms=wait_ms)
            assert (row.error_code, row.records, row.last_stable_offset) == (ErrorCode.NONE, b"", 0)
            assert row.aborted_transactions == []
        one.end_transaction(committed=True)
        row = await one.fetch(isolation=READ_COMMITTED)
        assert (row.error_code, row.records, row.last_stable_offset) == (ErrorCode.NONE, b"", 0)
        one.fetched(OTHER, 4)
        row = await one.fetch(isolation=READ_COMMITTED)
        assert (row.error_code, row.last_stable_offset, number_of_batches(row)) == (ErrorCode.NONE, 4, 4)
        assert row.aborted_transactions == []


async def test_a_fetch_that_waited_has_the_aborted_transactions() -> None:
    """testDelayedFetchIncludesAbortedTransactions"""
    async with story_of_one() as one:
        one.assume(ME, 0)
        for sequence in range(3):
            one.append_transactional(sequence)
        one.end_transaction(committed=False)
        one.fetched(OTHER, 4)
        row = await one.fetch(isolation=READ_COMMITTED, min_bytes=10_000, wait_ms=1)
        assert (row.error_code, row.last_stable_offset, number_of_batches(row)) == (ErrorCode.NONE, 4, 4)
        assert row.aborted_transactions is not None
        assert [(a.producer_id, a.first_offset) for a in row.aborted_transactions] == [(PRODUCER, 0)]
