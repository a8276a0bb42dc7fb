"""Markers on their way to leaders, by the names of Kafka's TransactionMarkerChannelManagerTest and
TransactionMarkerRequestCompletionHandlerTest. Markers in a partition of `__consumer_offsets` are checked as in any other:
late ones, and those of a former coordinator."""

from __future__ import annotations

import pytest

from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.transactions.marker_queue import RETRY_MS, MarkerQueue, MarkerRequest, codes_of
from coterie.coordinator.transactions.state import Status, TopicPartition, Transaction
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

A, B, C = ("a", 0), ("a", 1), ("b", 0)
OWNER, EPOCH, NOW_MS = 7, 3, 1_000
PRODUCER, AT_MS = 7, 1_000


def prepared(
    *partitions: TopicPartition, name: str = "x", producer_id: int = 1, status: Status = Status.PREPARE_COMMIT
) -> Transaction:
    return Transaction(name, producer_id, 0, 60_000, status, frozenset(partitions))


class Leaders:
    """A queue with the leaders that it looks up."""

    def __init__(self, leaders: dict[TopicPartition, int]) -> None:
        self.leaders = leaders
        self.queue = MarkerQueue(self.leaders.get)

    def request(self, now_ms: int = NOW_MS) -> MarkerRequest:
        (request,) = self.queue.due(now_ms)
        return request


def codes(request: MarkerRequest, **errors: ErrorCode) -> dict[tuple[int, TopicPartition], int]:
    """NONE for each partition of the request, but for those named ``a0`` and so on."""
    return {
        (one.prepared.producer_id, p): errors.get(f"{p[0]}{p[1]}", ErrorCode.NONE)
        for one, partitions in request.partitions.items()
        for p in partitions
    }


def test_should_generate_empty_map_when_no_requests_outstanding() -> None:
    """shouldGenerateEmptyMapWhenNoRequestsOutstanding."""
    assert Leaders({A: 1}).queue.due(NOW_MS) == []


def test_should_generate_request_per_partition_per_broker() -> None:
    """shouldGenerateRequestPerPartitionPerBroker: both transactions of one broker share a request."""
    of = Leaders({A: 1, B: 2, C: 1})
    of.queue.add(OWNER, EPOCH, prepared(A, B))
    of.queue.add(OWNER, EPOCH, prepared(C, name="y", producer_id=2, status=Status.PREPARE_ABORT))
    requests = {request.broker: request.message() for request in of.queue.due(NOW_MS)}
    assert sorted(requests) == [1, 2]
    rows = [(m.producer_id, m.transaction_result, m.coordinator_epoch, m.topics[0].name) for m in requests[1].markers]
    assert rows == [(1, True, EPOCH, "a"), (2, False, EPOCH, "b")]
    assert [m.topics[0].partition_indexes for m in requests[2].markers] == [[1]]


def test_one_request_at_a_time_goes_to_a_broker() -> None:
    of = Leaders({A: 1, B: 1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    first = of.request()
    of.queue.add(OWNER, EPOCH, prepared(B, name="y", producer_id=2))
    assert of.queue.due(NOW_MS) == []
    of.queue.responded(first, codes(first), NOW_MS)
    assert list(of.request().partitions.values()) == [[B]]


def test_should_skip_send_markers_when_leader_not_found() -> None:
    """shouldSkipSendMarkersWhenLeaderNotFound: here only once the topic is known to be deleted."""
    of = Leaders({})
    of.queue.add(OWNER, EPOCH, prepared(A))
    assert of.queue.due(NOW_MS) == []
    assert of.queue.unknown() == {A}
    assert [one.prepared for one in of.queue.deleted(A)] == [prepared(A)]
    assert not of.queue


def test_should_save_for_later_when_leader_unknown_but_not_available() -> None:
    """shouldSaveForLaterWhenLeaderUnknownButNotAvailable."""
    of = Leaders({A: -1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    assert of.queue.due(NOW_MS) == []
    assert of.queue.unknown() == set()
    of.leaders[A] = 2
    assert of.request().broker == 2


def test_should_remove_markers_for_txn_partition_when_partition_emigrated() -> None:
    """shouldRemoveMarkersForTxnPartitionWhenPartitionEmigrated: also those that are under way."""
    of = Leaders({A: 1, B: 2})
    of.queue.add(OWNER, EPOCH, prepared(A))
    of.queue.add(OWNER + 1, EPOCH, prepared(B, name="y", producer_id=2))
    one, other = of.queue.due(NOW_MS)
    of.queue.drop(OWNER)
    assert of.queue.responded(one, codes(one), NOW_MS) == []
    assert len(of.queue.responded(other, codes(other), NOW_MS)) == 1


def test_should_complete_delayed_operation_when_no_errors() -> None:
    """shouldCompleteDelayedOperationWhenNoErrors, once every partition has its marker."""
    of = Leaders({A: 1, B: 2})
    of.queue.add(OWNER, EPOCH, prepared(A, B))
    one, other = of.queue.due(NOW_MS)
    assert of.queue.responded(one, codes(one), NOW_MS) == []
    assert [done.prepared for done in of.queue.responded(other, codes(other), NOW_MS)] == [prepared(A, B)]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
@pytest.mark.parametrize(
    "next_epoch",
    [
        pytest.param(
            None,
            id="shouldCompleteDelayedOperationWhenNotCoordinator shouldCompleteDelayedOperationWhenCoordinatorLoading",
        ),
        pytest.param(EPOCH + 1, id="shouldCompleteDelayedOperationWhenCoordinatorEpochChanged"),
    ],
)
def test_a_response_for_a_former_coordinator(next_epoch: int | None, code: ErrorCode) -> None:
    """It completes nothing and has nothing sent again; the next coordinator, once it has loaded the transactions, sends its
    own markers with its epoch."""
    of = Leaders({A: 1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    former = of.request()
    of.queue.drop(OWNER)
    if next_epoch is not None:
        of.queue.add(OWNER, next_epoch, prepared(A))
    assert of.queue.responded(former, codes(former, a0=code), NOW_MS) == []
    later = of.queue.due(NOW_MS + RETRY_MS)
    epochs = [marker.coordinator_epoch for request in later for marker in request.message().markers]
    assert epochs == ([] if next_epoch is None else [next_epoch])
    assert [len(of.queue.responded(request, codes(request), NOW_MS)) for request in later] == [1] * len(later)


def test_should_re_enqueue_partitions_when_broker_disconnected() -> None:
    """shouldReEnqueuePartitionsWhenBrokerDisconnected: to the leader of then."""
    of = Leaders({A: 1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    of.queue.failed(of.request(), NOW_MS)
    assert of.queue.due(NOW_MS) == []
    of.leaders[A] = 2
    assert of.request(NOW_MS + RETRY_MS).broker == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # shouldRetryPartitionWhenUnknownTopicOrPartitionError
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # shouldRetryPartitionWhenNotLeaderOrFollowerError
        ErrorCode.NOT_ENOUGH_REPLICAS,  # shouldRetryPartitionWhenNotEnoughReplicasError
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,  # shouldRetryPartitionWhenNotEnoughReplicasAfterAppendError
        ErrorCode.KAFKA_STORAGE_ERROR,  # shouldRetryPartitionWhenKafkaStorageError
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # of a group coordinator that loads
        # Kafka's throws at errors that no leader should return, and leaves the marker to the next coordinator
        ErrorCode.UNKNOWN_SERVER_ERROR,  # shouldThrowIllegalStateExceptionWhenUnknownError
        ErrorCode.CORRUPT_MESSAGE,  # shouldThrowIllegalStateExceptionWhenCorruptMessageError
        ErrorCode.MESSAGE_TOO_LARGE,  # shouldThrowIllegalStateExceptionWhenMessageTooLargeError
        ErrorCode.RECORD_LIST_TOO_LARGE,  # shouldThrowIllegalStateExceptionWhenRecordListTooLargeError
        ErrorCode.INVALID_REQUIRED_ACKS,  # shouldThrowIllegalStateExceptionWhenInvalidRequiredAcksError
    ],
)
def test_should_retry_partition(code: ErrorCode) -> None:
    of = Leaders({A: 1, B: 1})
    of.queue.add(OWNER, EPOCH, prepared(A, B))
    request = of.request()
    assert of.queue.responded(request, codes(request, a1=code), NOW_MS) == []
    again = of.request(NOW_MS + RETRY_MS)
    assert list(again.partitions.values()) == [[B]]
    assert len(of.queue.responded(again, codes(again), NOW_MS)) == 1


def test_should_complete_delayed_operation_whe_coordinator_epoch_fenced() -> None:
    """shouldCompleteDelayedOperationWheCoordinatorEpochFenced: no marker of the transaction is sent again, and it is not
    completed here."""
    of = Leaders({A: 1, B: 2})
    of.queue.add(OWNER, EPOCH, prepared(A, B))
    one, other = of.queue.due(NOW_MS)
    fenced = codes(one, a0=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert of.queue.responded(one, fenced, NOW_MS) == []
    assert of.queue.responded(other, codes(other), NOW_MS) == []
    assert not of.queue


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,  # shouldCompleteDelayedOperationWhenInvalidProducerEpoch: a later marker is there
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,  # shouldRemoveTopicPartitionFromWaitingSetOnUnsupportedForMessageFormat
    ],
)
def test_a_partition_that_needs_no_marker_any_more_is_done(code: ErrorCode) -> None:
    of = Leaders({A: 1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    request = of.request()
    assert len(of.queue.responded(request, codes(request, a0=code), NOW_MS)) == 1


def test_a_response_without_a_partition_has_it_tried_again() -> None:
    """shouldThrowIllegalStateExceptionIfErrorCodeNotAvailableForPid throws in Kafka's."""
    of = Leaders({A: 1})
    of.queue.add(OWNER, EPOCH, prepared(A))
    assert of.queue.responded(of.request(), {}, NOW_MS) == []
    assert of.request(NOW_MS + RETRY_MS).broker == 1


def test_codes_of_a_response() -> None:
    row = WritableTxnMarkerPartitionResult(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = WritableTxnMarkerTopicResult("a", [row])
    response = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(1, [topic])])
    assert codes_of(response) == {(1, A): ErrorCode.NOT_LEADER_OR_FOLLOWER}


def log_with_open_transaction(epoch: int) -> OffsetsLog:
    """With a marker of the transaction before, of coordinator epoch 3."""
    log = PartitionLog.open(MemoryFileSystem(), "__consumer_offsets-0", LogConfig(), clean=True)
    offsets = OffsetsLog(log)
    offsets.append_marker(PRODUCER, epoch, True, 3, AT_MS)
    batch = encode_batch(
        [(AT_MS, b"k", b"v", ())],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
    log.append_own(batch, AT_MS)
    return offsets


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    """KIP-1228: a marker of version 2 is of the epoch after its transaction, so one of this epoch has come before."""
    offsets = log_with_open_transaction(epoch=1)
    with pytest.raises(Refusal) as refused:
        offsets.append_marker(PRODUCER, 1, True, 3, AT_MS, bumps_epoch=True)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert PRODUCER in offsets.log.transactions.open
    offsets.append_marker(PRODUCER, 2, True, 3, AT_MS, bumps_epoch=True)
    assert PRODUCER not in offsets.log.transactions.open


def test_a_former_coordinator_is_fenced() -> None:
    offsets = log_with_open_transaction(epoch=1)
    with pytest.raises(Refusal) as refused:
        offsets.append_marker(PRODUCER, 1, False, 2, AT_MS)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert PRODUCER in offsets.log.transactions.open
