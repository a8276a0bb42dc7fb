"""A producer's transactions while it sends, fails and closes: Kafka's SenderTest by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tests.client.scripted_cluster
from coterie.client import Delivery, KafkaError
from coterie.client.errors import TransactionAbortableError
from coterie.client.producer.transactions import State
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceRequest, ProduceResponse
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.awaiting import quiet, until
from tests.client.scripted_cluster import LOST, ScriptedCluster, produce_response
from tests.client.transactions.test_transaction_calls import One, begun, transacting
from tests.client.transactions.test_transactional_batches import ADD, END, INIT, PRODUCE, code_of, refused_commit, state

pytestmark = pytest.mark.virtual_time

E = ErrorCode


def ends(cluster: ScriptedCluster) -> list[bool]:
    """Of the requests that end a transaction, whether they commit."""
    return [request.committed for request in cluster.requested if isinstance(request, EndTxnRequest)]


# -- before the first transaction ----------------------------------------------------------------------------------------------


async def test_a_coordinator_that_is_not_ready() -> None:
    """testNodeNotReady: it is looked up and asked again, until default.api.timeout.ms."""
    async with transacting() as (one, cluster):
        cluster.fail(FindCoordinatorRequest, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE)
        cluster.fail(InitProducerIdRequest, LOST, LOST)
        await one.init_transactions()
        assert cluster.kinds() == [INIT] * 3
        assert one._transactions is not None
        assert one._transactions.producer_id >= 0


async def test_a_producer_id_while_metadata_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """testInitProducerIdWithMaxInFlightOne: one does not wait for the other."""
    async with transacting(max_in_flight_requests_per_connection=1) as (one, cluster):
        metadata, is_there = cluster.metadata, asyncio.Event()

        async def late(*args: Any, **more: Any) -> Any:
            await is_there.wait()
            return await metadata(*args, **more)

        monkeypatch.setattr(cluster, "metadata", late)
        count = asyncio.create_task(one.partitions_for("t"))
        await one.init_transactions()
        assert not count.done()
        is_there.set()
        assert await count == 2


# -- while a transaction is open -----------------------------------------------------------------------------------------------


async def test_records_linger_in_a_transaction_until_it_ends() -> None:
    """testRecordsFlushedImmediatelyOnTransactionCompletion: and in the next one again."""
    async with transacting(linger_ms=60_000) as (one, cluster):
        await begun(one)
        for _ in range(2):
            await one.send("t", b"v", partition=0)
        await quiet()
        assert cluster.kinds() == [INIT]
        await one.commit_transaction()
        assert cluster.kinds() == [INIT, ADD, PRODUCE, END]
        one.begin_transaction()
        await one.send("t", b"v", partition=0)
        await quiet()
        assert cluster.kinds() == [INIT, ADD, PRODUCE, END]
        await one.abort_transaction()


async def test_a_commit_follows_records_that_wait_behind_one_in_flight() -> None:
    """testAwaitPendingRecordsBeforeCommittingTransaction."""
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.hold(ProduceRequest)
        await one.send("t", b"in flight", partition=0)
        await until(lambda: PRODUCE in cluster.kinds())
        await one.send("t", b"waits", partition=0)
        commit = asyncio.create_task(one.commit_transaction())
        await quiet()
        assert cluster.kinds() == [INIT, ADD, PRODUCE]
        cluster.release(ProduceRequest)
        await commit
        assert cluster.kinds() == [INIT, ADD, PRODUCE, PRODUCE, END]


async def test_an_abort_fails_what_was_not_sent() -> None:
    """testTransactionAbortedExceptionOnAbortWithoutError: of a partition that takes part already."""
    async with transacting(linger_ms=60_000) as (one, cluster):
        await begun(one)
        await one.send("t", b"sent", partition=0)
        await one.flush()
        unsent = await one.send("t", b"unsent", partition=0)
        await one.abort_transaction()
        with pytest.raises(KafkaError, match="the transaction was aborted before the record was sent"):
            await unsent
        assert cluster.kinds() == [INIT, ADD, PRODUCE, END]


async def aborted(one: One, cluster: ScriptedCluster) -> None:
    """The failed transaction; the next one begins under another epoch."""
    assert state(one) == State.ABORTABLE_ERROR
    await one.abort_transaction()
    assert cluster.kinds()[-2:] == [END, INIT]
    one.begin_transaction()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("testInvalidTxnStateIsAnAbortableError", E.INVALID_TXN_STATE),
        ("testTransactionAbortableExceptionIsAnAbortableError", E.TRANSACTION_ABORTABLE),
    ],
)
async def test_a_refused_batch_is_to_be_aborted(name: str, code: ErrorCode) -> None:
    async with transacting() as (one, cluster):
        await begun(one)
        cluster.fail(ProduceRequest, code)
        assert await code_of(await one.send("t", b"v", partition=0)) == code
        await aborted(one, cluster)


@pytest.mark.parametrize("code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.INVALID_TXN_STATE])
async def test_calls_after_a_refused_batch(code: ErrorCode) -> None:
    """testTransactionShouldTransitionToAbortableForSenderAPI: also after an error that may pass and did not."""
    async with transacting(delivery_timeout_ms=50) as (one, cluster):
        await begun(one)
        cluster.fail(ProduceRequest, *[code] * 10_000)
        assert await code_of(await one.send("t", b"v", partition=0)) == code
        with pytest.raises(TransactionAbortableError, match=code.name):
            await one.send("t", b"v", partition=0)
        assert await refused_commit(one) == code
        await one.abort_transaction()


@pytest.mark.parametrize(
    ("name", "code", "late"),
    [
        ("testUnresolvedSequencesAreNotFatal", E.NOT_LEADER_OR_FOLLOWER, E.NONE),
        ("testReceiveFailedBatchTwiceWithTransactions", E.REQUEST_TIMED_OUT, E.INVALID_TXN_STATE),
    ],
)
async def test_a_batch_that_expires_is_to_be_aborted(name: str, code: ErrorCode, late: ErrorCode) -> None:
    """Whatever its request comes to later."""
    async with transacting(delivery_timeout_ms=100) as (one, cluster):
        await begun(one)
        cluster.hold(ProduceRequest)
        first = await one.send("t", b"v", partition=0)
        await until(lambda: PRODUCE in cluster.kinds())
        second = await one.send("t", b"v", partition=0)
        if code == E.NOT_LEADER_OR_FOLLOWER:
            cluster.fail(ProduceRequest, *[code] * 10_000)
            cluster.release(ProduceRequest)
        assert await code_of(first) == code
        with pytest.raises(KafkaError):
            await second
        if code != E.NOT_LEADER_OR_FOLLOWER:
            cluster.fail(ProduceRequest, late)
            cluster.release(ProduceRequest)
        await quiet()
        await aborted(one, cluster)


async def test_an_abort_that_is_refused_is_fatal() -> None:
    """testAbortableErrorIsConvertedToFatalErrorDuringAbort: a commit that is refused so is to be aborted."""
    async with transacting() as (one, cluster):
        await begun(one)
        await one.send_and_wait("t", b"v", partition=0)
        cluster.fail(EndTxnRequest, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE)
        with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
            await one.commit_transaction()
        assert state(one) == State.ABORTABLE_ERROR
        with pytest.raises(KafkaError) as refused:
            await one.abort_transaction()
        assert not isinstance(refused.value, TransactionAbortableError)
        assert state(one) == State.FATAL_ERROR


# -- closing -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_committing"),
    [("testTransactionalRequestsSentOnShutdown", True), ("testIncompleteTransactionAbortOnShutdown", False)],
)
async def test_a_close_ends_the_open_transaction(name: str, is_committing: bool) -> None:
    """A commit that is under way ends; else the transaction is aborted, so that no reader waits for its timeout."""
    async with transacting() as (one, cluster):
        await begun(one)
        delivery = await one.send("t", b"v", partition=0)
        calls = []
        if is_committing:
            cluster.hold(EndTxnRequest)
            calls.append(asyncio.create_task(one.commit_transaction()))
            await until(lambda: END in cluster.kinds())
        calls.append(asyncio.create_task(one.close()))
        await quiet()
        if is_committing:
            cluster.release(EndTxnRequest)
        await asyncio.gather(*calls)
        assert ends(cluster) == [is_committing]
        assert (await delivery).offset == 7, "sent before the end"


async def test_a_close_leaves_what_another_process_ends() -> None:
    async with transacting() as (one, cluster):
        await begun(one)
        await one.send("t", b"v", partition=0)
        await one.leave_transaction_open()
        await one.close()
        assert ends(cluster) == []


@pytest.mark.parametrize(
    ("code", "warns"),
    [(E.PRODUCER_FENCED, False), (E.INVALID_PRODUCER_EPOCH, False), (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True)],
)
async def test_a_close_warns_of_a_transaction_that_stays_open(
    code: ErrorCode, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator has ended that of a fenced producer."""
    async with transacting() as (one, cluster):
        await begun(one)
        await one.send_and_wait("t", b"v", partition=0)
        cluster.fail(EndTxnRequest, code)
        await one.close()
    assert ("was not aborted" in caplog.text) == warns


@pytest.mark.parametrize("is_failed", [False, True])
async def test_a_close_without_time(is_failed: bool) -> None:
    """testSenderShouldCloseWhenTransactionManagerInErrorState, and without an error: nothing is aborted."""
    async with transacting() as (one, cluster):
        await begun(one)
        if is_failed:
            cluster.fail(ProduceRequest, E.PRODUCER_FENCED)
            with pytest.raises(KafkaError):
                await one.send_and_wait("t", b"v", partition=0)
            assert state(one) == State.FATAL_ERROR
            await one.close()
        else:
            await one.send_and_wait("t", b"v", partition=0)
            await one.close(timeout_ms=0)
        assert ends(cluster) == []


# -- batches -------------------------------------------------------------------------------------------------------------------


async def test_a_callback_sends_again_what_expired() -> None:
    """testAppendInExpiryCallback: all of it in one batch."""
    async with transacting(transactional_id=None, delivery_timeout_ms=500) as (one, cluster):
        cluster.hold(ProduceRequest)
        again: list[asyncio.Task[Delivery]] = []

        def expired(metadata: object, error: KafkaError | None) -> None:
            assert error is not None
            assert error.code == E.REQUEST_TIMED_OUT
            again.append(asyncio.create_task(one.send("t", b"v", partition=0)))

        for _ in range(10):
            await one.send("t", b"v", partition=0, on_delivery=expired)
        await until(lambda: len(again) == 10)
        deliveries = await asyncio.gather(*again)
        assert len({id(delivery._batch) for delivery in deliveries}) == 1
        cluster.release(ProduceRequest)
        await one.flush()
        assert [(await delivery).offset for delivery in deliveries] == list(range(7, 17))


async def test_the_leader_that_a_response_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """testWhenProduceResponseReturnsWithALeaderShipChangeErrorAndNewLeaderInformation: is tried without the pause."""
    async with transacting(transactional_id=None, retry_backoff_ms=30_000, retry_backoff_max_ms=30_000) as (
        one,
        cluster,
    ):
        nodes: list[int | None] = []

        def named(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
            nodes.append(cluster.known.leader("t", 0))
            response = produce_response(request, code)
            if code:
                response.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch(9990, 5)
                response.node_endpoints.append(NodeEndpoint(9990, "newhost9990", 9990))
            return response

        monkeypatch.setattr(tests.client.scripted_cluster, "produce_response", named)
        cluster.fail(ProduceRequest, E.NOT_LEADER_OR_FOLLOWER)
        async with asyncio.timeout(5):
            await one.send_and_wait("t", b"v", partition=0)
        assert nodes == [0, 9990]
