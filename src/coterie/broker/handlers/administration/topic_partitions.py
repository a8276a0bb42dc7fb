"""DescribeTopicPartitions (KIP-966): topics by name, so many partitions a response, and a cursor where the next begins."""

from __future__ import annotations

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.handlers.authorized_operations import TOPIC_OPERATIONS
from coterie.broker.handlers.services import Handler, TopicServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import Topic, is_legal_name
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle_describe_topic_partitions(
    broker: TopicServices, request: DescribeTopicPartitionsRequest, call: Call
) -> Message | Pending:
    """No topic named: all of them. A cursor must name one of the topics requested, and a partition from 0 on."""
    return broker.turns.run(_describe(broker, request))


def _describe(broker: TopicServices, request: DescribeTopicPartitionsRequest) -> Work:
    cursor = request.cursor or Cursor()
    requested = {topic.name for topic in request.topics}
    if request.cursor is not None and (
        (requested and cursor.topic_name not in requested) or cursor.partition_index < 0
    ):
        code = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics]
        )
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, broker.settings.current.max_request_partition_size_limit))
    for name in sorted(name for name in requested or broker.topics.by_name if name >= cursor.topic_name):
        first = cursor.partition_index if name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(name, first)
            break
        yield
        topic = broker.topics.by_name.get(name)
        if topic is None or not broker.cluster.has_whole(topic):
            if not requested:
                continue
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(code, name, topic_authorized_operations=TOPIC_OPERATIONS)
            )
            continue
        described = _page(topic, first, left, broker.cluster)
        response.topics.append(described)
        left -= len(described.partitions)
        if first + len(described.partitions) < len(topic.partitions):
            response.next_cursor = Cursor(name, first + len(described.partitions))
            break
    return response


def _page(topic: Topic, first: int, count: int, cluster: ClusterView) -> DescribeTopicPartitionsResponseTopic:
    """At most ``count`` partitions from ``first`` on."""
    partitions = []
    for partition in topic.partitions[first : first + count]:
        described = cluster.described(partition)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                described.error_code,
                partition.index,
                described.leader_id,
                described.leader_epoch,
                described.replica_ids,
                described.isr_ids,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=described.offline_ids,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE, topic.name, topic.topic_id, topic.internal, partitions, TOPIC_OPERATIONS
    )


HANDLERS: dict[int, Handler] = {75: handle_describe_topic_partitions}
