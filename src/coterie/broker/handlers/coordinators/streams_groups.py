"""Groups of Kafka Streams (KIP-1071): StreamsGroupHeartbeat and StreamsGroupDescribe, and the internal topics that a topology
lacks, which the broker creates."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import GROUP_OPERATIONS, access_of
from coterie.broker.handlers.administration.topics import create_topics_of_broker
from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.services import Handler, StreamsServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
from coterie.broker.settings.features import STREAMS_VERSION
from coterie.broker.storage.topic import is_legal_name
from coterie.coordinator.streams.tasks import ConfiguredInternalTopic
from coterie.coordinator.streams.topology import MISSING_INTERNAL_TOPICS
from coterie.coordinator.views.streams_group import describe_streams_group
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.wire.messages.streams.streams_group_heartbeat import (
    GroupStatus,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from coterie.wire.messages.streams.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from coterie.wire.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

PROTOCOL = "streams"
_KAFKA_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_ERRORS_NAMED = 3
NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def is_streams_enabled(broker: StreamsServices) -> bool:
    """By group.coordinator.rebalance.protocols and the feature streams.version (Kafka's isStreamsGroupProtocolEnabled)."""
    has_feature = broker.features.level(STREAMS_VERSION) >= 1
    return has_feature and PROTOCOL in broker.settings.current.group_coordinator_rebalance_protocols


def topics_of_topology(topology: Topology) -> list[str]:
    """Every topic that the topology reads, writes or restores from."""
    names: dict[str, None] = {}
    for sub in topology.subtopologies:
        internal = [topic.name for topic in (*sub.repartition_source_topics, *sub.state_changelog_topics)]
        names |= dict.fromkeys([*sub.source_topics, *sub.repartition_sink_topics, *internal])
    return list(names)


def handle_streams_group_heartbeat(
    broker: StreamsServices, request: StreamsGroupHeartbeatRequest, call: Call
) -> Message | Pending:
    """UNSUPPORTED_VERSION where the protocol is not enabled, STREAMS_INVALID_TOPOLOGY for names that are none of a topic of a
    user; otherwise the core decides. Internal topics that are missing are created, and what keeps them from it is in the
    status."""
    if not is_streams_enabled(broker):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.topology is not None:
        problem = _names_problem(topics_of_topology(request.topology))
        if problem:
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=problem)
    pending = hand_over(broker.groups, request, call)
    if pending.response is not None and not pending.internal_topics:
        return pending

    def with_topics(response: Message) -> Message:
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        if pending.internal_topics:
            _create_internal_topics(broker, request.group_id, call, pending.internal_topics, response)
        return response

    return pending.then(with_topics)


def _names_problem(names: Sequence[str]) -> str:
    prohibited = [name for name in names if name in _KAFKA_INTERNAL]
    if prohibited:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in names if not is_legal_name(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else ""


def _create_internal_topics(
    broker: StreamsServices,
    group_id: str,
    call: Call,
    topics: tuple[ConfiguredInternalTopic, ...],
    response: StreamsGroupHeartbeatResponse,
) -> None:
    """Begins to create the topics; the response says why they may not be, or why the last attempt failed."""
    denied = _denied(broker, call, [topic.name for topic in topics])
    if denied:
        _add_to_status(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    errors = broker.groups.topic_creations
    failed = errors.of(topic.name for topic in topics)  # of earlier heartbeats: Kafka's creation ends after this one
    wanted = [topic for topic in topics if errors.begin(topic.name)]
    if wanted:
        interval_ms = broker.groups.config_of(group_id).group_streams_heartbeat_interval_ms
        result = create_topics_of_broker(broker, CreateTopicsRequest([*map(_creatable, wanted)], 2 * interval_ms), call)
        result.then(lambda created: _created(broker, wanted, created))
    if failed:
        texts = [f"{name} ({text})" for name, text in list(failed.items())[:_ERRORS_NAMED]]
        more = f" and {len(failed) - _ERRORS_NAMED} more" if len(failed) > _ERRORS_NAMED else ""
        _add_to_status(response, f"Creation failed: {', '.join(texts)}{more}.")


def _created(broker: StreamsServices, wanted: Iterable[ConfiguredInternalTopic], created: Message) -> Message:
    assert isinstance(created, CreateTopicsResponse)
    results = {result.name: result for result in created.topics}
    for topic in wanted:
        result = results[topic.name]
        exists = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        broker.groups.topic_creations.ended(topic.name, "" if exists else result.error_message or "refused")
    return created


def _denied(broker: StreamsServices, call: Call, names: Sequence[str]) -> list[str]:
    """The topics that the member may not create, nor all of the cluster."""
    access = access_of(broker, call)
    if access is None or access.allows_cluster(AclOperation.CREATE, is_reported=False):
        return []
    return [name for name in names if not access.allows_topic(AclOperation.CREATE, name)]


def _creatable(topic: ConfiguredInternalTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name, value) for name, value in topic.configs]
    return CreatableTopic(topic.name, topic.partitions, topic.replication_factor or -1, configs=configs)


def _add_to_status(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    statuses = response.status = [] if response.status is None else response.status
    for status in statuses:
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"
            return
    statuses.append(GroupStatus(MISSING_INTERNAL_TOPICS, text))


def handle_streams_group_describe(
    broker: StreamsServices, request: StreamsGroupDescribeRequest, call: Call
) -> Message | Pending:
    """Each group once: UNSUPPORTED_VERSION, INVALID_GROUP_ID, or GROUP_ID_NOT_FOUND of the core."""
    return broker.turns.run(_describe(broker, request))


def _describe(broker: StreamsServices, request: StreamsGroupDescribeRequest) -> Generator[None, None, Message]:
    response = StreamsGroupDescribeResponse()
    for group_id in distinct(request.group_ids, str):
        yield
        described = _described(broker, group_id, request)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


def _described(broker: StreamsServices, group_id: str, request: StreamsGroupDescribeRequest) -> DescribedStreamsGroup:
    if not is_streams_enabled(broker):
        return DescribedStreamsGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not group_id:
        return DescribedStreamsGroup(ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    try:
        group = broker.groups.group(group_id)
    except Refusal as refusal:
        return DescribedStreamsGroup(refusal.code, group_id=group_id)
    config, described = broker.groups.config_of(group_id), request.include_topology_description
    return describe_streams_group(group, group_id, config, with_topology_description=described)


def handle_streams_group_topology_description_update(
    broker: StreamsServices, request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """UNSUPPORTED_VERSION, as of a Kafka without a plugin that keeps descriptions (KIP-1331)."""
    text = NO_PLUGIN if is_streams_enabled(broker) else None
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)


HANDLERS: dict[int, Handler] = {
    88: handle_streams_group_heartbeat,
    89: handle_streams_group_describe,
    93: handle_streams_group_topology_description_update,
}
