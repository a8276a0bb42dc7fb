"""Partitions: their leaders and replicas, of which a broker alone is and remains the only one of each, and
DescribeTopicPartitions (KIP-966): topics by name, so many partitions a response, and a cursor where the next begins."""

from __future__ import annotations

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.handlers.access.access import TOPIC_OPERATIONS
from coterie.broker.handlers.services import Handler, ReplicaServices, TopicServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import Topic, is_legal_name
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from coterie.wire.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from coterie.wire.messages.topics.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

PREFERRED, UNCLEAN = 0, 1  # types of election


def handle_elect_leaders(broker: ReplicaServices, request: ElectLeadersRequest, call: Call) -> Message | Pending:
    """A broker alone: no partition needs an election. As in Kafka a request for all gets a response without partitions."""
    known = request.election_type in (PREFERRED, UNCLEAN)
    if broker.member is not None and known:
        return broker.member.commands.elect_leaders(request, tuple(broker.cluster.states))
    if request.topic_partitions is None:
        every = [ReplicaElectionResult(name) for name in broker.topics.by_name] if known else []
        return ElectLeadersResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST, replica_election_results=every
        )
    return broker.turns.run(_elect(broker, request, request.topic_partitions, known=known))


def _elect(
    broker: TopicServices, request: ElectLeadersRequest, requested: list[TopicPartitions], *, known: bool
) -> Work:
    response = ElectLeadersResponse(error_code=ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST)
    for topic in requested:
        results = []
        for index in topic.partitions:
            code, text = _election(broker, topic.topic, index)
            if not known:
                code, text = ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}"
            results.append(PartitionResult(index, code, text))
            yield
        response.replica_election_results.append(ReplicaElectionResult(topic.topic, results))
    return response


def _election(broker: TopicServices, topic: str, index: int) -> tuple[ErrorCode, str]:
    try:
        _check_exists(broker, topic, index)
    except Refusal as refusal:
        return refusal.code, str(refusal)
    return ErrorCode.ELECTION_NOT_NEEDED, f"the preferred leader of {topic}-{index} leads it"


def _check_exists(broker: TopicServices, topic: str, index: int) -> None:
    try:
        broker.topics.partition(topic, index)
    except Refusal as refusal:
        raise Refusal(refusal.code, f"there is no partition {topic}-{index}") from refusal


def handle_alter_partition_reassignments(
    broker: ReplicaServices, request: AlterPartitionReassignmentsRequest, call: Call
) -> Message | Pending:
    """A broker alone: the replicas that a partition has may be named again; any others are refused."""
    if broker.member is not None:
        return broker.member.commands.alter_reassignments(request)
    return broker.turns.run(_alter_reassignments(broker, request))


def _alter_reassignments(broker: ReplicaServices, request: AlterPartitionReassignmentsRequest) -> Work:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            try:
                _check_exists(broker, topic.name, partition.partition_index)
                _check_replicas(broker.node_id, partition.replicas)
                results.append(ReassignablePartitionResponse(partition.partition_index))
            except Refusal as refusal:
                results.append(ReassignablePartitionResponse(partition.partition_index, refusal.code, refusal.message))
            yield
        response.responses.append(ReassignableTopicResponse(topic.name, results))
    return response


def _check_replicas(node_id: int, replicas: list[int] | None) -> None:
    """Raises Refusal for replicas other than this broker alone; None, which cancels, has nothing to cancel."""
    if replicas is None:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not replicas:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    if len(set(replicas)) < len(replicas):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the replicas {replicas} name a broker twice")
    if replicas != [node_id]:
        others = [replica for replica in replicas if replica != node_id]
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"broker {others[0]} is not registered")


def handle_list_partition_reassignments(
    broker: ReplicaServices, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse | Pending:
    """A broker alone has none."""
    if broker.member is not None:
        return broker.member.commands.list_reassignments(request)
    return ListPartitionReassignmentsResponse()


def handle_describe_topic_partitions(
    broker: TopicServices, request: DescribeTopicPartitionsRequest, call: Call
) -> Message | Pending:
    """No topic named: all of them. A cursor must name one of the topics requested, and a partition from 0 on."""
    return broker.turns.run(_pages(broker, request))


def _pages(broker: TopicServices, request: DescribeTopicPartitionsRequest) -> Work:
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


HANDLERS: dict[int, Handler] = {
    43: handle_elect_leaders,
    45: handle_alter_partition_reassignments,
    46: handle_list_partition_reassignments,
    75: handle_describe_topic_partitions,
}
