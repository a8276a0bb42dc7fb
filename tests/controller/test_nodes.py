"""The controller's requests as messages and back, and registrations of brokers. The nodes of a cluster as Kafka 2.6.3
writes them, and hostile ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.controller import encoding, nodes
from coterie.controller.nodes import BrokerEndpoint, BrokerRegistration, registration_of
from coterie.controller.requests import ControlRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from coterie.replication.states import EPOCH_DURING_DELETE, NO_EPOCH, PartitionState, StoppedReplica, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from coterie.wire.messages.brokers.stop_replica import StopReplicaPartitionV0, StopReplicaRequest, StopReplicaTopicV1
from coterie.wire.messages.brokers.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from coterie.zookeeper.operations import Corrupt, Znode

STATES: dict[TopicPartition, PartitionState] = {
    ("a", 0): PartitionState(1, 5, (1, 2), 7, 9, (1, 2, 3)),
    ("b", 1): PartitionState(-1, 6, (2,), 7, 0, (2, 4), (4,), (2,)),
    ("b", 0): PartitionState(2, 0, (2,), 7, 0, (2,)),
}
REGISTRATIONS = {1: nodes.broker("h1", 9092, "r1", 0), 2: nodes.broker("::1", 9093, None, 0)}
STATE = '{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,3]}'
JUNK = st.sampled_from(["", "{}", "[]", "null", "7", '{"partitions":7}', '{"partitions":[7]}', '{"isr":{}}', "[" * 900])


def sent(message: Message, version: int) -> Message:
    """As the other broker decodes it."""
    return type(message).decode(message.encode(version), version)


def test_leader_and_isr() -> None:
    request = LeaderAndIsr(3, 40, 1, 7, STATES, frozenset({("b", 0)}), REGISTRATIONS)
    message, _, version = encoding.message_of(request)
    received = sent(message, version)
    assert isinstance(received, LeaderAndIsrRequest)
    assert (received.controller_id, received.controller_epoch, received.broker_epoch) == (1, 7, 40)
    assert encoding.partition_states(received) == STATES
    assert encoding.live_leaders(received) == {1: ("h1", 9092), 2: ("::1", 9093)}
    new = [(t.topic_name, p.partition_index) for t in received.topic_states for p in t.partition_states if p.is_new]
    assert new == [("b", 0)]


def test_update_metadata() -> None:
    offline = {("a", 0): (3,), ("b", 1): (2, 4)}
    message, _, version = encoding.message_of(UpdateMetadata(3, 40, 1, 7, REGISTRATIONS, STATES, offline))
    received = sent(message, version)
    assert isinstance(received, UpdateMetadataRequest)
    assert (received.controller_id, received.controller_epoch, received.broker_epoch) == (1, 7, 40)
    without_reassignment = {p: replace(s, adding_replicas=(), removing_replicas=()) for p, s in STATES.items()}
    assert encoding.partition_states(received) == without_reassignment
    assert encoding.live_brokers(received) == {b: registration_of(text) for b, text in REGISTRATIONS.items()}
    assert encoding.offline_replicas(received) == offline


def test_stop_replica() -> None:
    stopped = {("a", 0): StoppedReplica(5), ("b", 1): StoppedReplica(EPOCH_DURING_DELETE, True)}
    message, _, version = encoding.message_of(StopReplica(3, 40, 1, 7, stopped))
    received = sent(message, version)
    assert isinstance(received, StopReplicaRequest)
    assert (received.controller_id, received.controller_epoch, received.broker_epoch) == (1, 7, 40)
    assert encoding.stopped_replicas(received) == stopped


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        pytest.param(LeaderAndIsr(3, 40, 1, 7, STATES), 4, id="testLeaderAndIsrInterBrokerProtocolVersion"),
        pytest.param(UpdateMetadata(3, 40, 1, 7, {}, STATES), 6, id="testUpdateMetadataInterBrokerProtocolVersion"),
        pytest.param(StopReplica(3, 40, 1, 7, {}), 3, id="testStopReplicaInterBrokerProtocolVersion"),
    ],
)
def test_the_versions_of_inter_broker_protocol_2_6(request_: ControlRequest, version: int) -> None:
    """The row of Kafka's table: a controller sends no older version, whatever inter.broker.protocol.version is."""
    assert encoding.message_of(request_)[2] == version


@pytest.mark.parametrize("version", [0, 1])
def test_partitions_that_are_not_grouped(version: int) -> None:
    row = LeaderAndIsrPartitionState("a", 0, 7, 1, 5, [1, 2], 9, [1, 2, 3])
    received = sent(LeaderAndIsrRequest(ungrouped_partition_states=[row]), version)
    assert isinstance(received, LeaderAndIsrRequest)
    assert encoding.partition_states(received) == {("a", 0): STATES["a", 0]}
    metadata_row = UpdateMetadataPartitionState("a", 0, 7, 1, 5, [1, 2], 9, [1, 2, 3])
    brokers = [UpdateMetadataBroker(1, v0_host="h", v0_port=9)]
    metadata = sent(UpdateMetadataRequest(ungrouped_partition_states=[metadata_row], live_brokers=brokers), 0)
    assert isinstance(metadata, UpdateMetadataRequest)
    assert encoding.partition_states(metadata) == {("a", 0): STATES["a", 0]}
    assert encoding.live_brokers(metadata) == {1: BrokerRegistration((BrokerEndpoint("h", 9),))}


def test_older_requests_to_stop_replicas() -> None:
    for version, request in (
        (0, StopReplicaRequest(delete_partitions=True, ungrouped_partitions=[StopReplicaPartitionV0("a", 3)])),
        (2, StopReplicaRequest(delete_partitions=True, topics=[StopReplicaTopicV1("a", [3])])),
    ):
        received = sent(request, version)
        assert isinstance(received, StopReplicaRequest)
        assert encoding.stopped_replicas(received) == {("a", 3): StoppedReplica(NO_EPOCH, True)}


def test_registrations_of_every_version() -> None:
    """The second as Apache Kafka 2.6 writes one with two listeners, the third as 0.8 does."""
    assert registration_of(REGISTRATIONS[1]) == BrokerRegistration((BrokerEndpoint("h1", 9092),), "r1")
    two = registration_of(
        '{"features":{},"listener_security_protocol_map":{"EXTERNAL":"SASL_SSL","INNER":"PLAINTEXT"},'
        '"endpoints":["EXTERNAL://out:1","INNER://in:2"],"jmx_port":-1,"port":-1,"host":null,"version":4,"timestamp":"1"}'
    )
    assert two.address == ("in", 2)
    assert [(e.listener, e.security_protocol) for e in two.endpoints] == [
        ("EXTERNAL", "SASL_SSL"),
        ("INNER", "PLAINTEXT"),
    ]
    assert registration_of('{"version":1,"host":"h","port":3}').address == ("h", 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoints":["PLAINTEXT://h"]}', '{"endpoints":1}', '{"host":"h"}'])
def test_a_broken_registration(text: str) -> None:
    with pytest.raises(Corrupt, match="a broker's node holds"):
        registration_of(text)


def test_a_partition_state() -> None:
    state = nodes.state_of(Znode(STATE, version=5), (2, 3, 1))
    assert state == PartitionState(2, 7, (2, 3), 4, 5, (2, 3, 1))
    assert nodes.state(state) == STATE


def test_a_topic() -> None:
    text = '{"version":2,"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"removing_replicas":{}}'
    assert nodes.topic({1: [2, 3], 0: [1, 2]}) == text
    assert nodes.replicas_of(text) == {0: (1, 2), 1: (2, 3)}


def test_an_isr_change() -> None:
    text = '{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":3}]}'
    assert nodes.partitions({("b", 3), ("a", 0)}) == text
    assert nodes.partitions_of(text) == [("a", 0), ("b", 3)]


def test_reassigned_partitions() -> None:
    """testEncode and testDecodeValidJson of ReassignPartitionsZNodeTest."""
    targets = {("foo", 0): (1, 2)}
    text = '{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2]}]}'
    assert nodes.reassigned(targets) == text
    assert nodes.reassigned_of(text) == targets


@pytest.mark.parametrize("text", ["invalid json", "{}", '{"partitions":[{"topic":"foo","partition":0}]}'])
def test_reassigned_partitions_of_invalid_json(text: str) -> None:
    """testDecodeInvalidJson; the controller deletes such a node: tests/spec/cluster/reassignment.txt."""
    with pytest.raises(Corrupt, match="/admin/reassign_partitions holds"):
        nodes.reassigned_of(text)


def test_a_controller_and_a_broker() -> None:
    assert nodes.controller(3, 1_700_000_000_000) == '{"version":1,"brokerid":3,"timestamp":"1700000000000"}'
    assert nodes.broker("h", 9092, "r1", 17) == (
        '{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,'
        '"host":"h","timestamp":"17","port":9092,"version":4,"rack":"r1"}'
    )


@given(st.one_of(JUNK, st.text(max_size=40)))
def test_junk_is_corrupt(text: str) -> None:
    for read in (nodes.replicas_of, nodes.partitions_of, lambda t: nodes.state_of(Znode(t), ())):
        try:
            read(text)
        except Corrupt:
            continue
        assert text == "{}" or '"partitions"' in text or "isr" in text


def test_junk_says_what_it_is() -> None:
    with pytest.raises(Corrupt, match="a partition's state holds '7'"):
        nodes.state_of(Znode("7"), ())
