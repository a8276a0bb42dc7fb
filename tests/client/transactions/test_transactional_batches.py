"""The records of a transaction that fails, is aborted, or is committed while they are on their way: Kafka's
TransactionManagerTest by name."""

from __future__ import annotations

import asyncio

import pytest

from coterie.client import KafkaError, Producer
from coterie.client.errors import TransactionAbortableError
from coterie.client.producer.delivery import Delivery
from coterie.client.producer.transactions import State
from coterie.client.types import TopicPartition
from coterie.records.batch import batches
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.awaiting import quiet, until
from tests.client.scripted_cluster import LOST, ScriptedCluster
from tests.client.transactions.test_transaction_calls import One, begun, transacting

pytestmark = pytest.mark.virtual_time

E = ErrorCode
INIT, ADD, PRODUCE, END = "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"


def state(one: One) -> State:
    assert one._transactions is not None
    return one._transactions.state


def takes_part(one: Producer[bytes, bytes], topic: str, partition: int) -> bool:
    assert one._transactions is not None
    return one._transactions._machine.has(TopicPartition(topic, partition))


async def code_of(delivery: Delivery) -> ErrorCode:
    with pytest.raises(KafkaError) as failed:
        await delivery
    return failed.value.code


async def refused_commit(one: One) -> ErrorCode:
    """The transaction is to be aborted for that."""
    with pytest.raises(TransactionAbortableError, match="must be aborted") as refused:
        await one.commit_transaction()
    return refused.value.code


async def next_transaction(one: One, cluster: ScriptedCluster) -> tuple[int, int]:
    """Succeeds. Returns the epoch and the first sequence number of its record."""
    one.begin_transaction()
    await one.send_and_wait("t", b"next", partition=0)
    request = [r for r in cluster.requested if isinstance(r, ProduceRequest)][-1]
    ((_, header),) = batches(request.topic_data[0].partition_data[0].records or b"")
    await one.commit_transaction()
    return header.producer_epoch, header.base_sequence


# -- the order of the requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linger_ms", [0, 60_000], ids=["in flight", "unsent"])
async def test_a_commit_follows_the_records(linger_ms: int) -> None:
    """testEndTxnNotSentIfIncompleteBatches, testCommitTransactionWithInFlightProduceRequest and, of records that still linger,
    testFlushPendingPartitionsOnCommit, testCommitTransactionWithUnsentProduceRequest"""
    async with transacting(linger_ms=linger_ms) as (one, cluster):
        await begun(one)
        cluster.hold(ProduceRequest)
        delivery = await one.send("t", b"v", partition=0)
        if not linger_ms:
            await until(lambda: PRODUCE in cluster.kinds())
        commit = asyncio.create_task(one.commit_transaction())
        await until(lambda: PRODUCE in cluster.kinds())
        await quiet()
        assert cluster.kinds() == [INIT, ADD, PRODUCE]
        cluster.release(ProduceRequest)
        await commit
        assert (await delivery).offset == 7
        assert cluster.kinds() == [INIT, ADD, PRODUCE, END]


async def test_a_partition_that_comes_later_is_added_by_itself() -> None:
    """testMultipleAddPartitionsPerForOneProduce"""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.hold(ProduceRequest)
        first = await one.send("t", b"v", partition=0)
        await until(lambda: takes_part(one, "t", 0))
        second = await one.send("t", b"v", partition=1)
        assert not takes_part(one, "t", 1)
        await until(lambda: takes_part(one, "t", 1))
        cluster.release(ProduceRequest)
        assert [(await delivery).offset for delivery in (first, second)] == [7, 7]
        added = [r.topics[0].partitions for r in cluster.requested if isinstance(r, AddPartitionsToTxnRequest)]
        assert added == [[0], [1]]
        await one.commit_transaction()


async def test_a_partition_is_added_again_where_it_is_unknown() -> None:
    """testHandlingOfUnknownTopicPartitionErrorOnAddPartitions"""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(AddPartitionsToTxnRequest, E.UNKNOWN_TOPIC_OR_PARTITION)
        assert (await one.send_and_wait("t", b"v", partition=0)).offset == 7
        assert cluster.kinds() == [INIT, ADD, ADD, PRODUCE]
        await one.commit_transaction()


# -- partitions that are refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_committing", [False, True])
async def test_partitions_that_may_not_be_written(is_committing: bool) -> None:
    """testTopicAuthorizationFailureInAddPartitions, testRecoveryFromAbortableErrorTransactionNotStarted, and with a commit
    under way testCommitWithTopicAuthorizationFailureInAddPartitionsInFlight: no record is sent, there is nothing to abort at
    the coordinator, and the next transaction goes on in the same epoch."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(AddPartitionsToTxnRequest, E.TOPIC_AUTHORIZATION_FAILED)
        cluster.hold(AddPartitionsToTxnRequest)
        deliveries = [await one.send(topic, b"v", partition=0) for topic in ("t", "u")]
        await until(lambda: ADD in cluster.kinds())
        commit = asyncio.create_task(refused_commit(one)) if is_committing else None
        await quiet()
        cluster.release(AddPartitionsToTxnRequest)
        assert [await code_of(delivery) for delivery in deliveries] == [E.TOPIC_AUTHORIZATION_FAILED] * 2
        assert not takes_part(one, "t", 0)
        assert not takes_part(one, "u", 0)
        assert await (commit or refused_commit(one)) == E.TOPIC_AUTHORIZATION_FAILED
        await one.abort_transaction()
        assert cluster.kinds() == [INIT, ADD]
        assert state(one) == State.READY
        assert await next_transaction(one, cluster) == (0, 0)


async def test_another_partition_of_the_transaction_is_refused() -> None:
    """testRecoveryFromAbortableErrorTransactionStarted: what waits fails with it, for the partition that takes part too."""
    async with transacting(linger_ms=60_000, batch_size=100) as (one, cluster):
        await begun(one)
        first = await one.send("t", b"v", partition=0)
        await one.flush()
        cluster.fail(AddPartitionsToTxnRequest, E.TOPIC_AUTHORIZATION_FAILED)
        lingering = await one.send("t", b"lingers", partition=0)
        refused = [await one.send("u", b"a full batch" * 20, partition=0) for _ in range(2)]
        codes = [await code_of(delivery) for delivery in (lingering, *refused)]
        assert codes == [E.TOPIC_AUTHORIZATION_FAILED] * 3
        assert (await first).offset == 7
        assert takes_part(one, "t", 0)
        assert not takes_part(one, "u", 0)
        await one.abort_transaction()
        assert cluster.kinds() == [INIT, ADD, PRODUCE, ADD, END]
        one.begin_transaction()
        await one.commit_transaction()


@pytest.mark.parametrize("code", [E.REQUEST_TIMED_OUT, E.NOT_LEADER_OR_FOLLOWER])
async def test_what_was_sent_is_repeated_although_the_transaction_failed(code: ErrorCode) -> None:
    """testRecoveryFromAbortableErrorProduceRequestInRetry, resendFailedProduceRequestAfterAbortableError,
    testAllowDrainInAbortableErrorState: only so its numbers are known to be in the log."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(ProduceRequest, code)
        cluster.hold(ProduceRequest)
        cluster.fail(AddPartitionsToTxnRequest, E.NONE, E.TOPIC_AUTHORIZATION_FAILED)
        repeated = await one.send("t", b"v", partition=0)
        await until(lambda: PRODUCE in cluster.kinds())
        refused = await one.send("u", b"v", partition=0)
        assert await code_of(refused) == E.TOPIC_AUTHORIZATION_FAILED
        assert state(one) == State.ABORTABLE_ERROR
        cluster.release(ProduceRequest)
        assert (await repeated).offset == 7
        await one.abort_transaction()
        assert cluster.kinds() == [INIT, ADD, PRODUCE, ADD, PRODUCE, END]
        assert await next_transaction(one, cluster) == (0, 1)


# -- batches that fail --------------------------------------------------------------------------------------------------------


FAILURES = [
    ("testDisallowCommitOnProduceFailure testAllowAbortOnProduceFailure", E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("testBumpTransactionalEpochOnAbortableError", E.TOPIC_AUTHORIZATION_FAILED),
    ("testBumpTransactionalEpochOnUnknownProducerIdError", E.UNKNOWN_PRODUCER_ID),
    ("testInvalidProducerEpochFromProduce", E.INVALID_PRODUCER_EPOCH),
]


@pytest.mark.parametrize(("names", "code"), FAILURES, ids=[code.name for _, code in FAILURES])
async def test_a_batch_that_fails(names: str, code: ErrorCode) -> None:
    """The transaction cannot be committed; once it is aborted, the numbers begin at 0 under the next epoch."""
    async with transacting() as (one, cluster):
        await begun(one)
        for _ in range(2):
            await one.send_and_wait("t", b"v", partition=0)
        cluster.fail(ProduceRequest, code)
        failed = await one.send("t", b"v", partition=0)
        assert await refused_commit(one) == code
        assert await code_of(failed) == code
        await one.abort_transaction()
        assert cluster.kinds() == [INIT, ADD, PRODUCE, PRODUCE, PRODUCE, END, INIT]
        assert state(one) == State.READY
        assert await next_transaction(one, cluster) == (1, 0)


async def test_a_coordinator_that_has_forgotten_the_producer() -> None:
    """testFatalErrorWhenProduceResponseWithInvalidPidMapping: of version 2, where a leader asks it."""
    async with transacting() as (one, cluster):
        cluster.known.features_received({"transaction.version": 2}, 1)
        await begun(one)
        cluster.fail(ProduceRequest, E.INVALID_PRODUCER_ID_MAPPING)
        assert await code_of(await one.send("t", b"v", partition=0)) == E.INVALID_PRODUCER_ID_MAPPING
        assert state(one) == State.FATAL_ERROR
        assert cluster.kinds() == [INIT, PRODUCE]


@pytest.mark.parametrize("level", [1, 2])
async def test_batches_that_are_given_up(level: int) -> None:
    """testTransitionToAbortableErrorOnBatchExpiry, testTransitionToAbortableErrorOnMultipleBatchExpiry,
    testMaybeResolveSequencesTransactionalProducer, testDropCommitOnBatchExpiry, testBumpTransactionalEpochOnTimeout: one in
    flight, and one that waits for it."""
    async with transacting(delivery_timeout_ms=50, max_in_flight_requests_per_connection=1) as (one, cluster):
        cluster.known.features_received({"transaction.version": level}, 1)
        await begun(one)
        for partition in range(2):
            await one.send_and_wait("t", b"v", partition=partition)
        cluster.fail(ProduceRequest, LOST)
        cluster.hold(ProduceRequest)
        deliveries = [await one.send("t", b"v", partition=0)]
        await until(lambda: cluster.kinds().count(PRODUCE) == 3)
        deliveries.append(await one.send("t", b"v", partition=1))
        assert await refused_commit(one) == E.REQUEST_TIMED_OUT
        assert [await code_of(delivery) for delivery in deliveries] == [E.REQUEST_TIMED_OUT] * 2
        assert cluster.kinds().count(PRODUCE) == 3
        assert END not in cluster.kinds(), "the commit is dropped"
        assert takes_part(one, "t", 0)
        await one.abort_transaction()
        assert not takes_part(one, "t", 0)
        assert cluster.kinds()[-2:] == ([END, INIT] if level == 1 else [PRODUCE, END])
        cluster.release(ProduceRequest)
        assert await next_transaction(one, cluster) == (1, 0)


async def test_what_still_lingers_fails_with_the_batch_for_which_the_transaction_is_aborted() -> None:
    async with transacting(linger_ms=60_000, batch_size=100) as (one, cluster):
        await begun(one)
        cluster.fail(ProduceRequest, E.TOPIC_AUTHORIZATION_FAILED)
        failed = [await one.send("t", b"a full batch" * 20, partition=0) for _ in range(2)]
        lingering = await one.send("t", b"lingers", partition=1)
        assert await code_of(failed[0]) == E.TOPIC_AUTHORIZATION_FAILED
        await one.abort_transaction()
        assert await code_of(lingering) == E.TOPIC_AUTHORIZATION_FAILED
        assert cluster.kinds() == [INIT, ADD, PRODUCE, END, INIT]


# -- aborts -------------------------------------------------------------------------------------------------------------------


async def test_an_abort_before_anything_is_sent() -> None:
    """testCancelUnsentAddPartitionsAndProduceOnAbort: the records fail, and there is nothing to abort at the coordinator."""
    async with transacting() as (one, cluster):
        await begun(one)
        delivery = await one.send("t", b"v", partition=0)
        await one.abort_transaction()
        with pytest.raises(
            KafkaError, match="INVALID_TXN_STATE: the transaction was aborted before the record was sent"
        ):
            await delivery
        assert cluster.kinds() == [INIT]
        assert await next_transaction(one, cluster) == (0, 0)


async def test_an_abort_while_a_partition_is_being_added() -> None:
    """testAbortResendsAddPartitionErrorIfRetried: it may take part, so it is added for certain, and then aborted."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(AddPartitionsToTxnRequest, E.UNKNOWN_TOPIC_OR_PARTITION)
        cluster.hold(AddPartitionsToTxnRequest)
        delivery = await one.send("t", b"v", partition=0)
        await until(lambda: ADD in cluster.kinds())
        abort = asyncio.create_task(one.abort_transaction())
        await quiet()
        cluster.release(AddPartitionsToTxnRequest)
        await abort
        assert await code_of(delivery) == E.INVALID_TXN_STATE
        assert cluster.kinds() == [INIT, ADD, ADD, END]


@pytest.mark.parametrize(
    ("name", "code", "is_delivered"),
    [
        ("testAbortResendsProduceRequestIfRetried", E.REQUEST_TIMED_OUT, True),
        ("testAbortableErrorWhileAbortInProgress", E.OUT_OF_ORDER_SEQUENCE_NUMBER, False),
    ],
)
async def test_an_abort_while_a_record_is_in_flight(name: str, code: ErrorCode, is_delivered: bool) -> None:
    """The abort waits for its result, and succeeds whatever it is."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(ProduceRequest, code)
        cluster.hold(ProduceRequest)
        delivery = await one.send("t", b"v", partition=0)
        await until(lambda: PRODUCE in cluster.kinds())
        abort = asyncio.create_task(one.abort_transaction())
        await quiet()
        assert END not in cluster.kinds()
        cluster.release(ProduceRequest)
        await abort
        if is_delivered:
            assert (await delivery).offset == 7
            assert cluster.kinds() == [INIT, ADD, PRODUCE, PRODUCE, END]
        else:
            with pytest.raises(KafkaError, match=code.name):
                await delivery
            assert cluster.kinds() == [INIT, ADD, PRODUCE, END, INIT]
        assert state(one) == State.READY
        assert await next_transaction(one, cluster) == ((0, 1) if is_delivered else (1, 0))
