"""Offsets of a log by time and by leader epoch: ListOffsets, OffsetForLeaderEpoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from coterie.broker.handlers.services import Handler, RecordServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.storage.topic import Partition
from coterie.log.aside import Aside, resumable
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    max_timestamp_offset,
    offset_for_timestamp,
    offsets_before,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    has_timestamp,
    list_offsets_error,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)

_EARLIEST_LOCAL, _LATEST_TIERED = -4, -5
_CONSUMER_REPLICA_ID = -1  # a replica, or a tool for replicas, reads open transactions too


def handle_list_offsets(broker: RecordServices, request: ListOffsetsRequest, call: Call) -> Message | Pending:
    """Each partition for itself: UNSUPPORTED_VERSION for a timestamp that the version has not, INVALID_REQUEST for a
    partition that comes twice. A follower's request goes to the replicas; in version 0 it has a list of offsets, as a
    consumer's."""
    if broker.member is not None and request.replica_id >= 0 and call.api_version > 0:
        return broker.member.follower_fetches.ends_of_logs(request)
    return broker.turns.run(_list_offsets(broker, request, call))


def _list_offsets(broker: RecordServices, request: ListOffsetsRequest, call: Call) -> Generator[Any, Any, Message]:
    response = ListOffsetsResponse()
    occurrences = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    for topic in request.topics:
        topic_response = ListOffsetsTopicResponse(topic.name)
        for requested in topic.partitions:
            result = ListOffsetsPartitionResponse(requested.partition_index)
            try:
                if occurrences[topic.name, requested.partition_index] > 1 and call.api_version > 0:
                    raise Refusal(ErrorCode.INVALID_REQUEST)
                if not has_timestamp(call.api_version, requested.timestamp):
                    raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
                if call.api_version == 0:
                    partition = _led(broker, topic.name, requested)
                    result.old_style_offsets = offsets_before(
                        partition.log, requested.timestamp, requested.max_num_offsets, broker.clock.now_ms()
                    )
                else:
                    offset_of = partial(_offset_of, broker, request, topic.name, requested)
                    result.offset, result.timestamp, result.leader_epoch = yield from resumable(offset_of)
            except Refusal as refusal:
                result.error_code = list_offsets_error(call.api_version, refusal.code)
            except OSError as error:
                broker.log_lines.warning("%s-%d cannot be read: %s", topic.name, requested.partition_index, error)
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            topic_response.partitions.append(result)
            yield
        response.topics.append(topic_response)
    return response


def _led(broker: RecordServices, topic: str, requested: ListOffsetsPartition) -> Partition:
    """Raises Refusal."""
    partition = broker.topics.partition(topic, requested.partition_index)
    partition.check_leader(requested.current_leader_epoch)
    return partition


def _offset_of(
    broker: RecordServices, request: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition, aside: Aside
) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch. Raises Refusal, or OSError."""
    partition = _led(broker, topic, requested)
    end_offset, check = partition.log.end_offset, None
    if request.replica_id == _CONSUMER_REPLICA_ID:
        check = partition.check_high_watermark
        end_offset = partition.log.last_stable_offset if request.isolation_level else partition.log.high_watermark
    offset, timestamp = _offset(partition.log, requested.timestamp, end_offset, check, aside)
    return offset, timestamp, partition.leader_epoch if offset >= 0 else -1


def _offset(
    log: PartitionLog, timestamp: int, end_offset: int, check: Callable[[], None] | None, aside: Aside
) -> tuple[int, int]:
    """``end_offset``: readers get what is before it. ``check``, before a response that depends on the high watermark. Raises
    Refusal (Kafka's Partition.fetchOffsetForTimestamp, KIP-207)."""
    if timestamp == LATEST_TIMESTAMP:
        if check is not None:
            check()
        return end_offset, -1
    if timestamp in (EARLIEST_TIMESTAMP, _EARLIEST_LOCAL):
        return log.log_start_offset, -1
    if timestamp == MAX_TIMESTAMP:
        return _readable(max_timestamp_offset(log, aside), end_offset)
    if timestamp == _LATEST_TIERED:
        return -1, -1
    if timestamp < 0:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
    offset = _readable(offset_for_timestamp(log, timestamp, aside), end_offset)
    if offset[0] < 0 and check is not None:
        check()
    return offset


def _readable(of_record: tuple[int, int] | None, end_offset: int) -> tuple[int, int]:
    """A record's offset and timestamp; -1 where there is none that readers get."""
    return (-1, -1) if of_record is None or of_record[0] >= end_offset else of_record


def handle_offset_for_leader_epoch(
    broker: RecordServices, request: OffsetForLeaderEpochRequest, call: Call
) -> Message | Pending:
    """KIP-320: where the log has left an epoch. A follower's request goes to the replicas."""
    if broker.member is not None and request.replica_id >= 0:
        return broker.member.follower_fetches.end_of_epochs(request)
    partitions = sum(len(topic.partitions) for topic in request.topics)
    return broker.turns.run_many(partitions, _ends_of_epochs(broker, request))


def _ends_of_epochs(broker: RecordServices, request: OffsetForLeaderEpochRequest) -> Generator[None, None, Message]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        topic_response = OffsetForLeaderTopicResult(topic.topic)
        for requested in topic.partitions:
            result = OffsetForLeaderPartitionResult(partition=requested.partition)
            try:
                partition = broker.topics.partition(topic.topic, requested.partition)
                partition.check_leader(requested.current_leader_epoch)
                end = partition.end_of_epoch(requested.leader_epoch)
                result.leader_epoch, result.end_offset = end.epoch, end.end_offset
            except Refusal as refusal:
                result.error_code = refusal.code
            topic_response.partitions.append(result)
            yield
        response.topics.append(topic_response)
    return response


HANDLERS: dict[int, Handler] = {2: handle_list_offsets, 23: handle_offset_for_leader_epoch}
