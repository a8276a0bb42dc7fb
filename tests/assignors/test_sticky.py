"""Sticky and cooperative sticky: the articles' examples (A1), and Kafka's AbstractStickyAssignorTest, each line for both."""

from __future__ import annotations

import itertools
import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.assignors import AssignableTopics, Subscriber, assign_cooperative_sticky, assign_sticky
from coterie.assignors.sticky import (
    decode_cooperative_user_data,
    decode_sticky_user_data,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)
from coterie.wire.messages.stored.sticky_assignor import StickyAssignorUserData
from tests.assignors.groups import Assign, again, check_full, check_valid, lost, member, settle, shown, sizes

BOTH = pytest.mark.parametrize("assign", [assign_sticky, assign_cooperative_sticky])


# -- the articles' examples (A1) -------------------------------- -----------------------------------------


@BOTH
def test_the_articles_first_assignment(assign: Assign) -> None:
    members = [member("C0", "t0"), member("C1", "t0 t1"), member("C2", "t0 t1 t2")]
    got = assign(AssignableTopics({"t0": 1, "t1": 2, "t2": 3}), members)
    assert shown(got) == {"C0": "t0-0", "C1": "t1-0 t1-1", "C2": "t2-0 t2-1 t2-2"}


@BOTH
def test_the_articles_member_that_crashes(assign: Assign) -> None:
    topics = AssignableTopics({"t0": 2, "t1": 2, "t2": 2, "t3": 2})
    members = [member(name, "t0 t1 t2 t3") for name in ("C0", "C1", "C2")]
    first = assign(topics, members)
    assert shown(first) == {"C0": "t0-0 t1-1 t3-0", "C1": "t0-1 t2-0 t3-1", "C2": "t1-0 t2-1"}
    del members[1]
    second = assign(topics, again(first, members, 1))
    assert shown(second) == {"C0": "t0-0 t1-1 t2-0 t3-0", "C2": "t0-1 t1-0 t2-1 t3-1"}


# -- first assignment ------------------------------------------- -----------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("case", "counts", "members", "expected"),
    [
        ("testOneConsumerNoTopic", {"t1": 3}, {"c": ""}, {"c": ""}),
        ("testOneConsumerNonexistentTopic", {}, {"c": "t1"}, {"c": ""}),
        ("testOneConsumerOneTopic", {"t1": 3}, {"c": "t1"}, {"c": "t1-0 t1-1 t1-2"}),
        ("testOneConsumerMultipleTopics", {"t1": 1, "t2": 2}, {"c": "t1 t2"}, {"c": "t1-0 t2-0 t2-1"}),
        ("testTwoConsumersOneTopicOnePartition", {"t1": 1}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": ""}),
        ("testTwoConsumersOneTopicTwoPartitions", {"t1": 2}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": "t1-1"}),
        (
            "testMultipleConsumersMixedTopicSubscriptions",
            {"t1": 3, "t2": 2},
            {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
            {"c1": "t1-0 t1-2", "c2": "t2-0 t2-1", "c3": "t1-1"},
        ),
        (
            "testTwoConsumersTwoTopicsSixPartitions",
            {"t1": 3, "t2": 3},
            {"c1": "t1 t2", "c2": "t1 t2"},
            {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"},
        ),
        ("testNoExceptionThrownWhenOnlySubscribedTopicDeleted", {}, {"c": "gone"}, {"c": ""}),
        ("testAssignmentUpdatedForDeletedTopic", {"t1": 1, "t3": 3}, {"c": "t1 t2 t3"}, {"c": "t1-0 t3-0 t3-1 t3-2"}),
    ],
)
def test_kafkas_first_assignments(
    assign: Assign, case: str, counts: dict[str, int], members: dict[str, str], expected: dict[str, str]
) -> None:
    assert shown(assign(AssignableTopics(counts), [member(m, t) for m, t in members.items()])) == expected, case


@BOTH
def test_what_is_no_longer_subscribed_to_is_dropped(assign: Assign) -> None:
    """testOnlyAssignsPartitionsFromSubscribedTopics, testNoExceptionThrownWhenOnlySubscribedTopicDeleted"""
    topics = AssignableTopics({"t1": 2, "other": 3})
    assert shown(assign(topics, [member("c", "t1", "t1-1 other-0 unknown-3 t1-9", 1)])) == {"c": "t1-0 t1-1"}
    assert shown(assign(AssignableTopics({}), [member("c", "t1", "t1-0 t1-1", 1)])) == {"c": ""}


@BOTH
def test_where_round_robin_is_poor(assign: Assign) -> None:
    """testPoorRoundRobinAssignmentScenario"""
    topics = AssignableTopics({f"t{n}": n % 2 + 1 for n in range(1, 6)})
    everything = "t1 t2 t3 t4 t5"
    members = [member("c1", everything), member("c2", "t1 t3 t5"), member("c3", "t1 t3 t5"), member("c4", everything)]
    check_full(topics, members, settle(assign, topics, members))


@BOTH
def test_existing_assignments_move_where_they_must(assign: Assign) -> None:
    """testMoveExistingAssignments, testNewSubscription"""
    topics = AssignableTopics({f"t{n}": 1 for n in range(1, 7)})
    members = [
        member("c01", "t1 t2", "t1-0", 1),
        member("c02", "t1 t2 t3 t4", "t2-0 t3-0", 1),
        member("c03", "t2 t3 t4 t5 t6", "t4-0 t5-0 t6-0", 1),
    ]
    settle(assign, topics, members)
    topics = AssignableTopics({f"t{n}": n for n in range(1, 4)})
    members = [member("c0", "t1"), member("c1", "t1 t2"), member("c2", "t1 t2 t3")]
    first = settle(assign, topics, members)
    members[0] = replace(members[0], topics=frozenset({"t1", "t2"}))
    second = settle(assign, topics, again(first, members, 1))
    assert lost(first, second, members, topics) <= 1


# -- keeping what was ------------------------------------------- -----------------------------------------


@BOTH
def test_a_member_comes_and_another_goes(assign: Assign) -> None:
    """testAddRemoveConsumerOneTopic"""
    topics = AssignableTopics({"t": 3})
    one, two = member("c1", "t"), member("c2", "t")
    first = settle(assign, topics, [one])
    second = settle(assign, topics, again(first, [one, two], 1))
    assert shown(second) == {"c1": "t-0 t-1", "c2": "t-2"}
    assert shown(settle(assign, topics, again(second, [two], 2))) == {"c2": "t-0 t-1 t-2"}


@BOTH
def test_a_topic_comes_and_another_goes(assign: Assign) -> None:
    """testAddRemoveTopicTwoConsumers"""
    members = [member("c1", "t1 t2"), member("c2", "t1 t2")]
    first = settle(assign, AssignableTopics({"t1": 3}), members)
    both = AssignableTopics({"t1": 3, "t2": 3})
    second = settle(assign, both, again(first, members, 1))
    assert sizes(second) == {"c1": 3, "c2": 3}
    assert lost(first, second, members, both) == 0
    only = AssignableTopics({"t2": 3})
    third = settle(assign, only, again(second, members, 2))
    assert lost(second, third, members, only) == 0
    assert sorted(sizes(third).values()) == [1, 2]


@BOTH
def test_one_of_nineteen_leaves(assign: Assign) -> None:
    """testReassignmentAfterOneConsumerLeaves"""
    topics = AssignableTopics({f"t{n:02}": n for n in range(1, 20)})
    members = [member(f"c{n:02}", " ".join(f"t{k:02}" for k in range(1, n + 1))) for n in range(1, 20)]
    first = settle(assign, topics, members)
    left = [m for m in members if m.member_id != "c10"]
    second = settle(assign, topics, again(first, left, 1))
    assert lost(first, second, left, topics) <= len(left)


@BOTH
def test_a_tenth_member_arrives(assign: Assign) -> None:
    """testReassignmentAfterOneConsumerAdded"""
    topics = AssignableTopics({"t": 20})
    members = [member(f"c{n:02}", "t") for n in range(1, 10)]
    first = settle(assign, topics, members)
    members.append(member("c10", "t"))
    second = settle(assign, topics, again(first, members, 1))
    assert lost(first, second, members, topics) == 2


@BOTH
def test_one_of_eight_equals_leaves(assign: Assign) -> None:
    """testSameSubscriptions"""
    topics = AssignableTopics({f"t{n:02}": n for n in range(1, 15)})
    members = [member(f"c{n}", " ".join(topics.counts)) for n in range(8)]
    first = settle(assign, topics, members)
    del members[5]
    second = settle(assign, topics, again(first, members, 1))
    assert lost(first, second, members, topics) == 0


@BOTH
def test_whoever_had_one_keeps_it(assign: Assign) -> None:
    """testStickiness"""
    topics = AssignableTopics({"t": 3})
    members = [member(f"c{n}", "t") for n in range(1, 5)]
    first = settle(assign, topics, members)
    assert shown(first) == {"c1": "t-0", "c2": "t-1", "c3": "t-2", "c4": ""}
    second = settle(assign, topics, again(first, members[1:], 1))
    assert shown(second) == {"c2": "t-1", "c3": "t-2", "c4": "t-0"}


@BOTH
def test_random_groups_that_change(assign: Assign) -> None:
    """testReassignmentWithRandomSubscriptionsAndChanges"""
    rng = random.Random(1)
    for _ in range(100):
        topics = AssignableTopics({f"t{n}": rng.randint(1, 10) for n in range(rng.randint(10, 20))})
        names = sorted(topics.counts)
        members = [
            member(f"c{n:02}", " ".join(rng.sample(names, rng.randint(1, len(names)))))
            for n in range(rng.randint(20, 40))
        ]
        first = settle(assign, topics, members)
        changed = [
            replace(m, topics=frozenset(rng.sample(names, rng.randint(1, len(names))))) if rng.random() < 0.5 else m
            for m in members
        ]
        settle(assign, topics, again(first, changed, 1))


@BOTH
def test_fifty_of_two_hundred_leave_at_once(assign: Assign) -> None:
    """testLargeAssignmentWithMultipleConsumersLeavingAndRandomSubscription"""
    rng = random.Random(2)
    topics = AssignableTopics({f"t{n}": rng.randint(1, 10) for n in range(40)})
    names = sorted(topics.counts)
    members = [member(f"c{n:03}", " ".join(rng.sample(names, rng.randint(1, 20)))) for n in range(200)]
    first = settle(assign, topics, members)
    left = rng.sample(members, 150)
    second = settle(assign, topics, again(first, left, 1))
    assert lost(first, second, left, topics) < 25


# -- size ------------------------------------------------------- -----------------------------------------


@BOTH
@pytest.mark.slow
def test_a_million_partitions(assign: Assign) -> None:
    """testLargeAssignmentAndGroupWithUniformSubscription; how long it takes is measured by `./run bench`"""
    topics = AssignableTopics({f"t{n:03}": 2_000 for n in range(500)})
    names = " ".join(topics.counts)
    members = [member(f"c{n:04}", names) for n in range(2_000)]
    first = assign(topics, members)
    assert set(sizes(first).values()) == {500}
    second = assign(topics, again(first, members[1:], 1))
    assert sorted(set(sizes(second).values())) == [500, 501]
    assert lost(first, second, members[1:], topics) == 0


@BOTH
def test_large_groups_that_are_not_alike(assign: Assign) -> None:
    """testLargeAssignmentAndGroupWithNonEqualSubscription, testAssignmentAndGroupWithNonEqualSubscriptionNotTimeout"""
    topics = AssignableTopics({f"t{n:03}": 200 for n in range(100)})
    most, few = " ".join(topics.counts), " ".join(list(topics.counts)[:50])
    for members in (
        [member(f"c{n:03}", few if n == 7 else most) for n in range(500)],
        [member(f"c{n:03}", few if n % 2 else most) for n in range(500)],
    ):
        first = assign(topics, members)
        assert set(sizes(first).values()) == {40}
        second = assign(topics, again(first, members[1:], 1))
        assert lost(first, second, members[1:], topics) == 0
        assert sorted(set(sizes(second).values())) == [40, 41]


# -- claims from different generations -------------------------- -----------------------------------------


@BOTH
def test_the_newer_generation_holds(assign: Assign) -> None:
    """testOwnedPartitionsAreInvalidatedForConsumerWithStaleGeneration"""
    topics = AssignableTopics({"t1": 3, "t2": 3})
    members = [
        member("c1", "t1 t2", "t1-0 t1-2 t2-1", 5),
        member("c2", "t1 t2", "t1-0 t1-2 t2-1", 4),
    ]
    assert shown(assign(topics, members)) == {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"}


@BOTH
def test_no_generation_loses_against_any(assign: Assign) -> None:
    """testOwnedPartitionsAreInvalidatedForConsumerWithNoGeneration"""
    topics = AssignableTopics({"t1": 3, "t2": 3})
    members = [member("c1", "t1 t2", "t1-0 t1-2 t2-1", 5), member("c2", "t1 t2", "t1-0 t1-2 t2-1")]
    assert shown(assign(topics, members)) == {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"}


@BOTH
def test_only_contradictions_are_void(assign: Assign) -> None:
    """testOwnedPartitionsAreInvalidatedForConsumerWithMultipleGeneration"""
    topics = AssignableTopics({"t1": 3, "t2": 3})
    members = [
        member("c1", "t1 t2", "t1-0 t1-2 t2-1", 5),
        member("c2", "t1 t2", "t1-0 t1-1 t2-0", 4),
    ]
    assert shown(assign(topics, members)) == {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"}


@BOTH
def test_each_contradiction_goes_to_the_highest_generation(assign: Assign) -> None:
    """testEnsurePartitionsAssignedToHighestGeneration"""
    topics = AssignableTopics({"t1": 3, "t2": 3, "t3": 3})
    names = "t1 t2 t3"
    members = [
        member("c1", names, "t1-0 t2-0 t3-0", 1),
        member("c2", names, "t1-1 t2-1 t3-1", 2),
        member("c3", names, "t1-0 t2-1 t3-2 t3-0", 3),
    ]
    got = assign(topics, members)
    assert set(got["c3"]["t1"]) == {0}
    assert set(got["c3"]["t2"]) == {1}
    assert {"t1-1", "t3-1"} <= set(shown(got)["c2"].split())
    assert "t2-0" in shown(got)["c1"].split()
    check_valid(topics, members, got)


@BOTH
def test_claims_without_contradiction_hold_whatever_their_generation(assign: Assign) -> None:
    """testNoReassignmentOnCurrentMembers"""
    topics = AssignableTopics({f"t{n}": 3 for n in range(4)})
    names = " ".join(topics.counts)
    members = [
        member("c1", names, "t0-0 t1-0 t2-0", 3),
        member("c2", names, "t0-1 t1-1 t2-1", 2),
        member("c3", names, "t0-2 t1-2 t2-2", 1),
        member("c4", names),
    ]
    assert shown(assign(topics, members)) == {
        "c1": "t0-0 t1-0 t2-0",
        "c2": "t0-1 t1-1 t2-1",
        "c3": "t0-2 t1-2 t2-2",
        "c4": "t3-0 t3-1 t3-2",
    }


@BOTH
@pytest.mark.parametrize("generations", list(itertools.permutations((1, 2, 3))))
def test_one_partition_claimed_by_three(assign: Assign, generations: tuple[int, int, int]) -> None:
    """testSubscriptionNotEqualAndAssignSamePartitionWith3Generation"""
    topics = AssignableTopics({"t": 3, "u": 2})
    names = {"c1": "t u", "c2": "t", "c3": "t u"}
    members = [member(m, names[m], "t-0", g) for m, g in zip(names, generations, strict=True)]
    got = assign(topics, members)
    check_full(topics, members, got)
    assert set(sizes(got).values()) <= {1, 2}
    newest = max(members, key=lambda m: m.generation)
    assert 0 in got[newest.member_id]["t"]


@pytest.mark.parametrize("members_and_partitions", [(2, 3), (3, 3)])
def test_a_partition_claimed_twice_in_one_generation(members_and_partitions: tuple[int, int]) -> None:
    """testPartitionsTransferringOwnershipIncludeThePartitionClaimedByMultipleConsumersInSameGeneration,
    testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithEqualPartitionsPerConsumer,
    testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithUnequalPartitionsPerConsumer"""
    topics = AssignableTopics({"t": 3 if members_and_partitions == (3, 3) else 4})
    members = [member("c1", "t", "t-0 t-1", 1), member("c2", "t", "t-0 t-2", 1), member("c3", "t", "", 1)]
    eager = assign_sticky(topics, members)
    assert shown(eager)["c3"].split()[0] == "t-0", "the third member has it at once"
    assert {"t-1"} <= set(shown(eager)["c1"].split())
    assert {"t-2"} <= set(shown(eager)["c2"].split())
    cooperative = assign_cooperative_sticky(topics, members)
    assert "t-0" not in " ".join(shown(cooperative).values()).split(), "both must give it up first"
    settle(assign_cooperative_sticky, topics, members)


# -- shares ----------------------------------------------------- -----------------------------------------


@BOTH
def test_the_member_at_its_share_gets_the_odd_one(assign: Assign) -> None:
    """testConsumerOwningMinQuotaExpectedMaxQuota"""
    topics = AssignableTopics({"t1": 2, "t2": 3})
    members = [member("c1", "t1 t2", "t1-0 t2-1", 1), member("c2", "t1 t2", "t1-1 t2-2", 1)]
    assert shown(assign(topics, members)) == {"c1": "t1-0 t2-0 t2-1", "c2": "t1-1 t2-2"}


def test_exactly_one_moves_to_a_third() -> None:
    """testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers"""
    topics = AssignableTopics({"t1": 2, "t2": 2})
    members = [
        member("c1", "t1 t2", "t1-0 t2-0", 1),
        member("c2", "t1 t2", "t1-1 t2-1", 1),
        member("c3", "t1 t2", "", 1),
    ]
    assert shown(assign_sticky(topics, members)) == {"c1": "t1-0 t2-0", "c2": "t1-1", "c3": "t2-1"}
    held_back = assign_cooperative_sticky(topics, members)
    assert shown(held_back) == {"c1": "t1-0 t2-0", "c2": "t1-1", "c3": ""}


@BOTH
def test_all_below_their_share(assign: Assign) -> None:
    """testAllConsumersAreUnderMinQuota"""
    topics = AssignableTopics({"t1": 2, "t2": 3})
    members = [member("c1", "t1 t2", "t1-0", 1), member("c2", "t1 t2", "t1-1", 1), member("c3", "t1 t2", "", 1)]
    assert shown(assign(topics, members)) == {"c1": "t1-0 t2-1", "c2": "t1-1 t2-2", "c3": "t2-0"}


@BOTH
def test_at_its_share_is_full(assign: Assign) -> None:
    """testAllConsumersReachExpectedQuotaAndAreConsideredFilled"""
    topics = AssignableTopics({"t": 4})
    members = [member("c1", "t", "t-0 t-1", 1), member("c2", "t", "t-2", 1), member("c3", "t", "", 1)]
    assert shown(assign(topics, members)) == {"c1": "t-0 t-1", "c2": "t-2", "c3": "t-3"}


@BOTH
def test_each_topic_is_spread_evenly_by_itself(assign: Assign) -> None:
    """testTopicBalanceAfterReassignment"""
    topics = AssignableTopics({"t1": 12, "t2": 12})
    members = [member(f"c{n}", "t1 t2") for n in range(4)]
    owned = settle(assign, topics, members[:1])
    for generation, count in enumerate((2, 4, 2), 1):
        owned = settle(assign, topics, again(owned, members[:count], generation))
        for one in members[:count]:
            assert {t: len(ps) for t, ps in owned[one.member_id].items()} == {"t1": 12 // count, "t2": 12 // count}


def test_two_members_come_and_go() -> None:
    """testAddRemoveTwoConsumersTwoTopics"""
    topics = AssignableTopics({"t1": 3, "t2": 4})
    members = [member(f"c{n}", "t1 t2") for n in range(1, 5)]
    first = assign_sticky(topics, members[:2])
    assert shown(first) == {"c1": "t1-0 t1-2 t2-1 t2-3", "c2": "t1-1 t2-0 t2-2"}
    second = assign_sticky(topics, again(first, members, 1))
    assert sizes(second) == {"c1": 2, "c2": 2, "c3": 2, "c4": 1}
    assert lost(first, second, members, topics) == 3
    third = assign_sticky(topics, again(second, members[:2], 2))
    assert sizes(third) == {"c1": 4, "c2": 3}
    assert lost(second, third, members[:2], topics) == 0


# -- racks ------------------------------------------------------ -----------------------------------------


@BOTH
def test_racks(assign: Assign) -> None:
    """testRackAwareAssignmentWithUniformSubscription, testRackAwareAssignmentWithNonEqualSubscription: closeness is
    improved where it costs no balance, also against what was owned; equal racks give the plain result"""
    counts = {"t1": 6, "t2": 3}
    racks = {t: [frozenset({f"r{p % 3}"}) for p in range(n)] for t, n in counts.items()}
    near = AssignableTopics(counts, racks)
    members = [member(f"c{n}", "t1 t2", rack=f"r{n}") for n in range(3)]
    got = settle(assign, near, members)
    assert sizes(got) == {"c0": 3, "c1": 3, "c2": 3}
    for n, one in enumerate(members):
        assert all(p % 3 == n for ps in got[one.member_id].values() for p in ps)
    crossed = [replace(m, rack=f"r{(n + 1) % 3}") for n, m in enumerate(again(got, members, 1))]
    moved = settle(assign, near, crossed)
    for n, one in enumerate(crossed):
        assert all(p % 3 == (n + 1) % 3 for ps in moved[one.member_id].values() for p in ps)
    everywhere = AssignableTopics(counts, {t: [frozenset({"r0", "r1", "r2"})] * n for t, n in counts.items()})
    plain = [replace(m, rack=None) for m in members]
    assert shown(assign(everywhere, members)) == shown(assign(AssignableTopics(counts), plain))
    uneven = [member("c0", "t1", rack="r0"), member("c1", "t1 t2", rack="r1"), member("c2", "t1 t2", rack="r2")]
    got = settle(assign, near, uneven)
    far = sum(f"r{p % 3}" != one.rack for one in uneven for ps in got[one.member_id].values() for p in ps)
    assert far <= 3


def test_what_moves_to_be_closer_is_held_back_first() -> None:
    """testUniformSubscriptionTransferOwnershipListIsRight"""
    topics = AssignableTopics({"t": 2}, {"t": [frozenset({"r1"}), frozenset({"r2"})]})
    members = [member("c1", "t", "t-1", 1, rack="r1"), member("c2", "t", "t-0", 1, rack="r2")]
    assert shown(assign_cooperative_sticky(topics, members)) == {"c1": "", "c2": ""}
    assert shown(assign_sticky(topics, members)) == {"c1": "t-0", "c2": "t-1"}


# -- sticky's own ----------------------------------------------- -----------------------------------------


def test_a_member_returns_with_an_old_claim() -> None:
    """testAssignmentWithMultipleGenerations1"""
    topics = AssignableTopics({"t": 6})
    members = [member(f"c{n}", "t") for n in (1, 2, 3)]
    first = assign_sticky(topics, members)
    second = assign_sticky(topics, again(first, members[:2], 1))
    left = [again(second, members[1:2], 2)[0], again(first, members[2:], 1)[0]]
    third = assign_sticky(topics, left)
    assert sizes(third) == {"c2": 3, "c3": 3}
    assert lost(second, third, members[1:2], topics) == 0


def test_two_return_after_one_had_everything() -> None:
    """testAssignmentWithMultipleGenerations2"""
    topics = AssignableTopics({"t": 6})
    members = [member(f"c{n}", "t") for n in (1, 2, 3)]
    first = assign_sticky(topics, members)
    second = assign_sticky(topics, again(first, members[1:2], 1))
    assert sizes(second) == {"c2": 6}
    old = again(first, members, 1)
    third = assign_sticky(topics, [old[0], again(second, members[1:2], 2)[0], old[2]])
    assert sizes(third) == {"c1": 2, "c2": 2, "c3": 2}


def test_older_claims_that_overlap() -> None:
    """testAssignmentWithConflictingPreviousGenerations"""
    topics = AssignableTopics({"t": 6})
    members = [
        member("c1", "t", "t-0 t-1 t-4", 1),
        member("c2", "t", "t-0 t-2 t-3", 2),
        member("c3", "t", "t-1 t-4 t-5", 2),
    ]
    got = assign_sticky(topics, members)
    assert sizes(got) == {"c1": 2, "c2": 2, "c3": 2}
    assert set(got["c2"]["t"]) <= {0, 2, 3}
    assert set(got["c3"]["t"]) <= {1, 4, 5}


def test_user_data_of_version_0_beside_version_1() -> None:
    """testSchemaBackwardCompatibility"""
    topics = AssignableTopics({"t": 3})
    old = StickyAssignorUserData.of({"t": [0, 2]}, 1).encode(0)
    members = [
        Subscriber("c1", frozenset({"t"}), user_data=old),
        member("c2", "t", "t-1", 1),
        member("c3", "t"),
    ]
    got = assign_sticky(topics, members)
    assert sizes(got) == {"c1": 1, "c2": 1, "c3": 1}
    assert got["c1"]["t"][0] in (0, 2)
    assert got["c2"]["t"] == [1]
    assert decode_sticky_user_data(old) == ({"t": [0, 2]}, -1)
    assert decode_sticky_user_data(encode_sticky_user_data({"t": [1]}, 7)) == ({"t": [1]}, 7)
    assert decode_sticky_user_data(b"\x7f") == ({}, -1)


def test_eager_sticky_trusts_its_user_data() -> None:
    """testMemberData, testMemberDataWillHonorUserData, testMemberDataWithInconsistentData,
    testAssignorWithOldVersionSubscriptions"""
    topics = AssignableTopics({"t": 3})
    data = encode_sticky_user_data({"t": [0]}, 2)
    members = [
        Subscriber("c1", frozenset({"t"}), None, {"t": (1,)}, 9, None, data),
        Subscriber("c2", frozenset({"t"}), None, {}, -1, None, encode_sticky_user_data({"t": [1]}, 2)),
        Subscriber("c3", frozenset({"t"}), None, {}, -1, None, encode_sticky_user_data({"t": [2]}, 2)),
    ]
    assert shown(assign_sticky(topics, members)) == {"c1": "t-0", "c2": "t-1", "c3": "t-2"}


# -- cooperative sticky's own ----------------------------------- -----------------------------------------


def test_cooperative_user_data_is_the_generation_only() -> None:
    """testEncodeAndDecodeGeneration, testDecodeGeneration"""
    assert encode_cooperative_user_data({}, 10) == struct.pack(">i", 10)
    assert decode_cooperative_user_data(encode_cooperative_user_data({}, 10)) == 10
    assert decode_cooperative_user_data(None) == -1
    assert decode_cooperative_user_data(b"") == -1


def test_cooperative_trusts_the_owned_partitions() -> None:
    """testMemberDataWithInconsistentData, testMemberDataWithEmptyPartitionsAndEqualGeneration,
    testMemberDataWithEmptyPartitionsAndHigherGeneration, testAssignorWithOldVersionSubscriptions"""
    topics = AssignableTopics({"t": 3})
    claimed = encode_sticky_user_data({"t": [0]}, 2)
    members = [
        Subscriber("c1", frozenset({"t"}), None, {"t": (1,)}, 2, None, claimed),
        Subscriber("c2", frozenset({"t"}), None, {"t": (0,)}, -1, None, encode_cooperative_user_data({}, 2)),
        Subscriber("c3", frozenset({"t"}), None, {}, 3, None, encode_cooperative_user_data({}, 3)),
    ]
    assert shown(assign_cooperative_sticky(topics, members)) == {"c1": "t-1", "c2": "t-0", "c3": "t-2"}


# -- on any input ----------------------------------------------- -----------------------------------------


@given(
    counts=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1, max_size=6),
    wanted=st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1, max_size=8),
    gone=st.sets(st.integers(0, 7), max_size=3),
    assign=st.sampled_from([assign_sticky, assign_cooperative_sticky]),
)
def test_on_any_input(counts: dict[str, int], wanted: list[frozenset[str]], gone: set[int], assign: Assign) -> None:
    topics = AssignableTopics(counts)
    members = [member(f"m{n}", " ".join(t)) for n, t in enumerate(wanted)]
    first = settle(assign, topics, members)
    left = [m for n, m in enumerate(members) if n not in gone]
    if left:
        second = settle(assign, topics, again(first, left, 1))
        if len({m.topics for m in members}) == 1:
            assert lost(first, second, left, topics) == 0, "equal members that lose a colleague lose nothing"
