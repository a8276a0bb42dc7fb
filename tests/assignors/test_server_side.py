"""The broker's assignors of consumer groups. Names are those of RangeAssignorTest, UniformHomogeneousAssignmentBuilderTest and
UniformHeterogeneousAssignmentBuilderTest of Apache Kafka 4.3; the properties ask every small group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coterie.assignors.server_side import SERVER_ASSIGNORS, assign_server_range, assign_uniform

MOST_ASSIGNMENTS = 1_500


@dataclass(frozen=True)
class Topic:
    partitions: int


@dataclass(frozen=True)
class Member:
    member_id: str
    topics: frozenset[bytes]
    target: frozenset[tuple[bytes, int]] = frozenset()
    instance_id: str | None = None


def member(name: str, topics: str, target: str = "", instance: str | None = None) -> Member:
    """Topics as "a b", the last target as "a-0 b-1"."""
    return Member(name, frozenset(map(str.encode, topics.split())), partitions(target), instance)


def partitions(text: str) -> frozenset[tuple[bytes, int]]:
    return frozenset((item[:-2].encode(), int(item[-1])) for item in text.split())


def topics(**counts: int) -> dict[bytes, Topic]:
    return {name.encode(): Topic(count) for name, count in counts.items()}


def shown(target: Mapping[str, frozenset[tuple[bytes, int]]]) -> dict[str, str]:
    return {name: " ".join(f"{t.decode()}-{p}" for t, p in sorted(given)) for name, given in target.items()}


def in_order(members: list[Member], counts: dict[bytes, Topic]) -> dict[str, str]:
    return shown(assign_server_range(members, counts))


# -- range -----------------------------------------------------------------------------------------------------------------


def test_range_without_topics() -> None:
    """testOneMemberNoTopic, testOneMemberSubscribedToNonExistentTopic: Kafka refuses a topic that does not exist, which no
    subscription in a target assignment names."""
    assert in_order([], topics(a=3)) == {}
    assert in_order([member("A", "")], topics(a=3)) == {"A": ""}
    assert in_order([member("A", "gone")], topics(a=3)) == {"A": ""}


def test_range_first_assignment() -> None:
    """testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions,
    testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions, testFirstAssignmentNumMembersGreaterThanNumPartitions"""
    two = [member("B", "a c"), member("A", "a c")]
    assert in_order(two, topics(a=3, c=2)) == {"A": "a-0 a-1 c-0", "B": "a-2 c-1"}
    three = [member("A", "a b"), member("B", "c"), member("C", "b c")]
    assert in_order(three, topics(a=3, b=3, c=2)) == {"A": "a-0 a-1 a-2 b-0 b-1", "B": "c-0", "C": "b-2 c-1"}
    crowd = [member(name, "a c") for name in "ABC"]
    assert in_order(crowd, topics(a=3, c=2)) == {"A": "a-0 c-0", "B": "a-1 c-1", "C": "a-2"}


def test_range_with_static_members() -> None:
    """testStaticMembership, testMixedStaticMembership: static members come first, by instance id; a new member id changes
    nothing."""
    static = [member("A", "a b", instance="i1"), member("B", "a b", instance="i2")]
    renamed = [member("Z", "a b", instance="i1"), member("B", "a b", instance="i2")]
    counts = topics(a=3, b=3)
    assert in_order(static, counts) == {"A": "a-0 a-1 b-0 b-1", "B": "a-2 b-2"}
    assert in_order(renamed, counts) == {"Z": "a-0 a-1 b-0 b-1", "B": "a-2 b-2"}
    mixed = [member("A", "a"), member("B", "a", instance="i9")]
    assert in_order(mixed, topics(a=3)) == {"B": "a-0 a-1", "A": "a-2"}


def test_range_reassignments() -> None:
    """testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded,
    testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics,
    testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics,
    testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics,
    testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics,
    testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics: the last target does
    not count."""
    had = [member("A", "a b", "a-0 b-0"), member("B", "a b", "a-1 b-1")]
    added = [*had, member("C", "a b")]
    assert in_order(added, topics(a=2, b=2)) == {"A": "a-0 b-0", "B": "a-1 b-1", "C": ""}
    assert in_order(had, topics(a=4, b=3)) == {"A": "a-0 a-1 b-0 b-1", "B": "a-2 a-3 b-2"}
    assert in_order(added, topics(a=4, b=3)) == {"A": "a-0 a-1 b-0", "B": "a-2 b-1", "C": "a-3 b-2"}
    assert in_order(had[1:], topics(a=3, b=3)) == {"B": "a-0 a-1 a-2 b-0 b-1 b-2"}
    fewer = [member("A", "b"), member("B", "a b c"), member("C", "c")]
    assert in_order(fewer, topics(a=3, b=3, c=2)) == {"A": "b-0 b-1", "B": "a-0 a-1 a-2 b-2 c-0", "C": "c-1"}


# -- uniform, by example -----------------------------------------------------------------------------------------------------


def test_uniform_without_topics() -> None:
    """testOneMemberNoTopicSubscription, testOneMemberSubscribedToNonexistentTopic, testTwoMembersNoTopicSubscription,
    testTwoMembersSubscribedToNonexistentTopics"""
    assert assign_uniform([], topics(a=3)) == {}
    two = [member("A", ""), member("B", "")]
    assert shown(assign_uniform(two, topics(a=3))) == {"A": "", "B": ""}
    assert shown(assign_uniform([member("A", "gone")], topics(a=3))) == {"A": ""}
    mixed = [member("A", "gone"), member("B", "a")]
    assert shown(assign_uniform(mixed, topics(a=2))) == {"A": "", "B": "a-0 a-1"}


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [
        pytest.param(
            [member("A", "a b", "a-0 a-1 b-0"), member("B", "a b", "a-2 b-1 b-2")],
            topics(a=6, b=5),
            {"A": "a-0 a-1 b-0", "B": "a-2 b-1 b-2"},
            id="testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "a b", "a-0 b-0"), member("B", "a b", "a-1 b-1"), member("C", "a b")],
            topics(a=3, b=3),
            {"A": "a-0 b-0", "B": "a-1 b-1"},
            id="testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "a b", "a-0 b-0"), member("B", "a b", "a-1 b-1")],
            topics(a=3, b=3),
            {"A": "a-0 b-0", "B": "a-1 b-1"},
            id="testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "b", "a-0 b-0"), member("B", "b", "a-1 b-1")],
            topics(a=2, b=2),
            {"A": "b-0", "B": "b-1"},
            id="testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "a c", "a-0 a-1"), member("B", "a b c", "b-0"), member("C", "c")],
            topics(a=2, b=1, c=1),
            {"B": "b-0", "C": "c-0"},
            id="testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions",
        ),
    ],
)
def test_uniform_keeps(members: list[Member], counts: dict[bytes, Topic], expected: dict[str, str]) -> None:
    """What must be among each member's partitions, whatever it gets beside."""
    target = assign_uniform(members, counts)
    assert all(partitions(kept) <= target[name] for name, kept in expected.items()), shown(target)
    check(members, counts, target)


@pytest.mark.parametrize(
    ("members", "counts", "loads"),
    [
        pytest.param(
            [member("A", "a c"), member("B", "a c")],
            topics(a=3, c=2),
            [2, 3],
            id="testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks",
        ),
        pytest.param(
            [member(name, "c") for name in "ABC"],
            topics(c=2),
            [0, 1, 1],
            id="testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
        ),
        pytest.param(
            [member("A", "a c"), member("B", "c")],
            topics(a=3, c=6),
            [4, 5],
            id="testFirstAssignmentTwoMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "c"), member("B", "c"), member("C", "a")],
            topics(a=2, c=1),
            [0, 1, 2],
            id="testFirstAssignmentNumMembersGreaterThanTotalNumPartitions of different subscriptions",
        ),
        pytest.param(
            [member("A", "a"), member("B", "")],
            topics(a=3),
            [0, 3],
            id="testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions",
        ),
    ],
)
def test_uniform_first_assignment(members: list[Member], counts: dict[bytes, Topic], loads: list[int]) -> None:
    """As balanced as Kafka's; which of two members that could have a partition gets it differs."""
    target = assign_uniform(members, counts)
    check(members, counts, target)
    assert sorted(map(len, target.values())) == loads


@pytest.mark.parametrize(
    ("members", "counts", "loads"),
    [
        pytest.param(
            [
                member("A", "a c", "a-0 a-1 a-2 a-3 c-0 c-1"),
                member("B", "a b c d", "b-0 b-1 b-2 d-0 d-1 d-2"),
            ],
            topics(a=6, b=5, c=3, d=3),
            {"A": 9, "B": 8},
            id="testReassignmentWhenPartitionsAreAddedForTwoMembers",
        ),
        pytest.param(
            [
                member("A", "a", "a-0 a-2 b-0"),
                member("B", "a b", "a-1 b-1 b-2"),
                member("C", "a b"),
            ],
            topics(a=6, b=7),
            {"A": 5, "B": 4, "C": 4},
            id="testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics",
        ),
        pytest.param(
            [member("A", "a c", "a-0 a-1 a-2 c-0 c-1"), member("B", "b", "b-3 b-4 b-5 b-6")],
            topics(a=3, b=8, c=3),
            {"A": 6, "B": 8},
            id="testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics",
        ),
    ],
)
def test_uniform_adds_to_what_members_have(
    members: list[Member], counts: dict[bytes, Topic], loads: dict[str, int]
) -> None:
    """Partitions of the topics that a member still subscribes to stay with it."""
    target = assign_uniform(members, counts)
    check(members, counts, target)
    assert {name: len(given) for name, given in target.items()} == loads
    assert all({p for p in m.target if p[0] in m.topics} <= target[m.member_id] for m in members)


def test_uniform_moves_what_is_too_much() -> None:
    """testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment,
    testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment"""
    equal = [member("A", "a b", "a-0 a-1 a-2 b-0"), member("B", "a b", "b-1")]
    target = assign_uniform(equal, topics(a=3, b=3))
    assert [len(given) for given in target.values()] == [3, 3]
    assert len(equal[0].target - target["A"]) == 1
    unequal = [member("A", "a b c", "a-0 a-1 a-2 b-0 b-1"), member("B", "b c", "")]
    target = assign_uniform(unequal, topics(a=3, b=2, c=1))
    assert {name: len(given) for name, given in target.items()} == {"A": 3, "B": 3}
    assert partitions("a-0 a-1 a-2") == target["A"]


@pytest.mark.parametrize(
    ("members", "counts", "moves"),
    [
        pytest.param(
            [
                member("A", "a b", "b-1 b-5"),
                member("B", "a b", "a-0 b-0 b-2 b-3"),
                member("C", "b"),
                member("D", "a b", instance="i71"),
                member("E", "", instance="i55"),
            ],
            topics(a=4, b=6),
            1,
            id="over one member",
        ),
        pytest.param(
            [
                member("A", "b c d e", "a-1 b-2 b-3 c-1 c-2 d-1 d-4 d-7 e-1", instance="i1"),
                member("B", "d e", "c-0 c-4 d-2", instance="i2"),
                member("C", "a c e", "a-0 b-0 c-3 d-3 d-6 e-0 e-2 e-3", instance="i3"),
            ],
            topics(a=2, b=4, c=5, d=9, e=4),
            2,
            id="loads swapped",
        ),
    ],
)
def test_uniform_moves_least(members: list[Member], counts: dict[bytes, Topic], moves: int) -> None:
    """Groups for which Kafka moved one partition fewer until exchanges in a circle were searched for."""
    target = assign_uniform(members, counts)
    check(members, counts, target)
    assert cost(members, {p: name for name, given in target.items() for p in given})[1] == moves


def test_a_large_group_is_balanced() -> None:
    """testValidityAndBalanceForLargeSampleSet"""
    members = [member(f"m{n:03}", "a b c d") for n in range(100)]
    counts = topics(a=300, b=300, c=300, d=301)
    first = assign_uniform(members, counts)
    assert sorted({len(given) for given in first.values()}) == [12, 13]
    left = [Member(m.member_id, m.topics, first[m.member_id]) for m in members[1:]]
    second = assign_uniform(left, counts)
    assert sorted({len(given) for given in second.values()}) == [12, 13]
    assert sum(len(m.target - second[m.member_id]) for m in left) == 0


# -- uniform, every small group ------------------------------------------------------------------------------------------------


def check(
    members: list[Member], counts: dict[bytes, Topic], target: Mapping[str, frozenset[tuple[bytes, int]]]
) -> None:
    """Every partition that has a subscriber has one owner, who subscribes to it."""
    subscribed = {t for m in members for t in m.topics if t in counts}
    everything = [(t, p) for t in subscribed for p in range(counts[t].partitions)]
    assert sorted(p for given in target.values() for p in given) == sorted(everything)
    assert all(t in m.topics for m in members for t, _ in target[m.member_id])


def cost(members: list[Member], owners: Mapping[tuple[bytes, int], str]) -> tuple[int, int]:
    """Squares of loads, and partitions that left a subscribed owner."""
    loads = {m.member_id: 0 for m in members}
    for owner in owners.values():
        loads[owner] += 1
    moved = sum(owners.get(p, m.member_id) != m.member_id for m in members for p in m.target if p[0] in m.topics)
    return sum(load**2 for load in loads.values()), moved


@st.composite
def small_groups(draw: st.DrawFn) -> tuple[list[Member], dict[bytes, Topic]]:
    """Few enough members and partitions to try every assignment."""
    names = [b"a", b"b", b"c"][: draw(st.integers(1, 3))]
    counts = {name: Topic(draw(st.integers(1, 3))) for name in names}
    same = draw(st.integers(0, 3)) == 0
    topics_of = st.just(frozenset(names)) if same else st.frozensets(st.sampled_from(names))
    subscriptions = draw(st.lists(topics_of, min_size=1, max_size=4))
    owners = {
        (t, p): draw(st.none() | st.integers(0, len(subscriptions) - 1))
        for t in names
        for p in range(counts[t].partitions)
    }
    members = [
        Member(f"m{n}", subscribed, frozenset(p for p, owner in owners.items() if owner == n))
        for n, subscribed in enumerate(subscriptions)
    ]
    return members, counts


@given(small_groups())
def test_no_assignment_is_better(group: tuple[list[Member], dict[bytes, Topic]]) -> None:
    """Against all that exist: none is better balanced, and none as well balanced moves fewer partitions."""
    members, counts = group
    target = assign_uniform(members, counts)
    check(members, counts, target)
    ours = cost(members, {p: name for name, given in target.items() for p in given})
    takers = {
        (t, p): takers
        for t, topic in counts.items()
        if (takers := [m.member_id for m in members if t in m.topics])
        for p in range(topic.partitions)
    }
    assume(math.prod(map(len, takers.values())) <= MOST_ASSIGNMENTS)
    every = itertools.product(*takers.values())
    assert ours == min(cost(members, dict(zip(takers, owners, strict=True))) for owners in every)


@given(small_groups(), st.sampled_from(sorted(SERVER_ASSIGNORS)))
def test_the_order_of_members_is_no_matter(group: tuple[list[Member], dict[bytes, Topic]], name: str) -> None:
    members, counts = group
    assign = SERVER_ASSIGNORS[name]
    assert assign(members, counts) == assign(members[::-1], dict(reversed(counts.items())))


@given(small_groups(), st.sampled_from(sorted(SERVER_ASSIGNORS)))
def test_a_target_that_is_reached_stays(group: tuple[list[Member], dict[bytes, Topic]], name: str) -> None:
    """Computed again with nothing changed, the target is the same."""
    members, counts = group
    target = SERVER_ASSIGNORS[name](members, counts)
    again = [Member(m.member_id, m.topics, target[m.member_id]) for m in members]
    assert SERVER_ASSIGNORS[name](again, counts) == target
