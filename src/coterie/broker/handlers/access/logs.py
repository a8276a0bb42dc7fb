"""Checks of Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords (KafkaApis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import CheckedRequest, Result, divided
from coterie.broker.handlers.access.refusals import refused
from coterie.broker.requests.calls import CannotRespond
from coterie.broker.requests.fetch_sessions import replica_id
from coterie.records.batch import begins_transactional
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from coterie.wire.messages.logs.produce import PartitionProduceResponse, TopicProduceData, TopicProduceResponse

_O, _DENIED = AclOperation, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(checked: CheckedRequest) -> Result:
    """The transactional id of transactional records; then each topic."""
    request, access = checked.request, checked.access
    name = request.transactional_id
    if any(begins_transactional(p.records or b"") for topic in request.topic_data for p in topic.partition_data) and (
        name is None or not access.allows_transactional_id(_O.WRITE, name)
    ):
        return refused(request, checked.call.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    by_id = checked.call.api_version > topic_names.PRODUCE

    def is_allowed(topic: TopicProduceData) -> bool:
        topic_name = checked.broker.topics.name_of(topic.name, topic.topic_id, by_id)
        return topic_name is None or access.allows_topic(_O.WRITE, topic_name)

    request.topic_data, denied = divided(request.topic_data, is_allowed)
    if not denied:
        return checked.proceed()

    def add(response: Any) -> None:
        response.responses += [
            TopicProduceResponse(
                topic.name, topic.topic_id, [PartitionProduceResponse(p.index, _DENIED) for p in topic.partition_data]
            )
            for topic in denied
        ]

    result = checked.then(add)
    if request.acks == 0:
        raise CannotRespond(f"a Produce with acks=0 failed for topic {denied[0].name}: {_DENIED.name}")
    return result


def fetch(checked: CheckedRequest) -> Result:
    """A follower's; the topics of a consumer's are checked as they are read, because a session has others than its request."""
    request = checked.request
    if replica_id(request) < 0 or checked.access.allows_cluster(_O.CLUSTER_ACTION):
        return checked.proceed()
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [PartitionData(p.partition, _DENIED, records=b"") for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def list_offsets(checked: CheckedRequest) -> Result:
    """Each topic; the denied ones come last."""
    return _denied_last(
        checked,
        lambda topic: checked.access.allows_topic(_O.DESCRIBE, topic.name),
        lambda topic: ListOffsetsTopicResponse(
            topic.name, [ListOffsetsPartitionResponse(p.partition_index, _DENIED) for p in topic.partitions]
        ),
    )


def offset_for_leader_epoch(checked: CheckedRequest) -> Result:
    """Brokers request it as well (KIP-320)."""
    if checked.access.allows_cluster(_O.CLUSTER_ACTION, is_reported=False):
        return checked.proceed()
    return _denied_last(
        checked,
        lambda topic: checked.access.allows_topic(_O.DESCRIBE, topic.topic),
        lambda topic: OffsetForLeaderTopicResult(
            topic.topic,
            [OffsetForLeaderPartitionResult(error_code=_DENIED, partition=p.partition) for p in topic.partitions],
        ),
    )


def delete_records(checked: CheckedRequest) -> Result:
    """Each topic; the denied ones come last."""
    return _denied_last(
        checked,
        lambda topic: checked.access.allows_topic(_O.DELETE, topic.name),
        lambda topic: DeleteRecordsTopicResult(
            topic.name, [DeleteRecordsPartitionResult(p.partition_index, -1, _DENIED) for p in topic.partitions]
        ),
    )


def _denied_last(checked: CheckedRequest, is_allowed: Callable[[Any], bool], row: Callable[[Any], Any]) -> Result:
    """The handler's response to the allowed topics, then a row for each of the others."""
    checked.request.topics, denied = divided(checked.request.topics, is_allowed)
    if not denied:
        return checked.proceed()

    def add(response: Any) -> None:
        response.topics += [row(topic) for topic in denied]

    return checked.then(add)
