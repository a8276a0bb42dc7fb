"""The controller's requests as messages of Apache Kafka 2.6's inter-broker protocol, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from coterie.controller.nodes import BrokerEndpoint, BrokerRegistration, registration_of
from coterie.controller.requests import ControlRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from coterie.replication.states import NO_EPOCH, PartitionState, StoppedReplica, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from coterie.wire.messages.brokers.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from coterie.wire.messages.brokers.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

# inter.broker.protocol.version 2.6
LEADER_AND_ISR_VERSION, STOP_REPLICA_VERSION, UPDATE_METADATA_VERSION = 4, 3, 6
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}  # Kafka's SecurityProtocol.id
_PROTOCOL_NAMES = {number: name for name, number in SECURITY_PROTOCOLS.items()}
T = TypeVar("T")
_Row = LeaderAndIsrPartitionState | UpdateMetadataPartitionState


def message_of(request: ControlRequest) -> tuple[Message, type[Message], int]:
    """The request, the class of its response, and the version of both."""
    match request:
        case LeaderAndIsr():
            return _leader_and_isr(request), LeaderAndIsrResponse, LEADER_AND_ISR_VERSION
        case StopReplica():
            return _stop_replica(request), StopReplicaResponse, STOP_REPLICA_VERSION
        case UpdateMetadata():
            return _update_metadata(request), UpdateMetadataResponse, UPDATE_METADATA_VERSION
    raise AssertionError(request)


def _by_topic(partitions: Mapping[TopicPartition, T]) -> Iterable[tuple[str, list[tuple[int, T]]]]:
    """Topic by topic in order, with partition and value."""
    for topic, rows in groupby(sorted(partitions.items(), key=itemgetter(0)), lambda row: row[0][0]):
        yield topic, [(number, value) for (_, number), value in rows]


# -- to the wire --------------------------------------------------------------------------------------------------------


def _leader_and_isr(request: LeaderAndIsr) -> LeaderAndIsrRequest:
    leaders = {broker: registration_of(text).address for broker, text in request.leaders.items()}
    topics = [
        LeaderAndIsrTopicState(
            topic,
            [
                LeaderAndIsrPartitionState(
                    *_in_both(number, state),
                    list(state.adding_replicas),
                    list(state.removing_replicas),
                    (topic, number) in request.new,
                )
                for number, state in rows
            ],
        )
        for topic, rows in _by_topic(request.states)
    ]
    return LeaderAndIsrRequest(
        request.controller,
        request.controller_epoch,
        request.broker_epoch,
        topic_states=topics,
        live_leaders=[LeaderAndIsrLiveLeader(broker, *address) for broker, address in sorted(leaders.items())],
    )


def _in_both(number: int, state: PartitionState) -> tuple[str, int, int, int, int, list[int], int, list[int]]:
    """The fields with which a partition begins in LeaderAndIsr and in UpdateMetadata; a topic's name is its own since v2 and
    v5."""
    of_leader = state.controller_epoch, state.leader, state.leader_epoch
    return "", number, *of_leader, list(state.isr), state.version, list(state.replicas)


def _stop_replica(request: StopReplica) -> StopReplicaRequest:
    topics = [
        StopReplicaTopicState(
            topic, [StopReplicaPartitionState(number, one.leader_epoch, one.delete) for number, one in rows]
        )
        for topic, rows in _by_topic(request.stopped)
    ]
    return StopReplicaRequest(request.controller, request.controller_epoch, request.broker_epoch, topic_states=topics)


def _update_metadata(request: UpdateMetadata) -> UpdateMetadataRequest:
    topics = [
        UpdateMetadataTopicState(
            topic,
            [
                UpdateMetadataPartitionState(
                    *_in_both(number, state),
                    list(request.offline.get((topic, number), ())),
                )
                for number, state in rows
            ],
        )
        for topic, rows in _by_topic(request.states)
    ]
    return UpdateMetadataRequest(
        request.controller,
        request.controller_epoch,
        request.broker_epoch,
        topic_states=topics,
        live_brokers=[_live_broker(broker, registration_of(text)) for broker, text in sorted(request.live.items())],
    )


def _live_broker(broker: int, registration: BrokerRegistration) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(e.port, e.host, e.listener, SECURITY_PROTOCOLS.get(e.security_protocol, 0))
        for e in registration.endpoints
    ]
    return UpdateMetadataBroker(broker, endpoints=endpoints, rack=registration.rack)


# -- from the wire, in every version ------------------------------------------------------------------------------------


def partition_states(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> dict[TopicPartition, PartitionState]:
    """What the request has of each partition."""
    return {partition: _state(row) for partition, row in _rows(request).items()}


def _rows(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> dict[TopicPartition, _Row]:
    rows: dict[TopicPartition, _Row] = {
        (row.topic_name, row.partition_index): row for row in request.ungrouped_partition_states
    }
    for topic in request.topic_states:
        rows |= {(topic.topic_name, row.partition_index): row for row in topic.partition_states}
    return rows


def _state(row: _Row) -> PartitionState:
    state = PartitionState(
        row.leader, row.leader_epoch, tuple(row.isr), row.controller_epoch, row.zk_version, tuple(row.replicas)
    )
    if isinstance(row, UpdateMetadataPartitionState):
        return state
    return replace(state, adding_replicas=tuple(row.adding_replicas), removing_replicas=tuple(row.removing_replicas))


def offline_replicas(request: UpdateMetadataRequest) -> dict[TopicPartition, tuple[int, ...]]:
    """The offline replicas of the partitions that have some; there are none before version 4."""
    rows = _rows(request).items()
    offline = {p: tuple(row.offline_replicas) for p, row in rows if isinstance(row, UpdateMetadataPartitionState)}
    return {partition: replicas for partition, replicas in offline.items() if replicas}


def new_partitions(request: LeaderAndIsrRequest) -> set[TopicPartition]:
    """The partitions that the request calls new."""
    rows = _rows(request).items()
    return {partition for partition, row in rows if isinstance(row, LeaderAndIsrPartitionState) and row.is_new}


def live_leaders(request: LeaderAndIsrRequest) -> dict[int, tuple[str, int]]:
    """The addresses of the leaders."""
    return {leader.broker_id: (leader.host_name, leader.port) for leader in request.live_leaders}


def live_brokers(request: UpdateMetadataRequest) -> dict[int, BrokerRegistration]:
    """The registered brokers."""
    return {broker.id: _registration(broker) for broker in request.live_brokers}


def _registration(broker: UpdateMetadataBroker) -> BrokerRegistration:
    if not broker.endpoints:
        return BrokerRegistration((BrokerEndpoint(broker.v0_host, broker.v0_port),), broker.rack)
    endpoints = []
    for row in broker.endpoints:
        protocol = _PROTOCOL_NAMES.get(row.security_protocol, str(row.security_protocol))
        endpoints.append(BrokerEndpoint(row.host, row.port, row.listener or protocol, protocol))
    return BrokerRegistration(tuple(endpoints), broker.rack)


def stopped_replicas(request: StopReplicaRequest) -> dict[TopicPartition, StoppedReplica]:
    """The replicas to stop. Versions before 3 have no leader epoch, and one `delete` for all."""
    plain = StoppedReplica(NO_EPOCH, request.delete_partitions)
    stopped = {(row.topic_name, row.partition_index): plain for row in request.ungrouped_partitions}
    stopped |= {(topic.name, number): plain for topic in request.topics for number in topic.partition_indexes}
    for topic in request.topic_states:
        for row in topic.partition_states:
            stopped[topic.topic_name, row.partition_index] = StoppedReplica(row.leader_epoch, row.delete_partition)
    return stopped
