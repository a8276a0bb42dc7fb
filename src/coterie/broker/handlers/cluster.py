"""The cluster as clients see it: versions, brokers, topics, coordinators; and the leaders that Fetch and Produce name, with
their addresses, to a client that knows another one (KIP-951)."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Mapping

from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.handlers.access.access import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from coterie.broker.handlers.services import ClusterServices, Handler, LeaderServices
from coterie.broker.requests.calls import Call, Software
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import AT_ONCE, distinct, finish
from coterie.broker.settings.features import supported_features
from coterie.broker.storage.topic import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    NewPartitions,
    Partition,
    Topic,
    is_legal_name,
)
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, parse_key
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.brokers.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.wire.messages.brokers.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    coordinators_response,
    keys_of,
)
from coterie.wire.messages.logs.fetch import PartitionData
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse
from coterie.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    requested_topics,
    topics_are_valid,
)
from coterie.wire.primitives import NULL_UUID

logger = logging.getLogger(__name__)

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
COORDINATORS_TOPICS = {GROUP_KEY: OFFSETS_TOPIC, TRANSACTION_KEY: TRANSACTIONS_TOPIC, SHARE_KEY: SHARE_STATE_TOPIC}
SHARE_FROM = 6  # of FindCoordinator
BROKER_ENDPOINT, CONTROLLER_ENDPOINT = 1, 2
CLIENT_SOFTWARE_FROM = 3  # version of ApiVersions (KIP-511)
INTENDED_BROKER_FROM = 5  # of ApiVersions (KIP-1242)
ANY_NODE = -1  # of a client that bootstraps
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(broker: ClusterServices, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """INVALID_REQUEST for a software name that KIP-511 does not allow, and for a cluster without a broker or the reverse;
    REBOOTSTRAP_REQUIRED for a client that means to reach another (KIP-1242); UNSUPPORTED_VERSION with the versions that are.
    What is advertised depends on the cluster."""
    if call.api_version not in ApiVersionsRequest.versions:
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, broker.advertised())
    software = Software(request.client_software_name, request.client_software_version)
    if call.api_version >= CLIENT_SOFTWARE_FROM:
        if not all(_SOFTWARE_NAME.fullmatch(name) for name in (software.name, software.version)):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        call.connection.software = software
        broker.clients.seen.named(call)
    if call.api_version >= INTENDED_BROKER_FROM:
        cluster_id, node_id = request.cluster_id, request.node_id
        if (cluster_id is None) != (node_id == ANY_NODE):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        if cluster_id is not None and (cluster_id, node_id) != (broker.cluster_id, broker.node_id):
            return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED)
    return ApiVersionsResponse(
        ErrorCode.NONE,
        broker.advertised(),
        supported_features=[] if broker.features.are_absent else supported_features(call.api_version),
        finalized_features_epoch=broker.features.epoch,
        finalized_features=broker.features.finalized(),
    )


def _brokers(broker: ClusterServices, call: Call) -> list[LiveBroker]:
    return broker.cluster.brokers(broker.address(call))


def handle_metadata(broker: ClusterServices, request: MetadataRequest, call: Call) -> Message | Pending:
    """Creates missing topics where auto.create.topics.enable and the request allow it. INVALID_REQUEST for all topics
    where one has neither a name nor, from version 12 on, an id."""
    return broker.turns.run(_metadata(broker, request, call))


def _metadata(broker: ClusterServices, request: MetadataRequest, call: Call) -> Generator[None, None, Message]:
    if not topics_are_valid(request, call.api_version):
        refused = [
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, t.name or "", t.topic_id) for t in request.topics or []
        ]
        return MetadataResponse(topics=refused, cluster_id=None, controller_id=-1)
    wanted_topics = requested_topics(request, call.api_version)
    if wanted_topics is None:
        wanted, topics = list(broker.topics.by_name.values()), list[MetadataResponseTopic]()
        for topic in wanted:
            if broker.cluster.has_whole(topic):
                topics.append(_topic_metadata(broker, topic, call.api_version))
            yield
    else:
        # As in Kafka the response has each topic once, however often the request names it.
        named = {(requested.topic_id, requested.name): requested for requested in wanted_topics}
        if any(topic_id != NULL_UUID for topic_id, _ in named):  # then Kafka looks at ids alone
            named = {key: requested for key, requested in named.items() if key[0] != NULL_UUID}
        may_create = request.allow_auto_topic_creation and broker.settings.current.auto_create_topics_enable
        missing = [name for _, name in named if name and may_create and name not in broker.topics.by_name]
        creating = _create_missing(broker, missing)
        not_created = finish(creating) if len(missing) <= AT_ONCE else (yield from creating)
        topics = []
        for requested in named.values():
            topics.append(_requested_topic(broker, requested, not_created, call.api_version))
            yield
    if request.include_topic_authorized_operations:
        for topic_response in topics:
            if topic_response.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic_response.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(b.broker_id, b.host, b.port, b.rack) for b in _brokers(broker, call)],
        cluster_id=broker.cluster_id,
        controller_id=broker.cluster.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _create_missing(broker: ClusterServices, names: list[str]) -> Generator[None, None, dict[str, ErrorCode]]:
    """Creates topics, with one write; returns the codes of the refused ones."""
    refused: dict[str, ErrorCode] = {}
    growths: list[NewPartitions] = []
    try:
        for name in names:
            try:
                if not is_legal_name(name):
                    raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
                if name in INTERNAL_TOPICS:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                broker.topics.check_new_name(name)
                if broker.topic_changes is not None:
                    raise Refusal(broker.topic_changes.create_soon(name))
                count = broker.settings.current.num_partitions
                growths.append((yield from broker.topics.preparing(name, count, {})))
                logger.info("creating topic %s, which a client requested", name)
            except Refusal as refusal:
                # The topic is being created or deleted by another request: clients repeat the request, as on Kafka.
                is_changing = refusal.code == ErrorCode.TOPIC_ALREADY_EXISTS
                refused[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_changing else refusal.code
            yield
        made, growths = growths, []
        if made:
            try:
                broker.topics.publish(made)
            except Refusal as refusal:
                refused |= {growth.topic.name: refusal.code for growth in made}
    finally:
        broker.topics.abandon(growths)
    return refused


def _requested_topic(
    broker: ClusterServices, requested: MetadataRequestTopic, refused: Mapping[str, ErrorCode], api_version: int
) -> MetadataResponseTopic:
    if requested.topic_id != NULL_UUID:
        topic = broker.topics.by_id.get(requested.topic_id)
        if topic is None or not broker.cluster.has_whole(topic):
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, requested.topic_id)
        return _topic_metadata(broker, topic, api_version)
    name = requested.name or ""
    topic = broker.topics.by_name.get(name)
    if topic is not None and broker.cluster.has_whole(topic):
        return _topic_metadata(broker, topic, api_version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(refused.get(name, unknown), name)


def _topic_metadata(broker: ClusterServices, topic: Topic, api_version: int) -> MetadataResponseTopic:
    partitions = []
    for partition in topic.partitions:
        described = broker.cluster.described(partition, api_version)
        partitions.append(
            MetadataResponsePartition(
                described.error_code,
                partition.index,
                described.leader_id,
                described.leader_epoch,
                replica_nodes=described.replica_ids,
                isr_nodes=described.isr_ids,
                offline_replicas=described.offline_ids,
            )
        )
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.topic_id, topic.internal, partitions)


def handle_describe_cluster(
    broker: ClusterServices, request: DescribeClusterRequest, call: Call
) -> DescribeClusterResponse:
    """KIP-700. MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE: it is a broker's endpoint alone (KIP-919)."""
    if request.endpoint_type == CONTROLLER_ENDPOINT:
        text = "this is an endpoint of type BROKER; the request wants one of type CONTROLLER"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    if request.endpoint_type != BROKER_ENDPOINT:
        text = f"endpoint type {request.endpoint_type} is not known; a broker's is {BROKER_ENDPOINT}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.cluster.controller_id,
        brokers=[DescribeClusterBroker(b.broker_id, b.host, b.port, b.rack) for b in _brokers(broker, call)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def handle_unregister_broker(
    broker: ClusterServices, request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse:
    """A running broker cannot be unregistered, as in Kafka; one that does not run is not registered."""
    if request.broker_id in (broker.cluster.node_id, *broker.cluster.live):
        consequence = "the cluster is gone" if broker.cluster.is_alone else "it is unregistered"
        text = f"broker {request.broker_id} is running; stop it, and {consequence}"
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    text = f"broker {request.broker_id} is not registered"
    return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text)


def _coordinator(broker: ClusterServices, key_type: int, key: str, call: Call) -> Coordinator:
    try:
        if broker.cluster.is_alone:
            broker.groups.ready()
        topic = broker.topics.by_name.get(COORDINATORS_TOPICS[key_type])
        if broker.topic_changes is not None and topic is None:
            broker.topic_changes.create_soon(COORDINATORS_TOPICS[key_type])
        leader = broker.cluster.coordinator(topic, key, broker.address(call))
    except Refusal as refusal:
        return Coordinator(key, -1, "", -1, refusal.code, str(refusal))
    return Coordinator(key, leader.broker_id, leader.host, leader.port, ErrorCode.NONE, "")


def handle_find_coordinator(broker: ClusterServices, request: FindCoordinatorRequest, call: Call) -> Message | Pending:
    """COORDINATOR_NOT_AVAILABLE where no live broker leads the key's partition, INVALID_REQUEST for keys of other
    types."""
    return broker.turns.run_many(len(request.coordinator_keys), _find_coordinators(broker, request, call))


def _find_coordinators(
    broker: ClusterServices, request: FindCoordinatorRequest, call: Call
) -> Generator[None, None, Message]:
    coordinators = []
    for key in distinct(keys_of(request, call.api_version), str):
        if request.key_type == SHARE_KEY and (call.api_version < SHARE_FROM or not _is_share_key(key)):
            coordinators.append(Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, ""))
        elif request.key_type not in COORDINATORS_TOPICS:
            text = "this broker coordinates groups, transactions and share groups, and nothing else"
            coordinators.append(Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, text))
        else:
            coordinators.append(_coordinator(broker, request.key_type, key, call))
        yield
    return coordinators_response(call.api_version, coordinators)


def _is_share_key(key: str) -> bool:
    try:
        parse_key(key)
    except ValueError:
        return False
    return True


def handle_unregister_controller(
    broker: ClusterServices, request: UnregisterControllerRequest, call: Call
) -> UnregisterControllerResponse:
    """The active controller cannot be unregistered, as in Kafka; there is no quorum with others."""
    if request.controller_id == broker.cluster.controller_id:
        text = "Controller cannot unregister itself while it is active."
        return UnregisterControllerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    text = f"Controller ID {request.controller_id} is not currently registered."
    return UnregisterControllerResponse(error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED, error_message=text)


def name_leaders(
    broker: LeaderServices, call: Call, refused: Iterable[tuple[Partition, PartitionData | PartitionProduceResponse]]
) -> list[NodeEndpoint]:
    """Each refused partition gets its ``current_leader``; returns the addresses of the live ones."""
    leader_ids = set[int]()
    for partition, data in refused:
        data.current_leader = _current_leader(broker.cluster, partition)
        leader_ids.add(data.current_leader.leader_id)
    if not leader_ids:
        return []
    brokers = broker.cluster.brokers(broker.address(call))
    return [NodeEndpoint(b.broker_id, b.host, b.port, b.rack) for b in brokers if b.broker_id in leader_ids]


def _current_leader(cluster: ClusterView, partition: Partition) -> LeaderIdAndEpoch:
    """By the role of this broker's replica, which the controller gives before it announces the leader to all; without a
    replica by what was announced (KafkaApis.getCurrentLeader)."""
    role = None if partition.replica is None else partition.replica.role
    if role is not None:
        return LeaderIdAndEpoch(role.state.leader, role.state.leader_epoch)
    described = cluster.described(partition)
    return LeaderIdAndEpoch(described.leader_id, described.leader_epoch)


HANDLERS: dict[int, Handler] = {
    3: handle_metadata,
    10: handle_find_coordinator,
    18: handle_api_versions,
    60: handle_describe_cluster,
    64: handle_unregister_broker,
    94: handle_unregister_controller,
}
