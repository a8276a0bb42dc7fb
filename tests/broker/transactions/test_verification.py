"""Which Produce and TxnOffsetCommit the transaction coordinator is asked about, of a broker alone and of a cluster
(UnifiedLog.maybeStartTransactionVerification of Kafka 4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coterie.client import Admin
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.testing import ErrorCode
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal, error_of
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.world_scheduler import REQUEST_S, connections

LATER = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
Producer = tuple[int, int]  # its id and epoch


class AnyBroker:
    """Asks each broker in turn, for as long as the error is that of another broker's, or of a moment."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections

    async def _ask(self, request: Message, highest: int, code_of: Callable[[Any], int]) -> Any:
        while True:
            for connection in self._connections:
                response = await connection.request(request, response_type(request), REQUEST_S, highest=highest)
                if code_of(response) not in LATER:
                    return response

    async def begin(self) -> Producer:
        """A producer with the id x whose transaction has records in t-0 and offsets of the group g."""
        producer = await self.add()
        assert await self.produce("x", producer, 0) == ErrorCode.NONE
        assert await self.commit("x", producer, -1) == ErrorCode.NONE
        return producer

    async def add(self) -> Producer:
        """A producer with the id x whose transaction t-0 and the group g are added to, with nothing in their logs."""
        for key, key_type in (("g", 0), ("x", 1)):  # their topics are made
            await self._ask(FindCoordinatorRequest(key, key_type), 3, lambda r: r.error_code)
        began = await self._ask(InitProducerIdRequest("x", 60_000), 4, lambda r: r.error_code)
        producer = began.producer_id, began.producer_epoch
        topics = [AddPartitionsToTxnTopic("t", [0])]
        added = AddPartitionsToTxnRequest("x", *producer, topics)
        await self._ask(added, 3, lambda r: r.results_by_topic[0].results_by_partition[0].partition_error_code)
        await self._ask(AddOffsetsToTxnRequest("x", *producer, "g"), 3, lambda r: r.error_code)
        return producer

    async def produce(self, transactional_id: str, producer: Producer, sequence: int) -> ErrorCode:
        numbers = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
        batch = encode_batch([(0, None, b"v", ())], attributes=TRANSACTIONAL_BIT, **numbers)
        topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        request = ProduceRequest(transactional_id, -1, 30_000, topics)

        def code_of(response: Any) -> ErrorCode:
            return error_of(response.responses[0].partition_responses[0].error_code)

        return code_of(await self._ask(request, 9, code_of))

    async def commit(self, transactional_id: str, producer: Producer, generation: int) -> ErrorCode:
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 1)])]
        member = "" if generation < 0 else "m"
        request = TxnOffsetCommitRequest(transactional_id, "g", *producer, generation, member, None, topics)

        def code_of(response: Any) -> ErrorCode:
            return error_of(response.topics[0].partitions[0].error_code)

        return code_of(await self._ask(request, 3, code_of))

    async def abort(self, producer: Producer) -> None:
        """Returns once the markers are written: until then the logs have the transaction open, and take more of it."""
        await self._ask(EndTxnRequest("x", *producer, committed=False), 3, lambda r: r.error_code)

        def code_of(response: Any) -> ErrorCode:
            (described,) = response.transaction_states
            ends = described.transaction_state == "PrepareAbort"
            return ErrorCode.CONCURRENT_TRANSACTIONS if ends else error_of(described.error_code)

        await self._ask(DescribeTransactionsRequest(["x"]), 0, code_of)


in_a_cluster = pytest.mark.parametrize("world_broker", [2], indirect=True)


@pytest.fixture(params=[1, 2], ids=["alone", "in a cluster"])
def world_broker(request: pytest.FixtureRequest) -> Any:
    with simulate(seed=1) as world:
        broker = world.broker(brokers=request.param)
        broker.create_topic("t", 1)
        yield broker


async def test_what_is_open_in_the_log_is_not_verified_again(world_broker: WorldBroker) -> None:
    """Under whatever transactional id: the group's own coordinator decides about the offsets."""
    brokers = AnyBroker(await connections(world_broker))
    producer = await brokers.begin()
    assert await brokers.produce("other", producer, 1) == ErrorCode.NONE
    assert await brokers.commit("other", producer, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await brokers.commit("other", producer, -1) == ErrorCode.NONE


async def test_an_epoch_below_the_logs_own_is_refused_before_the_coordinator_is_asked(
    world_broker: WorldBroker,
) -> None:
    """Also under an id that the coordinator does not know."""
    brokers = AnyBroker(await connections(world_broker))
    old = await brokers.begin()
    await brokers.abort(old)
    new = await brokers.begin()
    assert new == (old[0], old[1] + 1)
    for transactional_id in ("x", "other"):
        assert await brokers.produce(transactional_id, old, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await brokers.commit(transactional_id, old, -1) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_what_the_log_does_not_have_open_is_verified(world_broker: WorldBroker) -> None:
    brokers = AnyBroker(await connections(world_broker))
    producer = await brokers.begin()
    await brokers.abort(producer)
    assert await brokers.produce("other", producer, 1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await brokers.commit("other", producer, -1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@in_a_cluster
async def test_too_few_replicas_in_sync_are_refused_before_a_transaction_that_has_ended(
    world_broker: WorldBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, which knows of the end, is asked last (Partition.appendRecordsToLeader of Kafka 4.3)."""

    def ended(*given: object) -> None:
        raise Refusal(ErrorCode.INVALID_TXN_STATE)

    brokers = AnyBroker(await connections(world_broker))
    producer = await brokers.begin()
    monkeypatch.setattr("coterie.broker.transactions.transaction_verification.check_guard", ended)
    assert await brokers.produce("x", producer, 1) == ErrorCode.INVALID_TXN_STATE
    async with Admin({"bootstrap.servers": world_broker.bootstrap_servers}) as admin:
        await admin.incremental_alter_configs("t", {"min.insync.replicas": "3"})
    await asyncio.sleep(1)  # until the leader has read it
    assert await brokers.produce("x", producer, 1) == ErrorCode.NOT_ENOUGH_REPLICAS


@in_a_cluster
async def test_offsets_of_a_transaction_that_has_ended_are_refused_by_the_group_first_and_by_the_log_last(
    world_broker: WorldBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator's shard decides before the append, whose log knows of the end (CoordinatorRuntime and
    CoordinatorPartitionWriter.append of Kafka 4.3; of Kafka 3 the replicas come before the log too)."""

    def ended(*given: object) -> None:
        raise Refusal(ErrorCode.INVALID_TXN_STATE)

    brokers = AnyBroker(await connections(world_broker))
    producer = await brokers.add()
    monkeypatch.setattr("coterie.broker.transactions.transaction_verification.check_guard", ended)
    assert await brokers.commit("x", producer, -1) == ErrorCode.INVALID_TXN_STATE
    assert await brokers.commit("x", producer, 1) == ErrorCode.ILLEGAL_GENERATION
    async with Admin({"bootstrap.servers": world_broker.bootstrap_servers}) as admin:
        await admin.incremental_alter_configs("__consumer_offsets", {"min.insync.replicas": "3"})
    await asyncio.sleep(1)  # until the leader has read it
    with pytest.raises(TimeoutError):  # COORDINATOR_NOT_AVAILABLE, again and again
        await asyncio.wait_for(brokers.commit("x", producer, -1), 5)
