"""DescribeProducers, DescribeTransactions and ListTransactions: values and errors recorded from Apache Kafka 4.3.0."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.errors import error_of
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
    ProducerState,
)
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.awaiting import until_in_thread


@pytest.fixture
def socket(coterie_broker: LocalBroker) -> Iterator[BrokerSocket]:
    coterie_broker.create_topic("t", 2)
    opened = BrokerSocket(coterie_broker.host, coterie_broker.port)
    yield opened
    opened.close()


def begin(socket: BrokerSocket, transactional_id: str, partitions: list[int]) -> int:
    producer_id: int = socket.request(InitProducerIdRequest(transactional_id, 60_000)).producer_id
    topics = [AddPartitionsToTxnTopic("t", partitions)]
    socket.request(AddPartitionsToTxnRequest(transactional_id, producer_id, 0, topics), highest=3)
    return producer_id


def write(socket: BrokerSocket, transactional_id: str | None, producer_id: int, sequence: int) -> ErrorCode:
    batch = encode_batch(
        [(5000, None, b"v", ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=0 if transactional_id is None else TRANSACTIONAL_BIT,
    )
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    response = socket.request(ProduceRequest(transactional_id, -1, 30_000, data), highest=9)
    return error_of(response.responses[0].partition_responses[0].error_code)


def described(socket: BrokerSocket, name: str) -> DescribedTransaction:
    (only,) = socket.request(DescribeTransactionsRequest([name])).transaction_states
    assert isinstance(only, DescribedTransaction)
    return only


def producers(socket: BrokerSocket, topic: str, index: int) -> DescribeProducersPartitionResponse:
    request = DescribeProducersRequest([DescribeProducersTopicRequest(topic, [index])])
    partition = socket.request(request).topics[0].partitions[0]
    assert isinstance(partition, DescribeProducersPartitionResponse)
    return partition


def test_a_transaction_from_its_beginning_to_its_end(socket: BrokerSocket) -> None:
    producer_id = begin(socket, "x", [1, 0])
    socket.request(AddOffsetsToTxnRequest("x", producer_id, 0, "g"))
    ongoing = described(socket, "x")
    assert (ongoing.error_code, ongoing.transaction_state, ongoing.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (ongoing.producer_id, ongoing.producer_epoch) == (producer_id, 0)
    topics = {t.topic: t.partitions for t in ongoing.topics}
    assert topics.pop("t") == [0, 1]
    assert list(topics) == ["__consumer_offsets"]
    assert producers(socket, "t", 0).active_producers == []
    assert [write(socket, "x", producer_id, sequence) for sequence in (0, 1)] == [0, 0]
    assert producers(socket, "t", 0).active_producers == [ProducerState(producer_id, 0, 1, 5000, -1, 0)]
    socket.request(EndTxnRequest("x", producer_id, 0, True), highest=4)
    ended = described(socket, "x")
    assert (ended.transaction_state, ended.topics) == ("CompleteCommit", [])
    assert ended.transaction_start_time_ms == ongoing.transaction_start_time_ms > 0
    (state,) = producers(socket, "t", 0).active_producers
    assert (state.last_sequence, state.coordinator_epoch, state.current_txn_start_offset) == (1, 0, -1)
    assert state.last_timestamp > 5000, "that of the marker"
    (state,) = producers(socket, "t", 1).active_producers
    assert state.last_sequence == -1, "only a marker"


def test_an_idempotent_producer_has_no_coordinator(socket: BrokerSocket) -> None:
    producer_id = socket.request(InitProducerIdRequest(None, 60_000)).producer_id
    write(socket, None, producer_id, 0)
    assert producers(socket, "t", 0).active_producers == [ProducerState(producer_id, 0, 0, 5000, -1, -1)]


def test_what_is_not_there(socket: BrokerSocket) -> None:
    assert described(socket, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert described(socket, "").error_code == ErrorCode.INVALID_REQUEST
    unknown = producers(socket, "nope", 0)
    assert (unknown.error_code, bool(unknown.error_message)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    unknown = producers(socket, "t", 9)
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert producers(socket, "", 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def names(socket: BrokerSocket, request: ListTransactionsRequest, version: int = 2) -> list[str]:
    response = socket.request(request, highest=version)
    assert not response.error_code
    return sorted(t.transactional_id for t in response.transaction_states)


def test_a_list_is_filtered(socket: BrokerSocket) -> None:
    open_id, idle_id = begin(socket, "open", [0]), begin(socket, "idle", [0])
    socket.request(EndTxnRequest("idle", idle_id, 0, False), highest=4)
    everything = socket.request(ListTransactionsRequest())
    states = {t.transactional_id: t.transaction_state for t in everything.transaction_states}
    assert states == {"open": "Ongoing", "idle": "CompleteAbort"}
    assert names(socket, ListTransactionsRequest(["Ongoing"])) == ["open"]
    assert names(socket, ListTransactionsRequest(["ongoing"])) == [], "states are taken as they are written"
    unknown = socket.request(ListTransactionsRequest(["Ongoing", "Nope", "Also"]))
    assert sorted(unknown.unknown_state_filters) == ["Also", "Nope"]
    assert socket.request(ListTransactionsRequest(["Dead", "PrepareEpochFence"])).unknown_state_filters == []
    assert names(socket, ListTransactionsRequest(producer_id_filters=[open_id, 99_999])) == ["open"]
    assert names(socket, ListTransactionsRequest(duration_filter=1_000_000)) == []
    assert names(socket, ListTransactionsRequest(duration_filter=1_000_000), 0) == ["idle", "open"], "from version 1 on"
    assert names(socket, ListTransactionsRequest(duration_filter=-5)) == ["idle", "open"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("", ["B-1", "ab", "b-1"]),
        ("b", []),
        ("b-.*", ["b-1"]),
        ("ab|b-1", ["ab", "b-1"]),
        (".*b.*", ["ab", "b-1"]),
        ("(?i)B-\\d", ["B-1", "b-1"]),
        ("b-[[:digit:]]", ["b-1"]),
        ("\\Qb-1\\E", ["b-1"]),
        ("(?P<name>ab)", ["ab"]),
    ],
)
def test_a_pattern_matches_whole_names(socket: BrokerSocket, pattern: str, matched: list[str]) -> None:
    for name in ("b-1", "B-1", "ab"):
        socket.request(InitProducerIdRequest(name, 60_000))
    assert names(socket, ListTransactionsRequest(transactional_id_pattern=pattern)) == matched


@pytest.mark.parametrize("pattern", ["[", "*", ".*(", "(ab(cd", "(?=a).*", "(a)\\1", "a*+", "x{1001}"])
def test_what_re2_lacks_is_refused(socket: BrokerSocket, pattern: str) -> None:
    """testListTransactionsFilteringWithInvalidPattern."""
    response = socket.request(ListTransactionsRequest(transactional_id_pattern=pattern))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_admin_ends_a_hanging_transaction(socket: BrokerSocket) -> None:
    """`kafka-transactions.sh abort`: the partition's marker, with the coordinator epoch that the producer was found with."""
    producer_id = begin(socket, "x", [0])
    write(socket, "x", producer_id, 0)

    def mark(producer: int, coordinator_epoch: int) -> ErrorCode:
        topics = [WritableTxnMarkerTopic("t", [0])]
        request = WriteTxnMarkersRequest([WritableTxnMarker(producer, 0, False, topics, coordinator_epoch)])
        return error_of(socket.request(request).markers[0].topics[0].partitions[0].error_code)

    assert mark(producer_id, 3) == ErrorCode.NONE
    (state,) = producers(socket, "t", 0).active_producers
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (3, -1)
    assert mark(producer_id, 2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(-1, 3) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert socket.request(WriteTxnMarkersRequest([WritableTxnMarker(1, 0, False, [], 0)])).markers == []


def test_an_expired_transactional_id_is_removed() -> None:
    """testDescribeTransactionsWithExpiringTransactionalId: also at the next load, as its tombstone is in the log."""
    with LocalBroker({"transactional.id.expiration.ms": "1"}) as broker:
        broker.create_topic("t", 2)
        socket, transactions = BrokerSocket(broker.host, broker.port), broker.broker.transactions
        begin(socket, "open", [0])
        socket.request(InitProducerIdRequest("idle", 60_000))

        def removed() -> bool:
            broker._call(transactions.remove_expired)
            return described(socket, "idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

        until_in_thread(removed, "the transactional id did not expire")
        broker._call(lambda: [transactions._resign(hosted) for hosted in transactions._hosted.values()])
        broker._call(lambda: transactions.start(lambda: None))
        until_in_thread(partial(getattr, transactions, "loaded"), "the transactions are not loaded")
        assert described(socket, "idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert described(socket, "open").transaction_state == "Ongoing"
        socket.close()


def test_a_state_that_no_segment_holds_is_an_error_of_the_broker() -> None:
    """testAppendFailToUnknownError: a producer gives up, and has no too large message to look for."""
    with LocalBroker({"transaction.state.log.segment.bytes": "200"}) as broker:
        socket = BrokerSocket(broker.host, broker.port)
        codes = [socket.request(InitProducerIdRequest(name, 60_000)).error_code for name in ("x", "x" * 300)]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR]
        socket.close()
