"""Records by offset: Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from coterie.broker.pending import Pending
from coterie.broker.server import Call
from coterie.broker.topics import INTERNAL_TOPICS, Partition
from coterie.coordinator.transactions.steps import PRODUCE_ABORTABLE_FROM, Claim
from coterie.log.partition_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, PartitionLog
from coterie.records.batch import BatchError, BatchHeader
from coterie.records.legacy import is_legacy, to_batch
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from coterie.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from coterie.broker.broker import Broker

logger = logging.getLogger(__name__)

LEADER_EPOCH = 0  # one broker leads everything and is never followed by another
TOPIC_IDS_FROM = 13
_EARLIEST_LOCAL, _LATEST_TIERED = -4, -5


def check_leader_epoch(current_leader_epoch: int) -> None:
    """KIP-320: a client that knows a newer epoch than ours speaks of another leader. Raises Refusal."""
    if current_leader_epoch > LEADER_EPOCH:
        raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)


def handle_produce(broker: Broker, request: ProduceRequest, call: Call) -> ProduceResponse | Pending | None:
    to_sync: list[PartitionLog] = []
    response = ProduceResponse()
    for data in request.topic_data:
        answered = TopicProduceResponse(data.name, data.topic_id)
        for partition_data in data.partition_data:
            answered.partition_responses.append(_append(broker, request, data, partition_data, call, to_sync))
        response.responses.append(answered)
    if request.acks == 0:
        return None
    if not to_sync:
        return response
    pending = Pending()
    waiting = set(range(len(to_sync)))

    def synced(number: int) -> None:
        waiting.discard(number)
        if not waiting:
            pending.answer(response)

    for number, log in enumerate(to_sync):
        broker.flusher.after_sync(log, lambda number=number: synced(number))  # type: ignore[misc]
    return pending


def _append(
    broker: Broker,
    request: ProduceRequest,
    topic_data: TopicProduceData,
    data: PartitionProduceData,
    call: Call,
    to_sync: list[PartitionLog],
) -> PartitionProduceResponse:
    try:
        if request.acks not in (-1, 0, 1):
            raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
        name = broker.topics.name_of(topic_data.name, topic_data.topic_id, call.api_version >= TOPIC_IDS_FROM)
        if name is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        if name in INTERNAL_TOPICS:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "internal topics are written by the broker only")
        partition = broker.topics.partition(name, data.index)
        now_ms = broker.clock.now_ms()
        appended = partition.log.append(
            _batches(data.records or b"", call.api_version, now_ms),
            now_ms,
            LEADER_EPOCH,
            lambda header: _check_transaction(broker, request.transactional_id, header, (name, data.index), call),
        )
    except Refusal as refusal:
        return PartitionProduceResponse(data.index, refusal.code, error_message=refusal.message)
    except OSError as error:
        logger.error("%s-%d cannot be written: %s", topic_data.name, data.index, error)
        return PartitionProduceResponse(data.index, ErrorCode.KAFKA_STORAGE_ERROR, error_message="the disk failed")
    partition.appended()
    if partition.sync_due():
        to_sync.append(partition.log)
    return PartitionProduceResponse(
        data.index,
        ErrorCode.NONE,
        appended.base_offset,
        appended.log_append_time_ms,
        partition.log.log_start_offset,
    )


def _check_transaction(
    broker: Broker, transactional_id: str | None, header: BatchHeader, where: tuple[str, int], call: Call
) -> None:
    """Transactional records need an open transaction that has their partition. Raises Refusal."""
    if transactional_id is None:
        raise Refusal(ErrorCode.INVALID_TXN_STATE, "transactional records without a transactional id")
    abortable = call.api_version >= PRODUCE_ABORTABLE_FROM
    who = Claim(header.producer_id, header.producer_epoch, says_fenced=False, says_abortable=abortable)
    broker.transactions.check_produce(transactional_id, who, where)


def _batches(records: bytes, version: int, now_ms: int) -> bytes:
    if version >= 3 or not is_legacy(records):
        return records
    try:
        return to_batch(records, now_ms)
    except BatchError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def handle_list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(topic.name)
        for asked in topic.partitions:
            found = ListOffsetsPartitionResponse(asked.partition_index)
            try:
                check_leader_epoch(asked.current_leader_epoch)
                found.offset, found.timestamp = _offset(
                    broker.topics.partition(topic.name, asked.partition_index), asked, request.isolation_level
                )
                found.leader_epoch = LEADER_EPOCH if found.offset >= 0 else -1
            except Refusal as refusal:
                found.error_code = refusal.code
            answered.partitions.append(found)
        response.topics.append(answered)
    return response


def _offset(partition: Partition, asked: ListOffsetsPartition, isolation_level: int) -> tuple[int, int]:
    log, timestamp = partition.log, asked.timestamp
    if timestamp == LATEST_TIMESTAMP:
        return log.last_stable_offset if isolation_level else log.end_offset, -1
    if timestamp in (EARLIEST_TIMESTAMP, _EARLIEST_LOCAL):
        return log.log_start_offset, -1
    if timestamp == MAX_TIMESTAMP:
        return log.max_timestamp_offset()
    if timestamp == _LATEST_TIERED:
        return -1, -1
    if timestamp < 0:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
    return log.offset_for_timestamp(timestamp) or (-1, -1)


def handle_offset_for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = OffsetForLeaderTopicResult(topic.topic)
        for asked in topic.partitions:
            found = OffsetForLeaderPartitionResult(partition=asked.partition)
            try:
                check_leader_epoch(asked.current_leader_epoch)
                partition = broker.topics.partition(topic.topic, asked.partition)
                if asked.leader_epoch == LEADER_EPOCH:
                    found.leader_epoch, found.end_offset = LEADER_EPOCH, partition.log.end_offset
            except Refusal as refusal:
                found.error_code = refusal.code
            answered.partitions.append(found)
        response.topics.append(answered)
    return response


def handle_delete_records(broker: Broker, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answered = DeleteRecordsTopicResult(topic.name)
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(asked.partition_index, -1)
            try:
                if topic.name in INTERNAL_TOPICS:
                    raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
                partition = broker.topics.partition(topic.name, asked.partition_index)
                result.low_watermark = partition.log.delete_records(asked.offset)
            except Refusal as refusal:
                result.error_code = refusal.code
            answered.partitions.append(result)
        response.topics.append(answered)
    broker.topics.save_start_offsets()
    return response
