"""How the records of its members change a group; Kafka's ConsumerGroupTest and ConsumerGroupMemberTest by name."""

from __future__ import annotations

import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.convert import downgrade, upgrade
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.member_checks import known_member, known_static_member
from coterie.coordinator.consumer.offsets import subscribed_topics_of
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    MigrationPolicy,
)
from coterie.coordinator.events import GroupStored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Cause, Group, Member, Phase
from coterie.wire.errors import ErrorCode, Refusal
from tests.coordinator.consumer.group import apply, put, remove, resolve, subscribe, target
from tests.coordinator.consumer.test_reconcile import current, partitions

S, UV = ConsumerMemberState.STABLE, ConsumerMemberState.UNREVOKED_PARTITIONS
RANGE = ClassicMetadata(500, (("range", encode_subscription(["foo", "bar"], {"foo": (0,), "bar": (0,)})),))
TOPICS = TopicsImage({"foo": TopicImage("foo", b"a" * 16, 1), "bar": TopicImage("bar", b"b" * 16, 1)})


# -- members ------------------------------------------------------------------------------------------------------------


def test_members_come_and_go() -> None:
    """testGetOrCreateMember, testRemoveMember"""
    group = ConsumerGroup("g")
    member = subscribe(group, "m", "foo", "bar")
    assert known_member(group, "m") is member
    with pytest.raises(Refusal) as refused:
        known_member(group, "other")
    assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    remove(group, "m")
    assert not group.members
    assert not group.timers


def test_static_members() -> None:
    """testNoStaticMember, testGetStaticMemberByInstanceId, testRemoveStaticMember"""
    group = ConsumerGroup("g")
    subscribe(group, "dynamic")
    assert group.static_member("instance") is None
    member = subscribe(group, "m", "foo", "bar", instance_id="instance")
    assert group.static_member("instance") is known_member(group, "m") is member
    assert known_static_member(group, "m", "instance") is member
    remove(group, "m")
    assert group.static_member("instance") is None
    assert "m" not in group.members


def test_what_a_member_is_made_of() -> None:
    """testNewMember, testAssignedAndPendingRevocationEpoch"""
    group = ConsumerGroup("g")
    subscription = ConsumerSubscription(
        frozenset({"foo", "bar"}), "regex", 5_000, "range", "instance", "rack", "client", "/host", RANGE
    )
    apply(group, e.SubscriptionStored("m", subscription))
    stored = put(group, "m", "10/9", "a123@10", "b456@9")
    assert group.members["m"] == ConsumerMember("m", subscription, stored)
    epochs = {p: stored.assignment_epoch(p) for p in partitions("a123 b456")}
    assert epochs == partitions("a123@10 b456@9")
    assert set(stored.assigned) == set(partitions("a123"))
    assert set(stored.pending_revocation) == set(partitions("b456"))
    for elsewhere in partitions("a9 b9 c0"):
        assert stored.assignment_epoch(elsewhere) is None


# -- whose a partition is -------------------------------------------------------------------------------------------------


def partition_epochs(group: ConsumerGroup, text: str) -> set[int]:
    """The member epochs of the partitions' owners; -1: nobody has it."""
    owners = (group.owners.get(partition) for partition in partitions(text))
    return {-1 if owner is None else group.members[owner].current.member_epoch for owner in owners}


def test_a_partition_has_the_epoch_of_its_member() -> None:
    """testUpdatingMemberUpdatesPartitionEpoch, testDeletingMemberRemovesPartitionEpoch"""
    group = ConsumerGroup("g")
    put(group, "m", "10/9", "a123@5", "b456@6")
    assert partition_epochs(group, "a123 b456") == {10}
    assert partition_epochs(group, "c789") == {-1}
    put(group, "m", "11/10", "b123@7", "c456@8")
    assert partition_epochs(group, "b123 c456") == {11}
    assert partition_epochs(group, "a123 b456 a789") == {-1}
    remove(group, "m")
    assert partition_epochs(group, "b123 c456") == {-1}
    assert not group.owners


def test_a_partition_that_returns_before_it_was_revoked() -> None:
    """testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsReassignedBeforeBeingRevoked"""
    group = ConsumerGroup("g")
    put(group, "m", "10/9", "", "a1@5", UV)
    assert partition_epochs(group, "a1") == {10}
    put(group, "m", "11/10", "a1@7")
    assert partition_epochs(group, "a1") == {11}


@pytest.mark.parametrize(("epoch", "is_taken"), [(12, True), (11, False), (10, False)])
def test_a_partition_that_was_not_released_goes_to_the_newer_epoch_alone(epoch: int, is_taken: bool) -> None:
    """testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsNotReleased, testAddPartitionEpochs."""
    group = ConsumerGroup("g")
    put(group, "m1", "10/9", "a1@5")
    put(group, "m2", "11/10", "a1@7")
    assert group.owners == dict.fromkeys(partitions("a1"), "m2")
    if is_taken:
        put(group, "m3", f"{epoch}/10", "a1@7")
        assert partition_epochs(group, "a1") == {epoch}
    else:
        with pytest.raises(AssertionError, match="still belongs to m2"):
            put(group, "m3", f"{epoch}/10", "a1@7")


def test_a_tombstone_frees_no_partition_of_another_member() -> None:
    """testRemovePartitionEpochs"""
    group = ConsumerGroup("g")
    apply(group, e.CurrentRemoved("m1"))
    put(group, "m1", "10/9", "a1@5")
    put(group, "m2", "11/10", "a1@7")
    apply(group, e.CurrentRemoved("m1"))
    assert partition_epochs(group, "a1") == {11}


# -- the group's state ----------------------------------------------------------------------------------------------------


def test_the_state_follows_from_the_epochs() -> None:
    """testGroupState"""
    group = ConsumerGroup("g")
    assert group.phase == "Empty"
    put(group, "m1", "2/0")
    apply(group, e.GroupEpochStored(2, 0))
    assert group.phase == "Assigning"
    put(group, "m2", "2/0")
    apply(group, e.GroupEpochStored(3, 0))
    assert group.phase == "Assigning"
    apply(group, e.TargetEpochStored(3, 12_345))
    assert group.phase == "Reconciling"
    put(group, "m1", "3/2")
    assert group.phase == "Reconciling"
    put(group, "m2", "3/2", state=UV)
    assert group.phase == "Reconciling", "m2 is in the epoch, and not stable"
    put(group, "m2", "3/2")
    assert group.phase == "Stable"
    remove(group, "m1")
    remove(group, "m2")
    assert group.phase == "Empty"


# -- subscriptions --------------------------------------------------------------------------------------------------------


def test_subscribers_of_regular_expressions_are_counted() -> None:
    """testSubscribedRegularExpressionCount"""
    group, counts = ConsumerGroup("g"), []
    for member_id, regex in [("m1", "regex1"), ("m2", "regex2"), ("m3", "regex1"), ("m4", ""), ("m3", "regex2")]:
        subscribe(group, member_id, topic_regex=regex)
        counts.append((group.regex_subscribers["regex1"], group.regex_subscribers["regex2"]))
    for member_id in ("m1", "m2", "m3"):
        remove(group, member_id)
        counts.append((group.regex_subscribers["regex1"], group.regex_subscribers["regex2"]))
    assert counts == [(1, 0), (1, 1), (2, 1), (2, 1), (1, 2), (0, 2), (0, 1), (0, 0)]
    assert "" not in group.regex_subscribers


def test_the_topics_of_regular_expressions() -> None:
    """testUpdateAndRemoveRegularExpression: those that a member subscribes to."""
    group = ConsumerGroup("g")
    subscribe(group, "m1", "foo", "zar")
    subscribe(group, "m2", topic_regex="foo|bar")
    subscribe(group, "m3", topic_regex="foobar")
    seen = [subscribed_topics_of(group)]
    for regex, topics in [("foo|bar", ["foo", "bar"]), ("foobar", ["foobar"]), ("foo|bar", ["foo"])]:
        resolve(group, regex, *topics)
        seen.append(subscribed_topics_of(group))
    for regex in ("foo|bar", "foobar"):
        apply(group, e.RegexRemoved(regex))
        seen.append(subscribed_topics_of(group))
    named = {"foo", "zar"}
    assert seen == [named, {*named, "bar"}, {*named, "bar", "foobar"}, {*named, "foobar"}, {*named, "foobar"}, named]


# -- the other protocol, and the end --------------------------------------------------------------------------------------


def test_a_classic_group_becomes_one_of_the_consumer_protocol() -> None:
    """testFromClassicGroup"""
    classic = Group("g", phase=Phase.STABLE, protocol_type="consumer", generation=10, protocol="range", leader="m")
    assigned = encode_assignment({"foo": [0], "bar": [0]})
    classic.protocol_counts["range"] = 1
    classic.members["m"] = Member("m", None, "client", "/host", 500, 5_000, RANGE.protocols, assigned)
    config = CoordinatorConfig(consumer_group_migration_policy=MigrationPolicy.UPGRADE)
    group = ConsumerGroup("g")
    for event in upgrade(classic, config, TOPICS, 77).events[1:]:
        apply(group, event)  # type: ignore[arg-type]
    subscription = ConsumerSubscription(
        frozenset({"foo", "bar"}), rebalance_timeout_ms=5_000, client_id="client", client_host="/host", classic=RANGE
    )
    assert group.members == {"m": ConsumerMember("m", subscription, current("10/10", S, "a0@10 b0@10"))}
    assert (group.group_epoch, group.assignment_epoch, group.assignment_timestamp_ms) == (10, 10, 0)
    assert group.target == {"m": frozenset(partitions("a0 b0"))}
    assert group.metadata_hash == TOPICS.metadata_hash(["foo", "bar"])
    assert group.phase == "Stable"


def test_the_tombstones_of_a_group() -> None:
    """testCreateGroupTombstoneRecords: in this order no record stands for what is gone already, and nothing is left."""
    group, members = ConsumerGroup("g"), ["m1", "m2", "m3"]
    subscribe(group, "m1", "foo", "bar", "zar", classic=RANGE)
    subscribe(group, "m2", "foo", "bar", classic=RANGE)
    subscribe(group, "m3", topic_regex="foo*", classic=RANGE)
    for member_id, text in zip(members, ("a012@5", "b012@6", "c012@7"), strict=True):
        put(group, member_id, "10/9", text)
        target(group, member_id, text)
    resolve(group, "foo*", "foo", "fooo")
    apply(group, e.GroupEpochStored(10, 1), e.TargetEpochStored(10, 2), e.PartitionMetadataStored())
    *events, stored = downgrade(group, list(group.members.values()), None, TOPICS, 0).events
    assert isinstance(stored, GroupStored)
    assert events == [
        *map(e.CurrentRemoved, members),
        *map(e.TargetRemoved, members),
        e.TargetEpochRemoved(),
        *map(e.SubscriptionRemoved, members),
        e.RegexRemoved("foo*"),
        e.PartitionMetadataRemoved(),
        e.GroupEpochRemoved(Cause("downgraded")),
    ]
    apply(group, *events)  # type: ignore[arg-type]
    assert group.is_dead
    assert not any((group.members, group.regexes, group.owners, group.timers, group.partition_metadata_recorded))
