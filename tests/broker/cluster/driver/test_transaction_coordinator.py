"""The transaction coordinator of a broker of a cluster by itself: when it begins, what it asks ZooKeeper, and whom it obeys."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from coterie.broker.storage.topic import TRANSACTIONS_TOPIC, Partition
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.machine import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    TransactionResult,
)
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.records.encoding import encode_batch
from coterie.replication.states import PartitionState
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.awaiting import quiet
from tests.broker.cluster.replicas.test_replicated_writes import ME, OTHER, announced, fetched, follow, lead
from tests.broker.connections.test_server import FAST

ID, DATA = "ledger", ("orders", 0)
PREPARED = Transaction(ID, 7, 1, 60_000, Status.PREPARE_COMMIT, frozenset({DATA}), 5, 5, client_transaction_version=2)


class RecordedPeers:
    """Keeps what is sent, and answers it when the test wants."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, WriteTxnMarkersRequest, Callable[[Any], None]]] = []

    def send(self, broker: int, message: Any, response: type, version: int, responded: Callable[[Any], None]) -> None:
        self.sent.append((broker, message, responded))

    def view_changed(self) -> None: ...


class RecordedLookups:
    def __init__(self) -> None:
        self.requested: list[tuple[str, Callable[[set[int] | None], None]]] = []

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        self.requested.append((topic, done))


class Coordinating:
    """A broker with one partition of `__transaction_state`, which another one replicates."""

    async def start(self) -> None:
        self.broker = broker = Broker(BrokerSettings(FAST | {"transaction.state.log.num.partitions": "1"}))
        broker.cluster = ClusterView(ME, is_alone=False)
        live = [LiveBroker(ME, "127.0.0.1", 1), LiveBroker(OTHER, "127.0.0.1", 2)]
        broker.cluster.update(ME, live, {DATA: PartitionState(OTHER, 0, (OTHER,), 1, 0, (OTHER,))})
        await broker.start("127.0.0.1", 0)
        self.partition = announced(broker, TRANSACTIONS_TOPIC)
        self.peers, self.lookups = RecordedPeers(), RecordedLookups()
        self.coordinator = broker.transactions
        self.coordinator.take_producer_id = count(7).__next__
        self.coordinator.peers, self.coordinator.deleted_topics = self.peers, self.lookups

    def lead(self, partition: Partition | None = None) -> Any:
        leader = lead(self.broker, partition or self.partition, (ME, OTHER))
        self.coordinator.role_changed(partition or self.partition)
        return leader

    def follow(self) -> None:
        follow(self.broker, self.partition)
        self.coordinator.role_changed(self.partition)

    def submit(self, command: Any) -> list[TransactionResult]:
        responses: list[TransactionResult] = []
        self.coordinator.submit(command, responses.append)
        return responses


async def started(log: Transaction | None = None) -> Coordinating:
    one = Coordinating()
    await one.start()
    if log is not None:
        one.partition.log.append_own(encode_batch([(5, log.key(), log.value(2), ())]), 5)
    return one


@asynccontextmanager
async def coordinating(log: Transaction | None) -> AsyncIterator[Coordinating]:
    one = await started(log)
    try:
        yield one
    finally:
        one.coordinator.close()
        await one.broker.stop()


NAMES = {
    ErrorCode.NOT_COORDINATOR: """shouldRespondWithNotCoordinatorOnInitPidWhenNotCoordinator,
        shouldRespondWithNotCoordinatorOnAddPartitionsWhenNotCoordinator,
        shouldRespondWithNotCoordinatorOnEndTxnWhenIsNotCoordinatorForId,
        shouldReturnNotCoordinatorErrorIfTransactionIdPartitionNotOwned""",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: """shouldRespondWithCoordinatorLoadInProgressOnInitPidWhenCoordinatorLoading,
        shouldRespondWithCoordinatorLoadInProgressOnAddPartitionsWhenCoordinatorLoading,
        shouldRespondWithCoordinatorLoadInProgressOnEndTxnWhenCoordinatorIsLoading,
        testDescribeTransactionsWhileCoordinatorLoading, testListTransactionsWithCoordinatorLoadingInProgress""",
}


@pytest.mark.parametrize("code", NAMES)
async def test_who_is_not_the_coordinator_and_who_is_not_yet(code: ErrorCode) -> None:
    async with coordinating(None) as one:
        is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_loading:
            one.lead()
        for command in (
            InitProducer(ID, 60_000),
            AddToTransaction(ID, Claim(7, 1), frozenset({DATA})),
            EndTransaction(ID, Claim(7, 1), committed=True),
            EndTransaction(ID, Claim(7, 1), committed=True, bumps_epoch=True),
        ):
            assert [result.code for result in one.submit(command)] == [code]
        with pytest.raises(Refusal) as refused:
            one.coordinator.transaction(ID)
        assert refused.value.code == code
        with pytest.raises(Refusal) as refused:
            one.coordinator.check_ongoing(ID, Claim(7, 1), DATA)
        assert refused.value.code == code
        if is_loading:
            with pytest.raises(Refusal) as refused:
                one.coordinator.every_transaction()
            assert refused.value.code == code
        else:
            assert one.coordinator.every_transaction() == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("", ErrorCode.INVALID_REQUEST, id="testDescribeTransactionsWithEmptyTransactionalId"),
        pytest.param(ID, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, id="an-id-that-is-not-there"),
    ],
)
async def test_describe_what_is_not_there(name: str, code: ErrorCode) -> None:
    async with coordinating(None) as one:
        fetched(one.broker, one.lead())
        await quiet()
        with pytest.raises(Refusal) as refused:
            one.coordinator.transaction(name)
        assert refused.value.code == code


async def test_should_return_next_producer_id_when_transactional_id_is_null() -> None:
    """shouldAcceptInitPidAndReturnNextPidWhenTransactionalIdIsNull: no state is kept, and no coordinator is needed."""
    async with coordinating(None) as one:
        requests = one.broker.transaction_requests
        responses = [requests.init_producer_id(InitProducerIdRequest(None, 1), 5).response for _ in range(2)]
        assert responses == [InitProducerIdResponse(producer_id=7), InitProducerIdResponse(producer_id=8)]


async def test_a_new_coordinator_waits_until_its_log_is_replicated() -> None:
    """Otherwise the markers of a decision might be out that the next leader has never seen; Apache Kafka does not wait."""
    async with coordinating(PREPARED) as one:
        leader = one.lead()
        await quiet()
        assert one.peers.sent == []
        (result,) = one.submit(InitProducer(ID, 60_000))
        assert result.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        fetched(one.broker, leader)
        ((broker, message, _),) = one.peers.sent
        assert (broker, message.markers[0].producer_id, message.markers[0].coordinator_epoch) == (OTHER, 7, 1)


async def test_a_partition_that_the_view_lacks_is_looked_up() -> None:
    """Apache Kafka takes it for deleted, though its view may be older than the topic."""
    async with coordinating(PREPARED) as one:
        one.broker.cluster.states.pop(DATA)
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        ((topic, done),) = one.lookups.requested
        assert topic == "orders"
        done({0})  # it is there: wait for the view
        assert one.coordinator.transaction(ID).status == Status.PREPARE_COMMIT
        one.lookups.requested.clear()
        one.coordinator.write_markers()
        ((_, done),) = one.lookups.requested
        done(set())
        fetched(one.broker, leader)
        assert one.coordinator.transaction(ID).status == Status.COMPLETE_COMMIT


async def test_a_producer_is_answered_once_the_replicas_have_the_state() -> None:
    """shouldCompleteAppendToLogOnEndTxnWhenSendMarkersSucceed, shouldOnlyWriteTxnCompletionOnce."""
    async with coordinating(None) as one:
        leader = one.lead()
        await quiet()
        responses = one.submit(InitProducer(ID, 60_000))
        assert responses == []
        (busy,) = one.submit(InitProducer(ID, 60_000))
        assert busy.code == ErrorCode.CONCURRENT_TRANSACTIONS
        fetched(one.broker, leader)
        assert [(a.code, a.producer_id, a.epoch) for a in responses] == [(0, 7, 0)]


WRITTEN = WriteTxnMarkersResponse(
    markers=[
        WritableTxnMarkerResult(
            7, [WritableTxnMarkerTopicResult(DATA[0], [WritableTxnMarkerPartitionResult(DATA[1], 0)])]
        )
    ]
)
UNKNOWN_KEY = struct.pack(">h", 2**15 - 1) + PREPARED.key()[2:]


async def test_unknown_records_are_skipped() -> None:
    """testIgnoreUnknownRecordType, testSuccessfulReimmigration: an election of the leader that it has already changes the epoch
    of its markers alone."""
    async with coordinating(PREPARED) as one:
        records = [(5, UNKNOWN_KEY, UNKNOWN_KEY, ()), (5, UNKNOWN_KEY, None, ()), (5, PREPARED.key(), b"\x7f\xff", ())]
        one.partition.log.append_own(encode_batch(records), 5)
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        assert one.coordinator.transaction(ID) == PREPARED
        assert list(one.coordinator.every_transaction()) == [PREPARED]
        ((_, message, responded),) = one.peers.sent
        assert message.markers[0].coordinator_epoch == 1
        assert one.partition.replica is not None
        state = PartitionState(ME, 4, (ME, OTHER), 1, 1, (ME, OTHER))
        one.broker.replica_effects.act(one.partition.replica.assume(state, 0))
        leader = one.partition.replica.leading()
        one.coordinator.role_changed(one.partition)
        assert one.coordinator.transaction(ID) == PREPARED
        responded(WRITTEN)
        fetched(one.broker, leader)
        one.submit(AddToTransaction(ID, Claim(7, 1), frozenset({DATA}), 2))
        fetched(one.broker, leader)
        responses = one.submit(EndTransaction(ID, Claim(7, 1), committed=True, bumps_epoch=True))
        fetched(one.broker, leader)
        assert [result.code for result in responses] == [ErrorCode.NONE]
        assert one.peers.sent[-1][1].markers[0].coordinator_epoch == 4


async def test_a_partition_that_moves_away_takes_its_own_transactional_ids() -> None:
    """testDeletePartition."""
    async with coordinating(None) as one:
        second = one.broker.topics.announce(TRANSACTIONS_TOPIC, 2, b"", {}).partitions[1]
        one.broker.topics.store(second)
        leaders = [one.lead(), one.lead(second)]
        await quiet()
        assert [partition_for(name, 2) for name in ("b", "a")] == [0, 1]
        for name in ("b", "a"):
            one.submit(InitProducer(name, 60_000))
        for leader in leaders:
            fetched(one.broker, leader)
        assert [one.coordinator.transaction(name).epoch for name in ("b", "a")] == [0, 0]
        one.follow()
        with pytest.raises(Refusal) as refused:
            one.coordinator.transaction("b")
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        assert [transaction.transactional_id for transaction in one.coordinator.every_transaction()] == ["a"]


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_partition_that_moves_away_while_it_loads(monkeypatch: pytest.MonkeyPatch, comes_back: bool) -> None:
    """testDeleteLoadingPartition, testMakeFollowerLoadingPartition."""
    monkeypatch.setattr("coterie.log.reading.CHUNK_BYTES", 1)
    async with coordinating(PREPARED) as one:
        for n in range(3):
            other = replace(PREPARED, transactional_id=f"other-{n}", status=Status.ONGOING)
            one.partition.log.append_own(encode_batch([(5, other.key(), other.value(2), ())]), 5)
        one.lead()
        await asyncio.sleep(0)  # one chunk of four
        one.follow()
        if not comes_back:
            await quiet()
            assert one.submit(InitProducer(ID, 60_000))[0].code == ErrorCode.NOT_COORDINATOR
            assert (one.coordinator.every_transaction(), one.peers.sent) == ([], [])
            return
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        assert len(list(one.coordinator.every_transaction())) == 4


async def test_an_expired_transactional_id_is_removed_once_the_replicas_have_its_tombstone() -> None:
    async with coordinating(replace(PREPARED, status=Status.COMPLETE_COMMIT, partitions=frozenset())) as one:
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        assert one.coordinator.transaction(ID).status == Status.COMPLETE_COMMIT
        one.broker.settings.current = replace(one.broker.settings.current, transactional_id_expiration_ms=1)
        one.coordinator.remove_expired()
        assert one.coordinator.transaction(ID).status == Status.COMPLETE_COMMIT
        assert one.submit(InitProducer(ID, 60_000))[0].code == ErrorCode.CONCURRENT_TRANSACTIONS
        fetched(one.broker, leader)
        with pytest.raises(Refusal) as refused:
            one.coordinator.transaction(ID)
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        responses = one.submit(InitProducer(ID, 60_000))
        fetched(one.broker, leader)
        assert [(a.code, a.epoch) for a in responses] == [(ErrorCode.NONE, 0)]


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_the_finalized_level_of_transaction_version(level: int) -> None:
    """testTransactionVersionInTransactionManager."""
    async with coordinating(None) as one:
        one.broker.features.update(
            [FeatureUpdate(TRANSACTION_VERSION, level, UpgradeType.SAFE_DOWNGRADE)], validate_only=False
        )
        assert one.coordinator.transaction_version() == level


async def test_a_coordinator_that_resigns_says_so() -> None:
    """shouldAbortAppendToLogOnEndTxnWhenNotCoordinatorError, shouldRemoveTransactionsForPartitionOnEmigration: and its markers
    are the next one's."""
    async with coordinating(PREPARED) as one:
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        ((_, _, responded),) = one.peers.sent
        responses = one.submit(InitProducer("other", 60_000))
        one.follow()
        assert [a.code for a in responses] == [ErrorCode.NOT_COORDINATOR]
        assert one.coordinator.every_transaction() == []
        responded(WriteTxnMarkersResponse())
        one.coordinator.write_markers()
        assert len(one.peers.sent) == 1
        assert one.submit(InitProducer(ID, 60_000))[0].code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("committed", [True, False])
async def test_nothing_is_ended_while_markers_are_outstanding(committed: bool) -> None:
    """A retried end, and the other one."""
    async with coordinating(PREPARED) as one:
        leader = one.lead()
        await quiet()
        fetched(one.broker, leader)
        (result,) = one.submit(EndTransaction(ID, Claim(7, 0), committed, bumps_epoch=True))
        assert result.code == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_nobody_is_answered_twice() -> None:
    async with coordinating(None) as one:
        one.lead()
        await asyncio.sleep(0)
        await quiet()
        responses = one.submit(InitProducer(ID, 60_000))
        one.follow()
        one.coordinator.role_changed(one.partition)
        assert [a.code for a in responses] == [ErrorCode.NOT_COORDINATOR]
