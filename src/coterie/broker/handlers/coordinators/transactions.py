"""Transactions: their partitions and groups, offsets committed in them, their end, and WriteTxnMarkers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial

from coterie.broker.handlers.coordinators.checked_topics import after_refused, checked_topics
from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.services import Handler, TransactionServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import CheckAppend, Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.broker.transactions import added_partitions
from coterie.coordinator.transactions.state import BUMPS_FROM
from coterie.coordinator.transactions.steps import ADD_PARTITIONS_V2_FROM, END_TXN_V2_FROM, FENCED_FROM, Claim
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    transactions_of,
    transactions_response,
)
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle_init_producer_id(
    broker: TransactionServices, request: InitProducerIdRequest, call: Call
) -> Message | Pending:
    """InitProducerIdResponse; later in a cluster, once the replicas have what was decided."""
    if broker.topics.in_cluster:
        if broker.transaction_requests is None:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker.transaction_requests.init_producer_id(request, call.api_version)
    return broker.transactions.init_producer_id(request, call.api_version)


def handle_txn_offset_commit(
    broker: TransactionServices, request: TxnOffsetCommitRequest, call: Call
) -> Message | Pending:
    """UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION for what does not exist; the core stores the other offsets."""
    by_id = call.api_version > topic_names.TXN_OFFSET_COMMIT
    allowed, refused = checked_topics(broker.topics, request.topics, TxnOffsetCommitRequestTopic, by_id=by_id)
    rows = [
        TxnOffsetCommitResponseTopic(name, topic_id, [TxnOffsetCommitResponsePartition(i, code) for i in indexes])
        for name, topic_id, code, indexes in refused
    ]
    if not allowed:
        return TxnOffsetCommitResponse(topics=rows)
    command = TxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        allowed,
    )

    def merge(response: Message) -> Message:
        assert isinstance(response, TxnOffsetCommitResponse)
        return TxnOffsetCommitResponse(topics=after_refused(rows, response.topics))

    def carry_out(check: CheckAppend | None = None) -> Pending:
        return hand_over(broker.groups, command, call, check)

    if broker.verified_requests is not None:
        return broker.verified_requests.offsets(command, call.api_version, carry_out).then(merge)
    return carry_out().then(merge)


def handle_add_partitions_to_txn(
    broker: TransactionServices, request: AddPartitionsToTxnRequest, call: Call
) -> Message | Pending:
    """From version 4 on, what one broker requests of another: several transactions, each as one of a client's."""
    if broker.transaction_requests is not None:
        return broker.transaction_requests.add_partitions(request, call.api_version)
    work = _add_to_transactions(broker, request, call.api_version)
    return broker.turns.run_many(len(request.transactions), work)


def _add_to_transactions(broker: TransactionServices, request: AddPartitionsToTxnRequest, version: int) -> Work:
    results = []
    for one in transactions_of(request, version):
        results.append(AddPartitionsToTxnResult(one.transactional_id, _add_partitions(broker, one, version)))
        yield
    return transactions_response(version, results)


def _add_partitions(
    broker: TransactionServices, transaction: AddPartitionsToTxnTransaction, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    """Adds all partitions to the transaction, or none."""
    from_broker = version >= ADD_PARTITIONS_V2_FROM
    wanted = added_partitions.partitions_of(transaction)
    codes = added_partitions.refused_partitions(broker.topics, wanted, from_broker=from_broker)
    if codes is None:
        name = transaction.transactional_id
        claim = Claim(transaction.producer_id, transaction.producer_epoch, version >= FENCED_FROM)
        transactions, transaction_version = broker.transactions, BUMPS_FROM if from_broker else 0
        if transaction.verify_only:
            verifying = replace(claim, returns_abortable=True)
            codes = {p: _code_of(partial(transactions.check_ongoing, name, verifying, p)) for p in wanted}
        else:
            add = partial(transactions.add_partitions, transaction_version=transaction_version)
            codes = dict.fromkeys(wanted, _code_of(lambda: add(name, claim, wanted)))
    return added_partitions.rows(transaction, codes)


def _producer(request: AddOffsetsToTxnRequest | EndTxnRequest, call: Call) -> Claim:
    return Claim(request.producer_id, request.producer_epoch, call.api_version >= FENCED_FROM)


def _code_of(work: Callable[[], None]) -> ErrorCode:
    """NONE, or the code of the refusal that ``work`` raises."""
    try:
        work()
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def handle_add_offsets_to_txn(
    broker: TransactionServices, request: AddOffsetsToTxnRequest, call: Call
) -> Message | Pending:
    """KIP-98. The group's partition of `__consumer_offsets` becomes part of the transaction."""
    if broker.transaction_requests is not None:
        return broker.transaction_requests.add_offsets(request, call.api_version)
    claim = _producer(request, call)
    code = _code_of(lambda: broker.transactions.add_group(request.transactional_id, claim, request.group_id))
    return AddOffsetsToTxnResponse(error_code=code)


def handle_end_txn(broker: TransactionServices, request: EndTxnRequest, call: Call) -> Message | Pending:
    """From version 5 on with the id and epoch of the producer's next transaction (KIP-890)."""
    if broker.transaction_requests is not None:
        return broker.transaction_requests.end(request, call.api_version)
    claim, transactions = _producer(request, call), broker.transactions
    try:
        if call.api_version < END_TXN_V2_FROM:
            transactions.end(request.transactional_id, claim, request.committed)
            return EndTxnResponse()
        producer_id, epoch = transactions.end_with_bump(request.transactional_id, claim, request.committed)
        return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)
    except Refusal as refusal:
        return EndTxnResponse(error_code=refusal.code)


def handle_write_txn_markers(
    broker: TransactionServices, request: WriteTxnMarkersRequest, call: Call
) -> Message | Pending:
    """Writes the markers of another coordinator."""
    if broker.transaction_requests is not None:
        return broker.transaction_requests.write_markers(request)
    partitions = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
    return broker.turns.run_many(partitions, _write_markers(broker, request))


def _write_markers(broker: TransactionServices, request: WriteTxnMarkersRequest) -> Work:
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        if marker.topics:
            response.markers.append((yield from _write(broker, marker)))
    return response


def _write(broker: TransactionServices, marker: WritableTxnMarker) -> Generator[None, None, WritableTxnMarkerResult]:
    topics = []
    for topic in marker.topics:
        results = []
        for index in topic.partition_indexes:
            code = ErrorCode.NONE
            try:
                if marker.producer_id < 0 or marker.producer_epoch < 0:
                    raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker needs a producer")
                if topic.name == OFFSETS_TOPIC:
                    broker.groups.end_transaction(index, marker)
                elif added_partitions.exists(broker.topics, (topic.name, index)):
                    broker.transactions.write_marker_of(marker, (topic.name, index))
                else:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            except Refusal as refusal:
                code = refusal.code
            results.append(WritableTxnMarkerPartitionResult(index, code))
            yield
        topics.append(WritableTxnMarkerTopicResult(topic.name, results))
    return WritableTxnMarkerResult(marker.producer_id, topics)


HANDLERS: dict[int, Handler] = {
    22: handle_init_producer_id,
    24: handle_add_partitions_to_txn,
    25: handle_add_offsets_to_txn,
    26: handle_end_txn,
    27: handle_write_txn_markers,
    28: handle_txn_offset_commit,
}
