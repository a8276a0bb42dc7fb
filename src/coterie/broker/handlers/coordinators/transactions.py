"""Transactions: their partitions and groups, offsets committed in them, their end, and WriteTxnMarkers."""

from __future__ import annotations

from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.coordinators.offsets import after_refused, checked_topics
from coterie.broker.handlers.services import Handler, TransactionServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import CheckAppend, Pending
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.wire.messages.transactions.write_txn_markers import (
    WriteTxnMarkersRequest,
)


def handle_init_producer_id(
    broker: TransactionServices, request: InitProducerIdRequest, call: Call
) -> Message | Pending:
    """InitProducerIdResponse; later in a cluster, once the replicas have what was decided."""
    return broker.transaction_requests.init_producer_id(request, call.api_version)


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

    return broker.verified_requests.offsets(command, call.api_version, carry_out).then(merge)


def handle_add_partitions_to_txn(
    broker: TransactionServices, request: AddPartitionsToTxnRequest, call: Call
) -> Message | Pending:
    """From version 4 on, what one broker requests of another: several transactions, each as one of a client's."""
    work = broker.transaction_requests.adding_partitions(request, call.api_version)
    return broker.turns.run_many(len(request.transactions), work)


def handle_add_offsets_to_txn(
    broker: TransactionServices, request: AddOffsetsToTxnRequest, call: Call
) -> Message | Pending:
    """KIP-98. The group's partition of `__consumer_offsets` becomes part of the transaction."""
    return broker.transaction_requests.add_offsets(request, call.api_version)


def handle_end_txn(broker: TransactionServices, request: EndTxnRequest, call: Call) -> Message | Pending:
    """From version 5 on with the id and epoch of the producer's next transaction (KIP-890)."""
    return broker.transaction_requests.end(request, call.api_version)


def handle_write_txn_markers(
    broker: TransactionServices, request: WriteTxnMarkersRequest, call: Call
) -> Message | Pending:
    """Writes the markers of another coordinator."""
    partitions = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
    return broker.turns.run_many(partitions, broker.transaction_requests.writing_markers(request))


HANDLERS: dict[int, Handler] = {
    22: handle_init_producer_id,
    24: handle_add_partitions_to_txn,
    25: handle_add_offsets_to_txn,
    26: handle_end_txn,
    27: handle_write_txn_markers,
    28: handle_txn_offset_commit,
}
