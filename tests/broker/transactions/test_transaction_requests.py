"""Transactional requests on the wire: what a producer without a good client gets, as Apache Kafka 3.9.1 and 4.3.0 answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import Topic
from coterie.broker.transactions.transaction_verification import VerifiedRequests
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.records.encoding import encode_batch
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.errors import Refusal, error_of
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.awaiting import until
from tests.broker.connections.test_server import FAST, Client
from tests.broker_process import BrokerProcess


@pytest.fixture
def socket(coterie_broker: LocalBroker) -> Iterator[BrokerSocket]:
    coterie_broker.create_topic("t", 2)
    opened = BrokerSocket(coterie_broker.host, coterie_broker.port)
    yield opened
    opened.close()


def identity(socket: BrokerSocket, transactional_id: str | None, claim: tuple[int, int] = (-1, -1)) -> tuple[int, int]:
    response = socket.request(InitProducerIdRequest(transactional_id, 60_000, *claim))
    assert not response.error_code
    return response.producer_id, response.producer_epoch


def offsets(transactional_id: str, producer: tuple[int, int], offset: int = 5) -> TxnOffsetCommitRequest:
    topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
    return TxnOffsetCommitRequest(transactional_id, "g", *producer, topics=topics)


def committed(socket: BrokerSocket, request: TxnOffsetCommitRequest, version: int = 3) -> ErrorCode:
    response = socket.request(request, highest=version)
    return error_of(response.topics[0].partitions[0].error_code)


def test_two_producers_that_name_the_same_id_both_write(socket: BrokerSocket) -> None:
    """Clients that leave the fields at 0 got id 0, all of them: two records acknowledged, one in the log."""
    producers = [identity(socket, None, (0, 0)), identity(socket, None, (0, 0))]
    assert producers[0][0] != producers[1][0]
    assert [epoch for _, epoch in producers] == [0, 0]
    base_offsets = []
    for producer_id, epoch in producers:
        batch = encode_batch([(1, None, b"v", ())], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        response = socket.request(ProduceRequest(None, -1, 30_000, data), highest=9)
        base_offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert base_offsets == [0, 1]


def test_offsets_of_a_transaction_name_topics_by_their_ids(coterie_broker: LocalBroker, socket: BrokerSocket) -> None:
    """TxnOffsetCommit 6 (KIP-1319), as Apache Kafka 4.4.0: an unknown id and an unknown partition are refused, the rest is
    kept, and each topic is answered by its id."""
    producer = identity(socket, "x")
    topic_id, unknown = coterie_broker.broker.topics.by_name["t"].topic_id, b"?" * 16
    partitions = [TxnOffsetCommitRequestPartition(index, 7) for index in (0, 9)]
    topics = [TxnOffsetCommitRequestTopic("", one, partitions) for one in (topic_id, unknown)]
    response = socket.request(TxnOffsetCommitRequest("x", "g", *producer, topics=topics))
    codes = {t.topic_id: {p.partition_index: error_of(p.error_code) for p in t.partitions} for t in response.topics}
    none, missing = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {topic_id: {0: none, 9: missing}, unknown: dict.fromkeys((0, 9), ErrorCode.UNKNOWN_TOPIC_ID)}
    assert not socket.request(EndTxnRequest("x", *producer, True)).error_code
    assert stable(socket) == (7, ErrorCode.NONE)


@pytest.mark.parametrize("claim", [(5, -1), (-1, 0), (-1, 7)])
@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_an_id_without_an_epoch_is_no_claim(
    socket: BrokerSocket, transactional_id: str | None, claim: tuple[int, int]
) -> None:
    response = socket.request(InitProducerIdRequest(transactional_id, 60_000, *claim))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_an_offset_is_committed_in_an_ongoing_transaction_or_refused(socket: BrokerSocket) -> None:
    producer_id, epoch = identity(socket, "x")
    another = identity(socket, "y")
    assert committed(socket, offsets("x", (producer_id + 1_000_000, 0))) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert committed(socket, offsets("nobody", (producer_id, epoch))) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert committed(socket, offsets("", (producer_id, epoch))) == ErrorCode.INVALID_REQUEST
    assert committed(socket, offsets("x", another)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert committed(socket, offsets("x", (producer_id, epoch + 1))) == ErrorCode.INVALID_PRODUCER_EPOCH
    for version in range(4):
        assert committed(socket, offsets("x", (producer_id, epoch)), version) == ErrorCode.INVALID_TXN_STATE
    assert committed(socket, offsets("x", (producer_id, epoch)), 4) == ErrorCode.TRANSACTION_ABORTABLE
    add = AddPartitionsToTxnRequest("x", producer_id, epoch, [AddPartitionsToTxnTopic("t", [0])])
    assert not socket.request(add, highest=3).results_by_topic[0].results_by_partition[0].partition_error_code
    assert committed(socket, offsets("x", (producer_id, epoch))) == ErrorCode.INVALID_TXN_STATE, "group not added"
    assert not socket.request(AddOffsetsToTxnRequest("x", producer_id, epoch, "g")).error_code
    assert committed(socket, offsets("x", (producer_id, epoch))) == ErrorCode.NONE
    assert not socket.request(EndTxnRequest("x", producer_id, epoch, True), highest=4).error_code
    assert committed(socket, offsets("x", (producer_id, epoch), 6)) == ErrorCode.INVALID_TXN_STATE, "after EndTxn"
    assert stable(socket) == (5, ErrorCode.NONE)
    successor = identity(socket, "x")
    assert not socket.request(AddOffsetsToTxnRequest("x", *successor, "g")).error_code
    assert committed(socket, offsets("x", (producer_id, epoch), 7)) == ErrorCode.INVALID_PRODUCER_EPOCH, "fenced"
    assert not socket.request(EndTxnRequest("x", *successor, True), highest=4).error_code
    assert stable(socket) == (5, ErrorCode.NONE)


def stable(socket: BrokerSocket) -> tuple[int, ErrorCode]:
    response = socket.request(OffsetFetchRequest("g", None, require_stable=True), highest=7)
    result = response.topics[0].partitions[0]
    return result.committed_offset, error_of(result.error_code)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_empty_transactional_id_is_an_invalid_request(socket: BrokerSocket, version: int) -> None:
    assert socket.request(EndTxnRequest("", 1, 0, True), highest=version).error_code == ErrorCode.INVALID_REQUEST
    add = AddOffsetsToTxnRequest("", 1, 0, "g")
    assert socket.request(add, highest=version).error_code == ErrorCode.INVALID_REQUEST
    parts = AddPartitionsToTxnRequest("", 1, 0, [AddPartitionsToTxnTopic("t", [0])])
    results = socket.request(parts, highest=version).results_by_topic[0].results_by_partition
    assert results[0].partition_error_code == ErrorCode.INVALID_REQUEST


def test_internal_topics_take_part_in_no_transaction_of_a_client(socket: BrokerSocket) -> None:
    producer = identity(socket, "x")
    topics = [AddPartitionsToTxnTopic("__consumer_offsets", [0]), AddPartitionsToTxnTopic("t", [0])]
    response = socket.request(AddPartitionsToTxnRequest("x", *producer, topics), highest=3)
    codes = {t.name: t.results_by_partition[0].partition_error_code for t in response.results_by_topic}
    assert codes == {
        "__consumer_offsets": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "t": ErrorCode.OPERATION_NOT_ATTEMPTED,
    }


async def test_what_is_pending_in_no_transaction_is_dropped_on_loading(tmp_path: Path) -> None:
    """An offset that a broker took unchecked: UNSTABLE_OFFSET_COMMIT for ever, over every restart."""
    first = Broker(BrokerSettings(FAST), tmp_path)
    client = Client(*await asyncio.open_connection(*await first.start("127.0.0.1", 0)))
    first.topics.create("t", 1)
    first.verified_requests = VerifiedRequests(first.topics, None)  # as it was before
    first.groups.ready()
    response = await client.ask(offsets("x", (7, 0)), TxnOffsetCommitResponse, 3)
    assert not response.topics[0].partitions[0].error_code
    assert await unstable(client)
    client.writer.close()
    await first.stop()
    for _ in range(2):
        again = Broker(BrokerSettings(FAST), tmp_path)
        client = Client(*await asyncio.open_connection(*await again.start("127.0.0.1", 0)))
        await until(partial(getattr, again.transactions, "loaded"), "the transactions are loaded")
        assert not await unstable(client)
        for partition in again.topics.offsets_topic().partitions:
            assert partition.log.last_stable_offset == partition.log.end_offset
        client.writer.close()
        await again.stop()


async def test_offsets_whose_topic_cannot_be_created_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had closed the connection."""
    broker = Broker(BrokerSettings(FAST), tmp_path)
    client = Client(*await asyncio.open_connection(*await broker.start("127.0.0.1", 0)))
    broker.topics.create("t", 1)

    def refused() -> Topic:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(broker.topics, "offsets_topic", refused)
    response = await client.ask(offsets("x", (7, 0)), TxnOffsetCommitResponse, 3)
    assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.writer.close()
    await broker.stop()


async def unstable(client: Client) -> bool:
    requested = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=requested)], require_stable=True)
    topics = (await client.ask(request, OffsetFetchResponse, 8)).groups[0].topics
    return any(p.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT for t in topics for p in t.partitions)


def test_no_producer_id_comes_twice_over_a_kill(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data")
    handed_out: list[int] = []
    try:
        for _ in range(3):
            socket = BrokerSocket("127.0.0.1", process.port)
            handed_out += [identity(socket, None)[0] for _ in range(3)]
            handed_out.append(identity(socket, f"x{len(handed_out)}")[0])
            socket.close()
            process.kill()
            process.start()
    finally:
        process.stop()
    assert len(set(handed_out)) == len(handed_out)
