"""What a broker of a cluster tells its clients after UpdateMetadata: Kafka's MetadataCacheTest, by its names."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.control_requests import ControlRequests
from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.controller import encoding, nodes
from coterie.controller.requests import UpdateMetadata
from coterie.coordinator.partitioning import partition_for
from coterie.replication.states import PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.handlers.test_cluster_view import one_of_two

PLAIN, SSL_ALONE = 1, 2
REGISTRATIONS = {
    PLAIN: nodes.broker("one", 9092, "rack1", 0),
    SSL_ALONE: '{"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://two:9093"],"version":4}',
    4: '{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SSL":"SSL"},'
    '"endpoints":["SSL://four:9093","PLAINTEXT://four:9092"],"version":4}',
}
DEAD = 3
NONE, NO_REPLICA = ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE
NO_LEADER, NO_LISTENER = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND
Ids = tuple[int, ...]
Described = tuple[ErrorCode, int, Ids, Ids]  # error, leader, replicas, ISR


def update(view: ClusterView, states: Mapping[TopicPartition, PartitionState], live: Mapping[int, str]) -> None:
    """By the controller's request."""
    manager = cast(
        ReplicaManager, SimpleNamespace(replicas=SimpleNamespace(broker_epoch=40), update_metadata=lambda *_: None)
    )
    driver = cast(ControllerDriver, None)
    message = encoding.message_of(UpdateMetadata(PLAIN, 40, 2, 1, live, states))[0]
    assert isinstance(message, UpdateMetadataRequest)
    received = type(message).decode(message.encode(6), 6)
    ControlRequests(manager, view, driver, lambda: None).update_metadata(received)


def state(leader: int, replicas: Ids, isr: Ids) -> PartitionState:
    return PartitionState(leader, 7, isr, 1, 3, replicas)


# the partition's state, what Metadata describes from version 6 on, in versions 1 to 5, and in version 0
WHOLE = state(4, (4, PLAIN), (PLAIN, 4))
CASES = [
    pytest.param(WHOLE, *((NONE, 4, (4, PLAIN), (PLAIN, 4)),) * 3, id="getTopicMetadata"),
    pytest.param(
        state(DEAD, (PLAIN,), (PLAIN,)),
        *((NO_LEADER, -1, (PLAIN,), (PLAIN,)),) * 3,
        id="getTopicMetadataPartitionLeaderNotAvailable",
    ),
    pytest.param(
        state(SSL_ALONE, (PLAIN,), (PLAIN,)),
        (NO_LISTENER, -1, (PLAIN,), (PLAIN,)),
        *((NO_LEADER, -1, (PLAIN,), (PLAIN,)),) * 2,
        id="getTopicMetadataPartitionListenerNotAvailableOnLeader "
        "getTopicMetadataPartitionListenerNotAvailableOnLeaderOldMetadataVersion "
        "getTopicMetadataWithNonSupportedSecurityProtocol",
    ),
    pytest.param(
        state(PLAIN, (PLAIN, DEAD), (PLAIN,)),
        *((NONE, PLAIN, (PLAIN, DEAD), (PLAIN,)),) * 2,
        (NO_REPLICA, PLAIN, (PLAIN,), (PLAIN,)),
        id="getTopicMetadataReplicaNotAvailable",
    ),
    pytest.param(
        state(PLAIN, (PLAIN,), (PLAIN, DEAD)),
        *((NONE, PLAIN, (PLAIN,), (PLAIN, DEAD)),) * 2,
        (NO_REPLICA, PLAIN, (PLAIN,), (PLAIN,)),
        id="getTopicMetadataIsrNotAvailable",
    ),
]


@pytest.mark.parametrize(("announced", "new", "old", "first"), CASES)
async def test_a_partition(announced: PartitionState, new: Described, old: Described, first: Described) -> None:
    """What Metadata describes from version 6 on, in versions 1 to 5, and in version 0."""
    async with one_of_two() as (broker, client):
        update(broker.cluster, {("t", 0): announced}, REGISTRATIONS)
        for version, described in ((9, new), (6, new), (5, old), (1, old), (0, first)):
            response = await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), MetadataResponse, version)
            assert response.topics[0].error_code == NONE
            row = response.topics[0].partitions[0]
            assert (row.error_code, row.leader_id, tuple(row.replica_nodes), tuple(row.isr_nodes)) == described
            assert row.leader_epoch == (7 if version >= 7 else -1)
            assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "one", 9092), (4, "four", 9092)]


async def test_a_topic_that_does_not_exist() -> None:
    """getTopicMetadataNonExistingTopics."""
    async with one_of_two() as (broker, client):
        update(broker.cluster, {("t", 0): WHOLE}, REGISTRATIONS)
        request = MetadataRequest([MetadataRequestTopic(name="none")], allow_auto_topic_creation=False)
        (topic,) = (await client.ask(request, MetadataResponse, 9)).topics
        assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_brokers_that_were_returned_stay() -> None:
    """getAliveBrokersShouldNotBeMutatedByUpdateCache."""
    view = ClusterView(PLAIN, is_alone=False)
    update(view, {}, {broker: REGISTRATIONS[broker] for broker in (PLAIN, 4)})
    before, live = view.brokers(("", 0)), view.live
    update(view, {}, {PLAIN: REGISTRATIONS[PLAIN]})
    assert [broker.broker_id for broker in before] == list(live) == [PLAIN, 4]
    assert [broker.broker_id for broker in view.brokers(("", 0))] == [PLAIN]


async def test_a_broker_that_clients_cannot_reach_is_no_coordinator_and_runs() -> None:
    async with one_of_two() as (broker, client):
        topic = broker.topics.offsets_topic()
        index = partition_for("g", len(topic.partitions))
        update(broker.cluster, {(topic.name, index): state(SSL_ALONE, (2,), (2,))}, REGISTRATIONS)
        one = await client.ask(FindCoordinatorRequest("g", 0), FindCoordinatorResponse, 3)
        assert (one.node_id, one.error_code) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        refused = await client.ask(UnregisterBrokerRequest(SSL_ALONE), UnregisterBrokerResponse, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
