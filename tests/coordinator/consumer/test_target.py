"""The target assignment, and what is stored of it; Kafka's TargetAssignmentBuilderTest by name. The assignor is in the test's
hands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from coterie.assignors.server_side import TargetMember, TargetTopic
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember, ConsumerSubscription, TopicIdPartition
from coterie.coordinator.consumer.target import compute_target
from tests.coordinator.consumer.group import resolve, subscribe, target
from tests.coordinator.consumer.test_reconcile import partitions

FOO, BAR = b"f" * 16, b"b" * 16
TOPICS = TopicsImage({"foo": TopicImage("foo", FOO, 7), "bar": TopicImage("bar", BAR, 7)})
ALL = ("foo", "bar", "zar")  # zar does not exist
EPOCH, NOW_MS = 20, 12_345
Targets = dict[str, frozenset[TopicIdPartition]]


def targets(**texts: str) -> Targets:
    """By member; `f12 b34` are partitions 1 and 2 of foo, 3 and 4 of bar."""
    return {member_id: frozenset(partitions(text)) for member_id, text in texts.items()}


def group_of(**texts: str) -> ConsumerGroup:
    """Members with their part of the last target assignment; each subscribes to all topics."""
    group = ConsumerGroup("g")
    for member_id, text in texts.items():
        subscribe(group, member_id, *ALL)
        target(group, member_id, text)
    return group


def computed(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], assigned: Targets
) -> tuple[list[e.ConsumerEvent], dict[str, TargetMember]]:
    """The events, with the members as the assignor saw them; it returns ``assigned``."""
    seen: dict[str, TargetMember] = {}

    def assign(members: Sequence[TargetMember], topics: Mapping[bytes, TargetTopic]) -> Targets:
        assert topics == {FOO: TOPICS.topics["foo"], BAR: TOPICS.topics["bar"]}
        seen.update({member.member_id: member for member in members})
        return assigned

    result, events = compute_target(group, members, EPOCH, TOPICS, {"uniform": assign}, NOW_MS)
    assert result == {member_id: assigned.get(member_id, frozenset()) for member_id in members}
    assert events[-1] == e.TargetEpochStored(EPOCH, NOW_MS), "the epoch follows the targets that it completes"
    assert seen.keys() == set(members)
    return events[:-1], seen


TWO, THREE = {"m1": "f123 b123", "m2": "f456 b456"}, {"m1": "f12 b12", "m2": "f34 b34", "m3": "f56 b56"}


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        pytest.param({}, {}, [], id="testEmpty"),
        pytest.param(TWO, TWO, [], id="testAssignmentHasNotChanged"),
        pytest.param(TWO, {"m1": TWO["m2"], "m2": TWO["m1"]}, ["m1", "m2"], id="testAssignmentSwapped"),
        pytest.param(
            THREE,
            {"m1": "f12 b12", "m2": "f345 b345", "m3": "f6 b6"},
            ["m2", "m3"],
            id="testPartialAssignmentUpdate",
        ),
        pytest.param(THREE, {"m1": "f12 b12"}, ["m2", "m3"], id="members without an entry have nothing"),
    ],
)
def test_a_target_is_stored_where_it_changes(before: dict[str, str], after: dict[str, str], changed: list[str]) -> None:
    group, assigned = group_of(**before), targets(**after)
    events, seen = computed(group, group.members, assigned)
    assert events == [e.TargetStored(m, assigned.get(m, frozenset())) for m in changed]
    assert {member_id: member.target for member_id, member in seen.items()} == targets(**before)
    assert all(member.topics == {FOO, BAR} for member in seen.values())


def test_a_new_member() -> None:
    """testNewMember: it has no target yet."""
    group, assigned = group_of(**TWO), targets(**THREE)
    new = ConsumerMember("m3", ConsumerSubscription(frozenset(ALL)))
    events, seen = computed(group, group.members | {"m3": new}, assigned)
    assert events == [e.TargetStored(m, assigned[m]) for m in ("m1", "m2", "m3")]
    assert seen["m3"].target == frozenset()


def test_a_member_that_is_gone() -> None:
    """testDeleteMember: its part is no longer the assignor's concern, and its tombstone is not this one's."""
    group, assigned = group_of(**THREE), targets(**TWO)
    events, _ = computed(group, {m: member for m, member in group.members.items() if m != "m3"}, assigned)
    assert events == [e.TargetStored(m, assigned[m]) for m in ("m1", "m2")]


def test_a_static_member_that_is_replaced() -> None:
    """testReplaceStaticMember: the assignor sees its successor with what it had, which is stored under the new id."""
    group = group_of(**THREE)
    for member_id in THREE:
        subscribe(group, member_id, *ALL, instance_id=f"instance-{member_id}")
    successor = ConsumerMember("m3-a", ConsumerSubscription(frozenset(ALL), instance_id="instance-m3"))
    members = {m: member for m, member in group.members.items() if m != "m3"} | {"m3-a": successor}
    assigned = targets(m1=THREE["m1"], m2=THREE["m2"]) | {"m3-a": frozenset(partitions(THREE["m3"]))}
    events, seen = computed(group, members, assigned)
    assert events == [e.TargetStored("m3-a", assigned["m3-a"])]
    assert seen["m3-a"].target == assigned["m3-a"]
    assert seen["m3-a"].instance_id == "instance-m3"


def test_the_topics_of_regular_expressions_are_assigned_as_those_by_name() -> None:
    """testRegularExpressions"""
    group = ConsumerGroup("g")
    subscribe(group, "m1", "bar", "zar", topic_regex="foo*")
    subscribe(group, "m2", *ALL)
    subscribe(group, "m3", topic_regex="foo*")
    subscribe(group, "m4", topic_regex="unresolved*")
    resolve(group, "foo*", "foo")
    assigned = targets(m1="f12 b123", m2="f34 b456", m3="f56", m4="")
    events, seen = computed(group, group.members, assigned)
    topics = {member_id: member.topics for member_id, member in seen.items()}
    assert topics == {"m1": {FOO, BAR}, "m2": {FOO, BAR}, "m3": {FOO}, "m4": set()}
    assert events == [e.TargetStored(m, assigned[m]) for m in ("m1", "m2", "m3", "m4")]
