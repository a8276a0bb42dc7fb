"""What a client knows of a cluster: whom it asks, what is asked again and when, and what a response changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.machines.cluster_metadata import GROUP, TRANSACTION, Address, ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

A, B, C = ("a", 9092), ("b", 9092), ("c", 9092)


def metadata(
    brokers: dict[int, Address], leaders: dict[tuple[str, int], int], errors: dict[str, ErrorCode] | None = None
) -> MetadataResponse:
    topics: dict[str, MetadataResponseTopic] = {}
    for name, code in (errors or {}).items():
        topics[name] = MetadataResponseTopic(code, name)
    for (name, partition), leader in leaders.items():
        entry = topics.setdefault(name, MetadataResponseTopic(name=name))
        entry.partitions.append(MetadataResponsePartition(partition_index=partition, leader_id=leader, leader_epoch=7))
    nodes = [MetadataResponseBroker(node_id, *address) for node_id, address in brokers.items()]
    return MetadataResponse(brokers=nodes, topics=list(topics.values()))


def coordinator(node_id: int, address: Address, code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator("g", node_id, *address, code, "why")])


def test_what_is_asked_and_when() -> None:
    """testUpdateMetadataAllowedImmediatelyAfterBootstrap, testTimeToNextUpdate"""
    known = ClusterMetadata(1_000)
    assert known.topics_to_look_up(["t", "u"], 0) == ["t", "u"]
    known.metadata_received(metadata({1: A}, {("t", 0): 1}, {"u": ErrorCode.LEADER_NOT_AVAILABLE}), 500)
    assert known.topics_to_look_up(["t", "u", "v"], 500) == ["u", "v"], "an error is asked for again"
    assert known.topics_to_look_up(["t"], 1_500) == []
    assert known.topics_to_look_up(["t"], 1_501) == ["t"], "too old"
    known.forget_topic("t")
    assert known.topics_to_look_up(["t"], 500) == ["t"]
    assert known.leader("t", 0) is None


def test_all_topics_are_listed_as_of_the_newest_request_for_all() -> None:
    known = ClusterMetadata(1_000)
    assert known.must_look_up_all(0)
    known.metadata_received(metadata({1: A}, {("t", 0): 1}), 0)
    assert known.must_look_up_all(0), "one topic is not all"
    known.metadata_received(metadata({1: A}, {("t", 0): 1, ("u", 0): 1}), 0, is_all=True)
    known.metadata_received(metadata({1: A}, {("v", 0): 1}), 900)
    assert known.all_topics().keys() == {"t", "u"}
    assert (known.must_look_up_all(1_000), known.must_look_up_all(1_001)) == (False, True)


def test_brokers_are_asked_in_the_order_known_then_bootstrap() -> None:
    known = ClusterMetadata(1_000)
    assert known.addresses([A, B]) == [A, B]
    known.metadata_received(metadata({2: C, 1: A}, {}), 0)
    assert known.addresses([A, B]) == [C, A, B], "each once"
    known.metadata_received(metadata({1: B}, {}), 0)
    assert known.addresses([A]) == [B, A], "a broker that is no longer named is gone"
    assert known.address(2) is None


def test_a_response_without_brokers_leaves_those_known() -> None:
    """Kafka's clients ignore it; ours had only the bootstrap servers then, and no coordinator."""
    known = ClusterMetadata(1_000)
    known.metadata_received(metadata({1: A, 2: B}, {("t", 0): 2}), 0)
    known.coordinator_received("g", GROUP, coordinator(1, A))
    known.metadata_received(metadata({}, {}, {"t": ErrorCode.LEADER_NOT_AVAILABLE}), 10)
    assert (known.node_ids(), known.coordinator("g", GROUP)) == ([1, 2], 1)
    assert known.topics_to_look_up(["t"], 10) == ["t"]


@pytest.mark.parametrize(
    ("known_id", "known_epoch", "new_id", "new_epoch", "leader"),
    [
        (b"1" * 16, 7, b"1" * 16, 6, 1),  # of a broker that is behind
        (b"1" * 16, 7, b"1" * 16, 7, 2),
        (b"1" * 16, 7, b"1" * 16, 8, 2),
        (b"1" * 16, 7, b"1" * 16, -1, 2),  # the broker does not know epochs
        (b"1" * 16, 7, b"2" * 16, 0, 2),  # created again
        (bytes(16), 7, bytes(16), 0, 2),  # without ids it may have been
    ],
)
def test_stale_metadata(known_id: bytes, known_epoch: int, new_id: bytes, new_epoch: int, leader: int) -> None:
    """testStaleMetadata, testRejectOldMetadata: a leader of an older epoch does not replace a newer one. Without ids Kafka's
    clients keep the newer one too, and wait for a topic created again until its epoch is as high."""
    known = ClusterMetadata(1_000)
    for topic_id, epoch, node in ((known_id, known_epoch, 1), (new_id, new_epoch, 2)):
        response = metadata({1: A, 2: B}, {("t", 0): node})
        response.topics[0].topic_id, response.topics[0].partitions[0].leader_epoch = topic_id, epoch
        known.metadata_received(response, 0)
    assert known.leader("t", 0) == leader
    assert known.leader_epoch("t", 0) == (known_epoch if leader == 1 else new_epoch)


def test_a_leader_that_is_no_broker_has_no_address() -> None:
    known = ClusterMetadata(1_000)
    known.metadata_received(metadata({1: A}, {("t", 0): 1, ("t", 1): -1, ("t", 2): 9}), 0)
    assert [known.leader_address("t", p) for p in range(4)] == [A, None, None, None]
    assert [known.leader("t", p) for p in range(4)] == [1, -1, 9, None]
    assert [known.leader_epoch("t", p) for p in (0, 3)] == [7, -1]


def test_a_coordinator_is_kept_until_it_is_forgotten_or_its_broker_gone() -> None:
    known = ClusterMetadata(1_000)
    refused = known.coordinator_received("g", GROUP, coordinator(3, C, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert (refused.error_code, refused.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "why")
    assert known.coordinator("g", GROUP) is None
    assert known.address(3) is None, "an error names no broker"
    known.coordinator_received("g", GROUP, coordinator(3, C))
    assert (known.coordinator("g", GROUP), known.address(3)) == (3, C)
    assert known.coordinator("g", TRANSACTION) is None, "another kind"
    known.metadata_received(metadata({1: A}, {}), 0)
    assert known.coordinator("g", GROUP) is None
    old_shape = FindCoordinatorResponse(node_id=1, host="a", port=9092)
    assert known.coordinator_received("g", GROUP, old_shape).node_id == known.coordinator("g", GROUP) == 1
    known.forget_coordinator("g", GROUP)
    assert known.coordinator("g", GROUP) is None


# -- Kafka's MetadataTest by name ---------------------------------------------------------------------------------------

ID, OTHER_ID, NO_ID = b"1" * 16, b"2" * 16, bytes(16)
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Topic:
    """What a client learns of a topic with a partition, of which broker 1 is the leader until a test names another."""

    def __init__(self) -> None:
        self.known = ClusterMetadata(1_000)

    def received(
        self, epoch: int, topic_id: bytes = ID, leader: int = 1, brokers: tuple[int, ...] = (1, 2), **more: Any
    ) -> None:
        response = metadata({node: ("b", node) for node in brokers}, {("t", 0): leader})
        response.topics[0].topic_id, response.topics[0].partitions[0].leader_epoch = topic_id, epoch
        self.known.metadata_received(response, 0, **more)

    def failed(self, code: ErrorCode) -> None:
        self.known.metadata_received(metadata({1: A}, {}, {"t": code}), 0)

    @property
    def leader_and_epoch(self) -> tuple[int | None, int]:
        return self.known.leader("t", 0), self.known.leader_epoch("t", 0)


@pytest.mark.parametrize(
    ("history", "leader_and_epoch"),
    [
        ([(ID, 10), (None, 0), (OTHER_ID, 5)], (1, 5)),  # testEpochUpdateAfterTopicDeletion
        ([(ID, 10), (None, 0)], (None, 10)),
        ([(ID, 10), (None, 0), (ID, 9)], (-1, 10)),  # testRejectOldMetadata: a broker that is behind has it still
        ([(NO_ID, 100), (ID, 10)], (1, 10)),  # testEpochUpdateOnChangedTopicIds
        ([(NO_ID, 100), (ID, 10), (ID, 10)], (1, 10)),
        ([(ID, 10), (ID, 12)], (1, 12)),
        ([(ID, 12), (OTHER_ID, 3)], (1, 3)),
        ([(ID, 3), (OTHER_ID, 20)], (1, 20)),
        ([(ID, 10), (ID, 1)], (1, 10)),  # testUpdateLastEpoch
        ([(ID, -1)], (1, -1)),  # testNoEpoch
        ([(ID, 10), (ID, -1)], (1, -1)),
    ],
)
def test_the_newest_epoch_of_a_topic(
    history: list[tuple[bytes | None, int]], leader_and_epoch: tuple[int | None, int]
) -> None:
    """By the history of responses, (its id, the epoch), None where the topic is deleted."""
    topic = Topic()
    for topic_id, epoch in history:
        if topic_id is None:
            topic.failed(GONE)
        else:
            topic.received(epoch, topic_id)
    assert topic.leader_and_epoch == leader_and_epoch


def test_an_epoch_that_another_response_names() -> None:
    """testOutOfBandEpochUpdate, testUpdateLastEpoch, testRequestUpdate: a newer one means that the leader is to be looked up;
    metadata that is older is not taken."""
    topic = Topic()
    assert not topic.known.epoch_seen("t", 0, 99), "nothing is known of the topic"
    topic.received(100)
    for epoch in (100, 99, 42):
        assert not topic.known.epoch_seen("t", 0, epoch)
    assert topic.leader_and_epoch == (1, 100)
    assert topic.known.epoch_seen("t", 0, 101)
    assert topic.leader_and_epoch == (-1, 101)
    info = topic.known.topic("t")
    assert info is not None
    assert len(info.leaders) == 1, "how many partitions there are stays known"
    assert not topic.known.epoch_seen("t", 0, 101)
    topic.received(100)
    assert topic.leader_and_epoch == (-1, 101)
    topic.received(101, leader=2)
    assert topic.leader_and_epoch == (2, 101)


def test_without_an_epoch_none_is_taken_from_another_response() -> None:
    """testNoEpoch"""
    topic = Topic()
    topic.received(-1)
    assert not topic.known.epoch_seen("t", 0, 10)
    assert topic.leader_and_epoch == (1, -1)


@pytest.mark.parametrize("version", range(MetadataResponse.versions.first, MetadataResponse.versions.last + 1))
def test_epochs_of_old_versions_are_not_taken(version: int) -> None:
    """testIgnoreLeaderEpochInOlderMetadataResponse: before Kafka 2.4 they are wrong while a partition is reassigned."""
    topic = Topic()
    topic.received(10, version=version)
    assert topic.leader_and_epoch == (1, 10 if version >= 9 else -1)


def test_a_leader_that_the_newest_response_does_not_name_among_the_brokers() -> None:
    """testLeaderMetadataInconsistentWithBrokerMetadata: the broker that comes online and is elected, seen in reverse."""
    topic = Topic()
    topic.received(10, leader=1, brokers=(1, 2, 3))
    topic.received(8, leader=2, brokers=(2, 3))
    assert topic.known.leader_epoch("t", 0) == 10
    assert topic.known.leader_address("t", 0) is None


def test_an_error_is_of_its_topic_until_the_next_response() -> None:
    """testMetadataTopicErrors, testInvalidTopicError, testTopicAuthorizationError"""
    errors = {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "u": ErrorCode.INVALID_TOPIC_EXCEPTION}
    known = ClusterMetadata(1_000)
    known.metadata_received(metadata({1: A}, {("v", 0): 1}, errors), 0)
    for name, code in [*errors.items(), ("v", ErrorCode.NONE)]:
        info = known.topic(name)
        assert info is not None
        assert info.error == code
    known.metadata_received(metadata({1: A}, {("t", 0): 1}), 0)
    assert known.topics_to_look_up("tuv", 0) == ["u"]
    assert known.leader("t", 0) == 1


def test_topics_of_several_responses() -> None:
    """testMetadataMerge, testClusterCopy: each topic as the newest response that names it, with its error; the brokers as the
    newest response. testMetadataMergeOnIdDowngrade: a topic may have lost its id."""
    known = ClusterMetadata(1_000)
    first = metadata({1: A, 2: B}, {("t", 0): 1, ("t", 1): 2, ("u", 0): 1}, {"x": ErrorCode.INVALID_TOPIC_EXCEPTION})
    first.topics[1].topic_id, first.topics[2].topic_id = ID, OTHER_ID
    known.metadata_received(first, 0)
    assert known.topic_names([ID, OTHER_ID]) == {ID: "t", OTHER_ID: "u"}
    second = metadata({1: A, 2: B, 3: C}, {("t", 0): 1, ("v", 0): 3}, {"u": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    known.metadata_received(second, 0)
    assert known.node_ids() == [1, 2, 3]
    infos = {name: known.topic(name) for name in "tuvxy"}
    assert {name: (list(info.leaders), info.error) for name, info in infos.items() if info is not None} == {
        "t": ([0], ErrorCode.NONE),
        "u": ([], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        "v": ([0], ErrorCode.NONE),
        "x": ([], ErrorCode.INVALID_TOPIC_EXCEPTION),
    }
    assert known.topics_to_look_up("tuvxy", 0) == ["u", "x", "y"]
    assert known.topic_names([ID, OTHER_ID]) == {}


NODES = st.dictionaries(st.integers(0, 4), st.sampled_from([A, B, C]), max_size=4)
LEADERS = st.dictionaries(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), st.integers(-1, 5), max_size=4)
MOVES = st.one_of(
    st.tuples(st.just("metadata"), NODES, LEADERS),
    st.tuples(st.just("coordinator"), st.integers(0, 4), st.sampled_from([0, 15])),
    st.tuples(st.just("forget"), st.sampled_from("tu")),
    st.tuples(st.just("forget leaders")),
)


@given(st.lists(MOVES, max_size=20))
def test_beside_a_history(moves: list[tuple[Any, ...]]) -> None:
    """The newest response about each thing holds, whatever came before it."""
    known = ClusterMetadata(10_000)
    brokers: dict[int, Address] = {}
    leaders: dict[str, dict[int, int]] = {}
    coordinating: int | None = None
    for now_ms, move in enumerate(moves):
        match move:
            case ("metadata", nodes, named):
                known.metadata_received(metadata(nodes, named), now_ms)
                brokers = dict(nodes) or brokers
                leaders |= {topic: {p: n for (t, p), n in named.items() if t == topic} for topic, _ in named}
            case ("coordinator", node_id, code):
                known.coordinator_received("g", GROUP, coordinator(node_id, C, code))
                if not code:
                    brokers[node_id], coordinating = C, node_id
            case ("forget", topic):
                known.forget_topic(topic)
                leaders.pop(topic, None)
            case _:
                known.forget_leaders()
                leaders, coordinating = {}, None
        assert known.node_ids() == sorted(brokers)
        assert known.coordinator("g", GROUP) == (coordinating if coordinating in brokers else None)
        assert known.topics_to_look_up(["t", "u"], now_ms) == [t for t in "tu" if t not in leaders]
        for topic in "tu":
            for partition in range(3):
                node = leaders.get(topic, {}).get(partition)
                assert known.leader(topic, partition) == node
                assert known.leader_address(topic, partition) == (None if node is None else brokers.get(node))
