"""Leaders and replicas of partitions: a broker alone is and remains the leader and only replica of each."""

from __future__ import annotations

from coterie.broker.handlers.services import Handler, ReplicaServices, TopicServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
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


HANDLERS: dict[int, Handler] = {
    43: handle_elect_leaders,
    45: handle_alter_partition_reassignments,
    46: handle_list_partition_reassignments,
}
