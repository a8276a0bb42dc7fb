"""The calls of a transactional producer, as its user meets them: Kafka's KafkaProducerTest by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import KafkaError, Producer
from coterie.client.errors import TransactionAbortableError
from coterie.client.producer.transactions import State
from coterie.client.types import ConsumerGroupMetadata
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import ProduceRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from tests.awaiting import quiet, until
from tests.client.transactions.test_transaction_calls import GROUP, One, begun, transacting
from tests.client.transactions.test_transactional_batches import ADD, END, INIT, PRODUCE, state, takes_part

E = ErrorCode
MISSING = (E.UNKNOWN_TOPIC_OR_PARTITION, 0)
OFFSETS = {("t", 0): 5}


# -- init_transactions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "has_response"),
    [("testInitTransactionsResponseAfterTimeout", True), ("testInitTransactionTimeout", False)],
)
@pytest.mark.virtual_time
async def test_init_is_called_again_after_max_block_ms(name: str, has_response: bool) -> None:
    """Before or after the response to the first call."""
    async with transacting(max_block_ms=50) as (one, cluster):
        cluster.hold(InitProducerIdRequest)
        with pytest.raises(KafkaError, match=r"init_transactions had no result within max\.block\.ms=50") as failed:
            await one.init_transactions()
        assert failed.value.code == E.REQUEST_TIMED_OUT
        if has_response:
            cluster.release(InitProducerIdRequest)
            await until(lambda: state(one) == State.READY)
        else:
            asyncio.get_running_loop().call_soon(cluster.release, InitProducerIdRequest)
        await one.init_transactions()
        assert cluster.kinds() == [INIT]
        one.begin_transaction()


@pytest.mark.virtual_time
async def test_nothing_but_a_close_follows_an_init_without_result() -> None:
    """testOnlyCanExecuteCloseAfterInitTransactionsTimeout."""
    async with transacting(max_block_ms=5) as (one, cluster):
        cluster.fail(FindCoordinatorRequest, *[E.COORDINATOR_NOT_AVAILABLE] * 10_000)
        with pytest.raises(KafkaError, match="init_transactions had no result"):
            await one.init_transactions()
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            one.begin_transaction()
        await one.close(timeout_ms=0)


@pytest.mark.virtual_time
async def test_init_is_called_again_after_it_was_refused() -> None:
    """testClusterAuthorizationFailure."""
    async with transacting() as (one, cluster):
        cluster.fail(InitProducerIdRequest, E.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await one.init_transactions()
        await one.init_transactions()


# -- records -------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_transaction_without_records() -> None:
    """testAbortTransaction: there is nothing to end at the coordinator."""
    async with transacting() as (one, cluster):
        await begun(one)
        await one.abort_transaction()
        assert cluster.kinds() == [INIT]


@pytest.mark.virtual_time
async def test_a_record_adds_its_partition() -> None:
    """testPartitionAddedToTransaction."""
    async with transacting() as (one, cluster):
        await begun(one)
        delivery = await one.send("t", b"value", b"key", partition=0)
        assert not delivery._end.is_reached
        await delivery
        assert takes_part(one, "t", 0)
        assert cluster.kinds() == [INIT, ADD, PRODUCE]
        await one.abort_transaction()


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("testTransactionV2Produce", []),
        ("testTransactionV2ProduceWithConcurrentTransactionError", [E.CONCURRENT_TRANSACTIONS]),
    ],
)
@pytest.mark.virtual_time
async def test_a_record_of_version_2(name: str, codes: list[ErrorCode]) -> None:
    async with transacting() as (one, cluster):
        cluster.known.features_received({"transaction.version": 2}, 1)
        await begun(one)
        cluster.fail(ProduceRequest, *codes)
        await one.send_and_wait("t", b"value", b"key", partition=0)
        await one.commit_transaction()
        assert cluster.kinds() == [INIT, *[PRODUCE] * (len(codes) + 1), END]


@pytest.mark.parametrize(
    ("name", "script", "value", "code"),
    [
        ("testCommitTransactionWithRecordTooLargeException", (E.NONE, 1), bytes(1_000), E.MESSAGE_TOO_LARGE),
        (
            "testCommitTransactionWithMetadataTimeoutForMissingTopic",
            MISSING,
            b"value",
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            "testCommitTransactionWithMetadataTimeoutForPartitionOutOfRange",
            (E.NONE, 1),
            b"value",
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            "testCommitTransactionWithSendToInvalidTopic",
            (E.INVALID_TOPIC_EXCEPTION, 0),
            b"value",
            E.INVALID_TOPIC_EXCEPTION,
        ),
    ],
)
@pytest.mark.virtual_time
async def test_a_record_that_could_not_be_sent_fails_the_transaction(
    name: str, script: tuple[ErrorCode, int], value: bytes, code: ErrorCode
) -> None:
    """A commit would leave it out in silence, where its error was overlooked."""
    async with transacting(max_block_ms=50, max_request_size=1_000) as (one, cluster):
        await begun(one)
        cluster.metadata_script.extend([script] * 10_000)
        with pytest.raises(KafkaError) as failed:
            await one.send("t", value, partition=2)
        assert failed.value.code == code
        with pytest.raises(TransactionAbortableError, match=code.name):
            await one.commit_transaction()
        await one.abort_transaction()
        assert set(cluster.kinds()) == {INIT}
        one.begin_transaction()


@pytest.mark.virtual_time
async def test_a_record_without_room_in_the_buffer_fails_the_transaction() -> None:
    async with transacting(buffer_memory=1_000) as (one, _cluster):
        await begun(one)
        with pytest.raises(KafkaError, match=r"buffer\.memory is less"):
            await one.send("t", bytes(2_000), partition=0)
        assert state(one) == State.ABORTABLE_ERROR


# -- offsets -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "level", "group"),
    [
        ("testSendTxnOffsetsWithGroupId", 1, ConsumerGroupMetadata("g")),
        ("testSendTxnOffsetsWithGroupIdTransactionV2", 2, ConsumerGroupMetadata("g")),
        ("testSendTxnOffsetsWithGroupMetadata", 1, GROUP),
    ],
)
@pytest.mark.virtual_time
async def test_offsets_of_a_group(name: str, level: int, group: ConsumerGroupMetadata) -> None:
    """The request names the member; of version 2 it adds the group too. No offsets are no request."""
    async with transacting() as (one, cluster):
        cluster.known.features_received({"transaction.version": level}, 1)
        await begun(one)
        await one.send_offsets_to_transaction({}, group)
        assert cluster.kinds() == [INIT]
        await one.send_offsets_to_transaction(OFFSETS, group)
        await one.commit_transaction()
        assert cluster.kinds() == [INIT, *["AddOffsetsToTxn"] * (level == 1), "TxnOffsetCommit", END]
        (request,) = [r for r in cluster.requested if isinstance(r, TxnOffsetCommitRequest)]
        named = (request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
        assert named == (group.group_id, group.generation_id, group.member_id, group.group_instance_id)


@pytest.mark.parametrize(
    ("name", "group", "error"),
    [
        ("testNullGroupMetadataInSendOffsets", None, TypeError),
        ("testInvalidGenerationIdAndMemberIdCombinedInSendOffsets", ConsumerGroupMetadata("g", 2), ValueError),
    ],
)
@pytest.mark.virtual_time
async def test_a_group_that_is_none(name: str, group: Any, error: type[Exception]) -> None:
    async with transacting() as (one, _cluster):
        await begun(one)
        with pytest.raises(error):
            await one.send_offsets_to_transaction({}, group)
        await one.abort_transaction()


# -- closing -------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_no_call_after_a_close() -> None:
    """testTransactionalMethodThrowsWhenSenderClosed."""
    async with transacting() as (one, _cluster):
        await one.close()
        with pytest.raises(RuntimeError, match="this producer is closed"):
            await one.init_transactions()


async def commit(one: One) -> None:
    await one.send_and_wait("t", b"v")
    await one.commit_transaction()


@pytest.mark.parametrize(
    ("name", "api", "call"),
    [
        ("testCloseIsForcedOnPendingFindCoordinator", "FindCoordinator", lambda one: one.init_transactions()),
        ("testCloseIsForcedOnPendingInitProducerId", "InitProducerId", lambda one: one.init_transactions()),
        (
            "testCloseIsForcedOnPendingAddOffsetRequest",
            "AddOffsetsToTxn",
            lambda one: one.send_offsets_to_transaction(OFFSETS, ConsumerGroupMetadata("g")),
        ),
        ("testForceShutdownWithIncompleteTransaction", "EndTxn", commit),
    ],
)
async def test_a_close_ends_the_call_that_is_under_way(
    coterie_broker: LocalBroker, name: str, api: str, call: Callable[[One], Awaitable[None]]
) -> None:
    """Whose request has no response within the time of the close."""
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20):
        one: One = Producer({"bootstrap.servers": coterie_broker.bootstrap_servers, "transactional.id": "x"})
        if api in ("AddOffsetsToTxn", "EndTxn"):
            coterie_broker.broker.features._levels["transaction.version"] = 1
            await begun(one)
        with coterie_broker.hold(api) as rule:
            task = asyncio.ensure_future(call(one))
            await until(lambda: bool(rule.held))
            await one.close(timeout_ms=10)
            with pytest.raises(KafkaError, match="the producer was closed before"):
                await task


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
async def test_a_commit_whose_producers_close_is_cancelled(coterie_broker: LocalBroker, api: str) -> None:
    """As with Kafka's forced close it ends with a KafkaError."""
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20):
        one: One = Producer({"bootstrap.servers": coterie_broker.bootstrap_servers, "transactional.id": "x"})
        await begun(one)
        delivery = await one.send("t", b"v")
        with coterie_broker.hold(api) as rule:
            commit = asyncio.create_task(one.commit_transaction())
            await until(lambda: bool(rule.held))
            close = asyncio.create_task(one.close())
            await quiet()
            close.cancel()
            with pytest.raises(KafkaError, match="the producer was closed before"):
                await commit
            assert (await asyncio.gather(delivery, return_exceptions=True))[0] is not None
