"""Which call of a transactional producer is allowed when, and what becomes of one whose caller gives up: Kafka's
TransactionManagerTest by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coterie.client import KafkaError, Producer
from coterie.client.errors import ProducerFencedError, TransactionAbortableError, UnsupportedVersionError
from coterie.client.producer.transactions import State
from coterie.client.types import ConsumerGroupMetadata
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceRequest
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from tests.awaiting import quiet, until
from tests.client.scripted_cluster import LOST, ScriptedCluster, scripted

pytestmark = pytest.mark.virtual_time

E = ErrorCode
GROUP = ConsumerGroupMetadata("g", 5, "member", "instance")
One = Producer[bytes, bytes]


@asynccontextmanager
async def transacting(**settings: Any) -> AsyncIterator[tuple[One, ScriptedCluster]]:
    producer, cluster = scripted(**settings)
    async with asyncio.timeout(20), producer:
        yield producer, cluster


async def begun(one: One) -> None:
    await one.init_transactions()
    one.begin_transaction()


async def every_call(one: One, but: str = "") -> list[tuple[str, KafkaError | None]]:
    """What each call of the producer, ``but`` one, is refused with, None where it is not."""

    async def begin() -> None:
        one.begin_transaction()

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "init": one.init_transactions,
        "begin": begin,
        "send": lambda: one.send("t", b"v", partition=0),
        "offsets": lambda: one.send_offsets_to_transaction({("t", 0): 1}, GROUP),
        "commit": one.commit_transaction,
        "abort": one.abort_transaction,
    }
    results: list[tuple[str, KafkaError | None]] = []
    for name in sorted(calls.keys() - {but}):
        try:
            await calls[name]()
        except KafkaError as error:
            results.append((name, error))
        else:
            results.append((name, None))
    return results


NOT_READY = [
    ("testFailIfNotReadyForSendNoProducerId testNotReadyForSendBeforeInitTransactions", "new", "was not called"),
    (
        "testFailIfNotReadyForSendNoOngoingTransaction testNotReadyForSendBeforeBeginTransaction",
        "ready",
        "no transaction",
    ),
    (
        "testFailIfNotReadyForSendAfterAbortableError testNotReadyForSendAfterAbortableError",
        "abortable",
        "must be aborted",
    ),
    ("testFailIfNotReadyForSendAfterFatalError testNotReadyForSendAfterFatalError", "fatal", "make a new one"),
]


@pytest.mark.parametrize(("names", "state", "text"), NOT_READY, ids=[row[1] for row in NOT_READY])
async def test_records_are_taken_only_in_a_transaction(names: str, state: str, text: str) -> None:
    async with transacting() as (one, cluster):
        if state == "ready":
            await one.init_transactions()
        elif state != "new":
            await begun(one)
            cluster.fail(ProduceRequest, E.MESSAGE_TOO_LARGE if state == "abortable" else E.PRODUCER_FENCED)
            with pytest.raises(KafkaError):
                await one.send_and_wait("t", b"v", partition=0)
        with pytest.raises(KafkaError, match=text) as refused:
            await one.send("t", b"v", partition=0)
        assert isinstance(refused.value, TransactionAbortableError) == (state == "abortable")
        if state == "abortable":
            await one.abort_transaction()


async def test_a_producer_without_transactions_takes_records_at_once() -> None:
    """testFailIfNotReadyForSendIdempotentProducer"""
    async with transacting(transactional_id=None) as (one, cluster):
        cluster.known.features_received({"transaction.version": 2}, 1)
        one._sender.machine.identified((7, 0), 0)
        assert (await one.send_and_wait("t", b"v", partition=0)).offset == 7


async def test_init_is_called_once() -> None:
    """testInitializeTransactionsTwiceRaisesError"""
    async with transacting() as (one, cluster):
        await one.init_transactions()
        with pytest.raises(KafkaError, match="init_transactions was called already"):
            await one.init_transactions()
        assert cluster.kinds() == ["InitProducerId"]


async def test_a_call_that_is_refused_changes_nothing() -> None:
    """testForegroundInvalidStateTransitionIsRecoverable"""
    async with transacting() as (one, cluster):
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            await one.abort_transaction()
        await begun(one)
        await one.send_and_wait("t", b"v", partition=1)
        await one.commit_transaction()
        assert cluster.kinds() == ["InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"]


FENCED: list[tuple[str, type[Message], ErrorCode]] = [
    ("testProducerFencedInAddPartitionToTxn", AddPartitionsToTxnRequest, E.PRODUCER_FENCED),
    (
        "testInvalidProducerEpochConvertToProducerFencedInAddPartitionToTxn",
        AddPartitionsToTxnRequest,
        E.INVALID_PRODUCER_EPOCH,
    ),
    ("testProducerFencedInAddOffSetsToTxn", AddOffsetsToTxnRequest, E.INVALID_PRODUCER_EPOCH),
    (
        "testInvalidProducerEpochConvertToProducerFencedInAddOffSetsToTxn",
        AddOffsetsToTxnRequest,
        E.INVALID_PRODUCER_EPOCH,
    ),
    ("testInvalidProducerEpochConvertToProducerFencedInEndTxn", EndTxnRequest, E.INVALID_PRODUCER_EPOCH),
]


@pytest.mark.parametrize(("name", "kind", "code"), FENCED, ids=[row[0] for row in FENCED])
async def test_a_producer_that_was_replaced(name: str, kind: type[Message], code: ErrorCode) -> None:
    """What was not sent fails with the same error, and so does every call afterwards."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(kind, code)
        cluster.hold(kind)
        if kind is AddOffsetsToTxnRequest:
            call = asyncio.create_task(one.send_offsets_to_transaction({("t", 0): 1}, GROUP))
            await until(lambda: "AddOffsetsToTxn" in cluster.kinds())
        delivery = await one.send("t", b"v", partition=0)
        if kind is EndTxnRequest:
            call = asyncio.create_task(one.commit_transaction())
            await delivery
        cluster.release(kind)
        if kind is not EndTxnRequest:
            with pytest.raises(ProducerFencedError):
                await delivery
        if kind is not AddPartitionsToTxnRequest:
            with pytest.raises(ProducerFencedError):
                await call
        assert [type(error) for _, error in await every_call(one)] == [ProducerFencedError] * 6
        assert [kind for kind in cluster.kinds() if kind == "Produce"] == ["Produce"] * (kind is EndTxnRequest)


async def test_offsets_of_a_member_need_a_broker_that_checks_it() -> None:
    """testSendOffsetWithGroupMetadataFailAsAutoDowngradeTxnCommitNotEnabled"""
    async with transacting() as (one, cluster):
        cluster.newest[TxnOffsetCommitRequest] = 2
        await begun(one)
        with pytest.raises(UnsupportedVersionError):
            await one.send_offsets_to_transaction({("t", 0): 1, ("t", 1): 1}, GROUP)
        with pytest.raises(UnsupportedVersionError):
            await one.abort_transaction()


# -- a caller that gives up --------------------------------------------------------------------------------------------------


async def given_up(call: Awaitable[None], until_requested: Callable[[], bool]) -> None:
    """A caller that is cancelled while the request is out."""
    task = asyncio.ensure_future(call)
    await until(until_requested)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("name", ["Abort", "Commit", "Init"])
@pytest.mark.parametrize("has_response", [True, False], ids=["after its end", "before its end"])
async def test_a_call_that_was_given_up_is_called_again(name: str, has_response: bool) -> None:
    """testRetryAbortTransactionAfterTimeout, testRetryCommitTransactionAfterTimeout, testRetryInitTransactionsAfterTimeout:
    nothing is sent again, and no other call is allowed before."""
    async with transacting() as (one, cluster):
        calls = {"Abort": one.abort_transaction, "Commit": one.commit_transaction, "Init": one.init_transactions}
        kind = InitProducerIdRequest if name == "Init" else EndTxnRequest
        if name != "Init":
            await begun(one)
            await one.send_and_wait("t", b"v", partition=0)
        cluster.hold(kind)
        await given_up(calls[name](), lambda: type(cluster.last()) is kind)
        if has_response:
            cluster.release(kind)
            await until(lambda: one._transactions is not None and one._transactions.state == State.READY)
        requested = len(cluster.requested)
        refused = await every_call(one, but=name.lower())
        assert [error and error.code for _, error in refused] == [E.INVALID_TXN_STATE] * 5, refused
        again = asyncio.create_task(calls[name]())
        if not has_response:
            await asyncio.sleep(0)
            cluster.release(kind)
        await again
        assert len(cluster.requested) == requested
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            await calls[name]()
        one.begin_transaction()


@pytest.mark.parametrize("name", ["abort", "commit"])
async def test_an_end_whose_caller_gives_up_while_records_are_in_flight_has_begun(name: str) -> None:
    """As Kafka's beginCommit: no other call is allowed, and the end goes out once the records have their results."""
    async with transacting() as (one, cluster):
        calls = {"abort": one.abort_transaction, "commit": one.commit_transaction}
        await begun(one)
        cluster.hold(ProduceRequest)
        delivery = await one.send("t", b"v", partition=0)
        await until(lambda: type(cluster.last()) is ProduceRequest)
        await given_up(calls[name](), lambda: one._manager().state in (State.COMMITTING, State.ABORTING))
        refused = await every_call(one, but=name)
        assert [error and error.code for _, error in refused] == [E.INVALID_TXN_STATE] * 5, refused
        cluster.release(ProduceRequest)
        await until(lambda: one._manager().state == State.READY)
        assert (await delivery).offset == 7
        await calls[name]()
        assert [r.committed for r in cluster.requested if isinstance(r, EndTxnRequest)] == [name == "commit"]
        one.begin_transaction()


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_block_that_is_left_during_its_commit_commits(is_cancelled: bool) -> None:
    """Also where max.block.ms is over: neither aborts what has begun to be committed."""
    async with transacting(**{} if is_cancelled else {"max_block_ms": 200}) as (one, cluster):
        await one.init_transactions()
        cluster.hold(ProduceRequest)

        async def block() -> None:
            async with one.transaction():
                await one.send("t", b"v", partition=0)

        task = asyncio.create_task(block())
        await until(lambda: one._manager().state == State.COMMITTING)
        if is_cancelled:
            task.cancel()
        with pytest.raises((asyncio.CancelledError, KafkaError)):
            await task
        cluster.release(ProduceRequest)
        await one.commit_transaction()
        assert [r.committed for r in cluster.requested if isinstance(r, EndTxnRequest)] == [True]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("testRetryAbortTransaction", "abort", "abort"),
        ("testRetryCommitTransaction", "commit", "commit"),
        ("testRetryAbortTransactionAfterCommitTimeout", "commit", "abort"),
        ("testRetryCommitTransactionAfterAbortTimeout", "abort", "commit"),
    ],
)
async def test_an_end_whose_response_is_lost(name: str, first: str, second: str) -> None:
    """It is sent again to a coordinator that is looked up, and only the same call waits for it."""
    async with transacting() as (one, cluster):
        calls = {"abort": one.abort_transaction, "commit": one.commit_transaction}
        await begun(one)
        await one.send_and_wait("t", b"v", partition=0)
        cluster.fail(EndTxnRequest, LOST)
        cluster.hold(EndTxnRequest)
        await given_up(calls[first](), lambda: type(cluster.last()) is EndTxnRequest)
        cluster.release(EndTxnRequest)
        if second != first:
            with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
                await calls[second]()
        await calls[first]()
        assert [r.committed for r in cluster.requested if isinstance(r, EndTxnRequest)] == [first == "commit"] * 2
        assert type(cluster.requested[-2]).__name__ == "FindCoordinatorRequest"
        one.begin_transaction()


@pytest.mark.parametrize("kind", [ProduceRequest, EndTxnRequest], ids=["its records", "its end"])
async def test_a_producer_that_is_closed_during_a_commit(kind: type[Message]) -> None:
    """testSenderShutdownWithPendingTransactions: the commit ends first."""
    async with transacting() as (one, cluster):
        await begun(one)
        delivery = await one.send("t", b"v", partition=0)
        calls = [asyncio.create_task(one.commit_transaction())]
        for held in (ProduceRequest, EndTxnRequest):
            cluster.hold(held)
            await until(lambda held=held: type(cluster.last()) is held)
            if held is kind:
                calls.append(asyncio.create_task(one.close()))
            await quiet()
            assert not any(call.done() for call in calls)
            cluster.release(held)
        await asyncio.gather(*calls)
        assert (await delivery).offset == 7
