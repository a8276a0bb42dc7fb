"""Range and round robin: the articles' worked examples (A1), Kafka's own cases, and what must hold on any input."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.assignors import ASSIGNORS, assign_range, assign_round_robin
from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.assignors.subscription import Assignment, Subscriber, in_order
from coterie.wire.primitives import WireError


def subscriber(member_id: str, topics: str, instance: str | None = None) -> Subscriber:
    return Subscriber(member_id, frozenset(topics.split()), instance)


def shown(assignment: Assignment) -> dict[str, str]:
    return {m: " ".join(f"{t}-{p}" for t in sorted(owned) for p in owned[t]) for m, owned in assignment.items()}


def test_range_the_articles_example() -> None:
    got = assign_range({"t0": 3, "t1": 3}, [subscriber("C0", "t0 t1"), subscriber("C1", "t0 t1")])
    assert shown(got) == {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"}


def test_round_robin_the_articles_example() -> None:
    members = [subscriber("C0", "t0"), subscriber("C1", "t0 t1"), subscriber("C2", "t0 t1 t2")]
    got = assign_round_robin({"t0": 1, "t1": 2, "t2": 3}, members)
    assert shown(got) == {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"}


@pytest.mark.parametrize("name", ASSIGNORS)
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
    assert shown(ASSIGNORS[name](counts, [subscriber(m, t) for m, t in members.items()])) == expected, case


def test_two_consumers_two_topics_six_partitions() -> None:
    """testTwoConsumersTwoTopicsSixPartitions, testTwoDynamicConsumersTwoTopicsSixPartitions"""
    members = [subscriber("c1", "t1 t2"), subscriber("c2", "t1 t2")]
    counts = {"t1": 3, "t2": 3}
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
    assert shown(assign_range({"t1": 3}, [dynamic, two, one])) == {"b": "t1-2", "a": "t1-1", "z": "t1-0"}


def test_a_static_member_keeps_its_partitions_under_a_new_member_id() -> None:
    """testStaticMemberRangeAssignmentPersistentAfterMemberIdChanges,
    testStaticMemberRoundRobinAssignmentPersistentAfterMemberIdChanges"""
    for assign in ASSIGNORS.values():
        before = assign({"t": 5, "u": 5}, [subscriber(f"m{n}", "t u", f"i{n}") for n in range(3)])
        after = assign({"t": 5, "u": 5}, [subscriber(f"x{9 - n}", "t u", f"i{n}") for n in range(3)])
        assert [before[f"m{n}"] for n in range(3)] == [after[f"x{9 - n}"] for n in range(3)]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), max_size=6),
    st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1, max_size=8),
    st.sampled_from(sorted(ASSIGNORS)),
)
def test_on_any_input(counts: dict[str, int], topics: list[frozenset[str]], name: str) -> None:
    members = [Subscriber(f"m{n}", t) for n, t in enumerate(topics)]
    assignment = ASSIGNORS[name](counts, members)
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


def test_blobs_round_trip_and_newer_versions_are_read() -> None:
    data = encode_subscription({"b", "a"}, [("a", 1), ("a", 0)], 7, "rack-1")
    read = decode_subscription(data, "m", "i")
    assert read == Subscriber("m", frozenset({"a", "b"}), "i", (("a", 0), ("a", 1)), 7, "rack-1")
    newer = b"\x00\x09" + data[2:] + b"what a later version adds"
    assert decode_subscription(newer, "m", "i") == read
    assert decode_assignment(encode_assignment({"t": [2, 1]})) == [("t", 2), ("t", 1)]
    assert decode_assignment(b"") == []
    for bad in (b"\x00", b"\xff\xff", b"\x00\x03\x7f\xff\xff\xff"):
        with pytest.raises(WireError):
            decode_assignment(bad)
