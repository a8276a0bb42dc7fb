"""Range and round robin: the articles' worked examples (A1), Kafka's own cases, and what must hold on any input."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.assignors import (
    ASSIGNORS,
    AssignableTopics,
    RebalanceProtocol,
    assign_range,
    assign_round_robin,
    protocol_of,
)
from coterie.assignors.assignor import Subscriber, in_order, racks_matter
from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from coterie.wire.primitives import WireError
from tests.assignors.groups import shown


def subscriber(member_id: str, topics: str, instance: str | None = None) -> Subscriber:
    return Subscriber(member_id, frozenset(topics.split()), instance)


def test_range_the_articles_example() -> None:
    got = assign_range(AssignableTopics({"t0": 3, "t1": 3}), [subscriber("C0", "t0 t1"), subscriber("C1", "t0 t1")])
    assert shown(got) == {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"}


def test_round_robin_the_articles_example() -> None:
    members = [subscriber("C0", "t0"), subscriber("C1", "t0 t1"), subscriber("C2", "t0 t1 t2")]
    got = assign_round_robin(AssignableTopics({"t0": 1, "t1": 2, "t2": 3}), members)
    assert shown(got) == {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@pytest.mark.parametrize(
    ("case", "counts", "members", "expected"),
    [
        ("testOneConsumerNoTopic", {"t1": 3}, {"c": ""}, {"c": ""}),
        ("testOneConsumerNonexistentTopic", {}, {"c": "t1"}, {"c": ""}),
        ("testOneConsumerOneTopic", {"t1": 3}, {"c": "t1"}, {"c": "t1-0 t1-1 t1-2"}),
        ("testOnlyAssignsPartitionsFromSubscribedTopics", {"t1": 3, "x": 3}, {"c": "t1"}, {"c": "t1-0 t1-1 t1-2"}),
        ("testOneConsumerMultipleTopics", {"t1": 1, "t2": 2}, {"c": "t1 t2"}, {"c": "t1-0 t2-0 t2-1"}),
        ("testTwoConsumersOneTopicOnePartition", {"t1": 1}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": ""}),
        ("testTwoConsumersOneTopicTwoPartitions", {"t1": 2}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": "t1-1"}),
        (
            "testMultipleConsumersMixedTopics",
            {"t1": 3, "t2": 2},
            {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
            {"c1": "t1-0", "c2": "t1-1 t2-0 t2-1", "c3": "t1-2"},
        ),
    ],
)
def test_kafkas_cases_for_both(
    name: str, case: str, counts: dict[str, int], members: dict[str, str], expected: dict[str, str]
) -> None:
    subscribers = [subscriber(m, t) for m, t in members.items()]
    assert shown(ASSIGNORS[name].assign(AssignableTopics(counts), subscribers)) == expected, case


def test_two_consumers_two_topics_six_partitions() -> None:
    """testTwoConsumersTwoTopicsSixPartitions, testTwoDynamicConsumersTwoTopicsSixPartitions"""
    members = [subscriber("c1", "t1 t2"), subscriber("c2", "t1 t2")]
    counts = AssignableTopics({"t1": 3, "t2": 3})
    assert shown(assign_range(counts, members)) == {"c1": "t1-0 t1-1 t2-0 t2-1", "c2": "t1-2 t2-2"}
    assert shown(assign_round_robin(counts, members)) == {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"}


def test_static_members_come_first_by_instance_id() -> None:
    """testTwoStaticConsumersTwoTopicsSixPartitions, testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions,
    testMemberInfoSortingWithoutGroupInstanceId, testMemberInfoSortingWithAllGroupInstanceId,
    testMemberInfoSortingSomeGroupInstanceId, testMergeSortManyMemberInfo"""
    one, two, dynamic = subscriber("z", "t1", "i1"), subscriber("a", "t1", "i2"), subscriber("b", "t1")
    assert in_order([dynamic, two, one]) == [one, two, dynamic]
    many = [subscriber(f"m{n:03}", "t", f"i{n:03}" if n % 2 else None) for n in range(100)]
    shuffled = many[:]
    random.Random(1).shuffle(shuffled)
    assert in_order(shuffled) == in_order(many)
    assert shown(assign_range(AssignableTopics({"t1": 3}), [dynamic, two, one])) == {
        "b": "t1-2",
        "a": "t1-1",
        "z": "t1-0",
    }


def test_a_static_member_keeps_its_partitions_under_a_new_member_id() -> None:
    """testStaticMemberRangeAssignmentPersistentAfterMemberIdChanges,
    testStaticMemberRoundRobinAssignmentPersistentAfterMemberIdChanges"""
    topics = AssignableTopics({"t": 5, "u": 5})
    for assign in (assign_range, assign_round_robin):
        before = assign(topics, [subscriber(f"m{n}", "t u", f"i{n}") for n in range(3)])
        after = assign(topics, [subscriber(f"x{9 - n}", "t u", f"i{n}") for n in range(3)])
        assert [before[f"m{n}"] for n in range(3)] == [after[f"x{9 - n}"] for n in range(3)]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), max_size=6),
    st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1, max_size=8),
    st.sampled_from(["range", "roundrobin"]),
)
def test_on_any_input(counts: dict[str, int], topics: list[frozenset[str]], name: str) -> None:
    members = [Subscriber(f"m{n}", t) for n, t in enumerate(topics)]
    assignment = ASSIGNORS[name].assign(AssignableTopics(counts), members)
    assert set(assignment) == {m.member_id for m in members}
    given_out = [(t, p) for owned in assignment.values() for t, ps in owned.items() for p in ps]
    subscribed = {t for m in members for t in m.topics}
    assert sorted(given_out) == sorted((t, p) for t, n in counts.items() if t in subscribed for p in range(n))
    for member in members:
        assert set(assignment[member.member_id]) <= member.topics
    if name == "range":
        for topic in counts:
            sizes = [len(assignment[m.member_id].get(topic, [])) for m in members if topic in m.topics]
            assert not sizes or max(sizes) - min(sizes) <= 1


def test_static_members_keep_theirs_when_a_dynamic_one_is_replaced() -> None:
    """testStaticMemberRangeAssignmentPersistent, testStaticMemberRoundRobinAssignmentPersistent"""
    for assign, topics in (
        (assign_range, AssignableTopics({"t1": 5, "t2": 4})),
        (assign_round_robin, AssignableTopics({"t1": 3, "t2": 3})),
    ):
        static = [subscriber(f"c{n}", "t1 t2", f"i{n}") for n in (1, 2, 3)]
        before = shown(assign(topics, [*static, subscriber("c4", "t1 t2")]))
        after = shown(assign(topics, [*static, subscriber("c5", "t1 t2")]))
        assert before.pop("c4") == after.pop("c5")
        assert before == after
    assert shown(assign_range(AssignableTopics({"t1": 5, "t2": 4}), [*static, subscriber("c4", "t1 t2")])) == {
        "c1": "t1-0 t1-1 t2-0",
        "c2": "t1-2 t2-1",
        "c3": "t1-3 t2-2",
        "c4": "t1-4 t2-3",
    }


# -- racks (KIP-881); compared with Apache Kafka's classes by `./run conformance` ---------------------------------------------


def near(counts: dict[str, int], racks: list[set[str]]) -> AssignableTopics:
    """Partition n of every topic on the n-th set of racks, over and over."""
    return AssignableTopics(
        counts, {t: [frozenset(racks[p % len(racks)]) for p in range(n)] for t, n in counts.items()}
    )


def test_when_racks_matter() -> None:
    """testUseRackAwareAssignment"""
    one, two, everywhere = frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})
    members = [Subscriber("c", frozenset({"t"}), rack="a")]
    assert racks_matter(members, [one, two])
    assert not racks_matter(members, [everywhere, everywhere])
    assert not racks_matter(members, [two, frozenset()])
    assert not racks_matter(members, [])
    assert not racks_matter([Subscriber("c", frozenset({"t"}))], [one, two])


def test_range_by_rack() -> None:
    """testRackAwareAssignmentWithUniformSubscription, testRackAwareAssignmentWithNonEqualSubscription"""
    racks = [{"a"}, {"b"}, {"c"}]
    members = [Subscriber(f"c{n}", frozenset({"t1"}), rack="cab"[n]) for n in range(3)]
    got = assign_range(near({"t1": 6}, racks), members)
    assert shown(got) == {"c0": "t1-2 t1-5", "c1": "t1-0 t1-3", "c2": "t1-1 t1-4"}
    plain = assign_range(AssignableTopics({"t1": 6}), members)
    assert assign_range(near({"t1": 6}, [{"a", "b", "c"}]), members) == plain
    assert assign_range(near({"t1": 6}, [{"x"}]), members) == plain
    uneven = [*members[:2], Subscriber("c2", frozenset({"t1", "t2"}), rack="b")]
    got = assign_range(near({"t1": 6, "t2": 3}, racks), uneven)
    assert shown(got)["c2"] == "t1-1 t1-4 t2-0 t2-1 t2-2"


def test_co_partitioning_goes_before_closeness() -> None:
    """testRackAwareAssignmentWithUniformPartitions, testRackAwareAssignmentWithUniformPartitionsNonEqualSubscription,
    testRackAwareAssignmentWithCoPartitioning, testCoPartitionedAssignmentWithSameSubscription"""
    counts = {"t1": 3, "t2": 3, "t3": 3}
    members = [Subscriber(f"c{n}", frozenset(counts), rack="bca"[n]) for n in range(3)]
    got = assign_range(near(counts, [{"a"}, {"b"}, {"c"}]), members)
    assert shown(got) == {"c0": "t1-1 t2-1 t3-1", "c1": "t1-2 t2-2 t3-2", "c2": "t1-0 t2-0 t3-0"}
    crossed = AssignableTopics(
        counts, {t: [frozenset("abc"[(p + n) % 3]) for p in range(3)] for n, t in enumerate(counts)}
    )
    got = assign_range(crossed, members)
    for owned in got.values():
        assert len({tuple(ps) for ps in owned.values()}) == 1, "the same numbers of every topic"


def test_static_members_keep_theirs_by_rack_under_new_member_ids() -> None:
    """testRackAwareStaticMemberRangeAssignmentPersistentAfterMemberIdChanges"""
    topics = near({"t1": 5, "t2": 5}, [{"a"}, {"b"}, {"c"}])
    before = assign_range(
        topics, [Subscriber(f"m{n}", frozenset({"t1", "t2"}), f"i{n}", rack="abc"[n]) for n in range(3)]
    )
    after = assign_range(
        topics, [Subscriber(f"x{9 - n}", frozenset({"t1", "t2"}), f"i{n}", rack="abc"[n]) for n in range(3)]
    )
    assert [before[f"m{n}"] for n in range(3)] == [after[f"x{9 - n}"] for n in range(3)]


# -- choosing --------------------------------------------------- -----------------------------------------


def test_the_highest_protocol_that_all_share() -> None:
    """testSelectRebalanceProtcol, testSelectRebalanceProtocol"""
    eager, cooperative = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE
    assert protocol_of(("range",)) == eager
    assert protocol_of(("cooperative-sticky",)) == cooperative
    assert protocol_of(("cooperative-sticky", "range")) == eager
    assert protocol_of(("sticky", "roundrobin")) == eager


# -- the bytes (ConsumerProtocolTest) --------------------------- -----------------------------------------


def test_blobs_round_trip_and_newer_versions_are_read() -> None:
    data = encode_subscription({"b", "a"}, {"a": [1, 0]}, 7, "rack-1")
    read = decode_subscription(data, "m", "i")
    assert read == Subscriber("m", frozenset({"a", "b"}), "i", {"a": (0, 1)}, 7, "rack-1")
    newer = b"\x00\x09" + data[2:] + b"what a later version adds"
    assert decode_subscription(newer, "m", "i") == read
    assert decode_assignment(encode_assignment({"t": [2, 1]})) == [("t", 2), ("t", 1)]
    assert decode_assignment(b"") == []
    for bad in (b"\x00", b"\xff\xff", b"\x00\x03\x7f\xff\xff\xff"):
        with pytest.raises(WireError):
            decode_assignment(bad)


@pytest.mark.parametrize("version", range(4))
def test_every_version_back_and_forth(version: int) -> None:
    """serializeDeserializeMetadata, serializeDeserializeMetadataAndGroupInstanceId,
    serializeDeserializeNullSubscriptionUserData, deserializeOldSubscriptionVersion,
    serializeDeserializeSubscriptionAllVersions, serializeDeserializeConsumerProtocolSubscriptionAllVersions"""
    for user_data in (None, b"some"):
        data = encode_subscription({"t"}, {"t": [0]}, 5, "r", user_data, version)
        read = decode_subscription(data, "m", "i")
        assert (read.topics, read.user_data, read.group_instance_id) == (frozenset({"t"}), user_data, "i")
        assert read.owned == ({"t": (0,)} if version >= 1 else {})
        assert read.generation == (5 if version >= 2 else -1)
        assert read.rack == ("r" if version >= 3 else None)
    assert b"i" not in encode_subscription({"t"}), "the instance id is not in the bytes"


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_an_assignment(version: int) -> None:
    """serializeDeserializeAssignment, deserializeNullAssignmentUserData, serializeDeserializeAssignmentAllVersions,
    serializeDeserializeConsumerProtocolAssignmentAllVersions, deserializeFutureAssignmentVersion"""
    message = ConsumerProtocolAssignment([], None)
    assert ConsumerProtocolAssignment.decode(message.encode(version), version).user_data is None
    data = encode_assignment({"t": [0, 1]})
    assert decode_assignment(bytes([0, version]) + data[2:]) == [("t", 0), ("t", 1)]
    assert decode_assignment(b"\x01\x00" + data[2:] + b"more") == [("t", 0), ("t", 1)]


def test_an_old_reader_cuts_off_what_it_does_not_know() -> None:
    """deserializeNewSubscriptionWithOldVersion, deserializeFutureSubscriptionVersion"""
    data = encode_subscription({"t"}, {"t": [0]}, 5, "r", version=1)
    old = ConsumerProtocolSubscription.decode(data, 0, 2)
    assert (old.topics, old.owned_partitions) == (["t"], [])
    assert decode_subscription(b"\x00\x64" + encode_subscription({"t"}, {"t": [0]})[2:] + b"more").owned == {"t": (0,)}


def test_equal_subscriptions_are_equal_bytes() -> None:
    """serializeSubscriptionShouldOrderTopics, serializeSubscriptionShouldOrderOwnedPartitions"""
    one = encode_subscription(["b", "a"], {"b": [2, 1], "a": [0]})
    assert one == encode_subscription(["a", "b"], {"a": [0], "b": [1, 2]})
