"""What a transaction does to a group's offsets: TxnOffsetCommit, and the markers that a transaction coordinator writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.broker.handlers.groups import submit
from coterie.broker.pending import Pending
from coterie.broker.server import Call
from coterie.broker.topics import OFFSETS_TOPIC
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from coterie.broker.broker import Broker


def handle_txn_offset_commit(broker: Broker, request: TxnOffsetCommitRequest, call: Call) -> Message | Pending:
    """Partitions that do not exist are answered here; the core keeps the rest."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    known: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = broker.topics.by_name.get(topic.name)
        count = len(found.partitions) if found is not None else 0
        good = [p for p in topic.partitions if 0 <= p.partition_index < count]
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bad = [TxnOffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions if p not in good]
        if bad:
            refused.append(TxnOffsetCommitResponseTopic(topic.name, bad))
        if good:
            known.append(TxnOffsetCommitRequestTopic(topic.name, good))
    request.topics = known
    if not known:
        return TxnOffsetCommitResponse(topics=refused)

    def merge(answer: Message) -> Message:
        assert isinstance(answer, TxnOffsetCommitResponse)
        return TxnOffsetCommitResponse(topics=[*answer.topics, *refused])

    return submit(broker, request, call).then(merge)


def handle_write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    """Markers for partitions of `__consumer_offsets`; of other topics this broker keeps no transactions."""
    return WriteTxnMarkersResponse(markers=[_write(broker, marker) for marker in request.markers])


def _write(broker: Broker, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        results = []
        for index in topic.partition_indexes:
            code = ErrorCode.NONE
            try:
                if topic.name != OFFSETS_TOPIC:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                broker.groups.end_transaction(index, marker)
            except Refusal as refusal:
                code = refusal.code
            results.append(WritableTxnMarkerPartitionResult(index, code))
        topics.append(WritableTxnMarkerTopicResult(topic.name, results))
    return WritableTxnMarkerResult(marker.producer_id, topics)
