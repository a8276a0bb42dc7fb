"""Groups of the consumer protocol as a log gives them: compacted, written by an older Kafka, or by a newer one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.commands import Command
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    ResolvedRegex,
    TopicIdPartition,
)
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored_records.stored import StoredRecord, to_record
from coterie.coordinator.stored_records.stored_consumer_groups import GroupRecord, to_bytes
from coterie.coordinator.write_queue import drive
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.stored.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OwnedPartitions,
)

FOO, BAR = b"foo".ljust(16), b"bar".ljust(16)
TOPICS = TopicsImage({"foo": TopicImage("foo", FOO, 2)}, 1, 1)


def current(epoch: int, *partitions: TopicIdPartition) -> CurrentAssignment:
    return CurrentAssignment(epoch, epoch - 1, assigned=dict.fromkeys(partitions, epoch))


def replayed(*events: c.ConsumerEvent) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for event in events:
        replay_consumer(group, event, 0)
    return group


def test_an_assignment_whose_revocation_was_compacted_away() -> None:
    """testReplayConsumerGroupCurrentMemberAssignmentWithCompaction: the newer epoch has the partition."""
    group = replayed(
        c.CurrentStored("a", current(11, (FOO, 0))),
        c.CurrentStored("b", current(12, (FOO, 0))),
        c.CurrentStored("a", current(13, (FOO, 1))),
    )
    assert group.owners == {(FOO, 0): "b", (FOO, 1): "a"}


def test_a_revocation_of_what_nobody_has() -> None:
    """testReplayConsumerGroupCurrentMemberAssignmentUnownedTopicWithCompaction"""
    group = replayed(
        c.CurrentStored("a", current(11, (FOO, 0))),
        c.CurrentStored("b", current(12, (FOO, 0))),
        c.CurrentStored("b", current(13)),
        c.CurrentStored("a", current(14, (BAR, 0))),
    )
    assert group.owners == {(BAR, 0): "a"}


def test_tombstones_of_what_is_not_there() -> None:
    """testReplayConsumerGroupMemberMetadataTombstone, testReplayConsumerGroupTargetAssignmentMemberTombstone,
    testReplayConsumerGroupCurrentMemberAssignmentTombstone, testReplayConsumerGroupRegularExpressionTombstone,
    testReplayConsumerGroupPartitionMetadataTombstone, testReplayConsumerGroupMetadataTombstone"""
    gone = (
        c.CurrentRemoved("a"),
        c.TargetRemoved("a"),
        c.SubscriptionRemoved("a"),
        c.RegexRemoved("f.*"),
        c.PartitionMetadataRemoved(),
        c.TargetEpochRemoved(),
        c.GroupEpochRemoved(),
    )
    assert replayed(*gone[:-2]) == ConsumerGroup("g")
    assert not loaded(*gone).every_group()


def loaded(*events: c.ConsumerEvent, group_id: str = "g", shard: Shard | None = None) -> Shard:
    """A shard that has read the events' records."""
    shard = Shard(CoordinatorConfig()) if shard is None else shard
    for event in events:
        record = to_record(group_id, event)
        assert record is not None
        shard.load(record.key, record.value)
    return shard


SUBSCRIPTION = ConsumerSubscription(
    frozenset({"foo"}), server_assignor="range", rack_id="r1", client_id="client", client_host="/h"
)
UNRELEASED = CurrentAssignment(
    10, 9, ConsumerMemberState.UNRELEASED_PARTITIONS, dict.fromkeys([(FOO, 0), (FOO, 1), (FOO, 2)], 10)
)
RESOLVED = ResolvedRegex(frozenset({"abc", "abcd"}), 10, 12_345)
TARGET = frozenset({(FOO, 0), (FOO, 1), (FOO, 2)})


@pytest.mark.parametrize(
    ("name", "events", "expected"),
    [
        (
            "testReplayConsumerGroupMemberMetadata",
            [c.SubscriptionStored("m", SUBSCRIPTION)],
            {"members": {"m": ConsumerMember("m", SUBSCRIPTION)}},
        ),
        ("testReplayConsumerGroupMetadata", [c.GroupEpochStored(10, 7)], {"group_epoch": 10, "metadata_hash": 7}),
        (
            "testReplayConsumerGroupPartitionMetadataTombstoneWithExistentGroup",
            [c.GroupEpochStored(10, 0), c.PartitionMetadataRemoved()],
            {"group_epoch": 10, "partition_metadata_recorded": False},
        ),
        ("testReplayConsumerGroupTargetAssignmentMember", [c.TargetStored("m", TARGET)], {"target": {"m": TARGET}}),
        (
            "testReplayConsumerGroupTargetAssignmentMetadata",
            [c.TargetEpochStored(10, 12_345)],
            {"assignment_epoch": 10, "assignment_timestamp_ms": 12_345},
        ),
        (
            "testReplayConsumerGroupTargetAssignmentMetadataTombstoneExisting",
            [c.TargetEpochStored(10, 12_345), c.TargetEpochRemoved()],
            {"assignment_epoch": -1, "assignment_timestamp_ms": 0},
        ),
        (
            "testReplayConsumerGroupCurrentMemberAssignment",
            [c.CurrentStored("m", UNRELEASED)],
            {"members": {"m": ConsumerMember("m", current=UNRELEASED)}, "owners": dict.fromkeys(TARGET, "m")},
        ),
        (
            "testReplayConsumerGroupRegularExpression",
            [c.RegexStored("abc*", RESOLVED)],
            {"regexes": {"abc*": RESOLVED}},
        ),
        (
            "testConstructor of ResolvedRegularExpressionTest",
            [c.RegexStored("a", RESOLVED)],
            {"regexes": {"a": RESOLVED}},
        ),
    ],
)
def test_any_record_makes_its_group(name: str, events: list[c.ConsumerEvent], expected: dict[str, object]) -> None:
    """The first record that a log still has may be of any kind."""
    group = loaded(*events).of_kind(ConsumerGroup)["g"]
    assert {attribute: getattr(group, attribute) for attribute in expected} == expected


JOINED = (
    c.SubscriptionStored("m", SUBSCRIPTION),
    c.GroupEpochStored(10, 7),
    c.TargetStored("m", TARGET),
    c.TargetEpochStored(10, 0),
    c.CurrentStored("m", UNRELEASED),
)


@pytest.mark.parametrize("event", [c.SubscriptionRemoved("m"), c.TargetEpochRemoved(), c.GroupEpochRemoved()])
def test_a_tombstone_whose_predecessors_a_damaged_log_has_lost(event: c.ConsumerEvent) -> None:
    """It takes with it what they would have taken. Kafka's broker does not load such a partition."""
    group = loaded(*JOINED, event).of_kind(ConsumerGroup).get("g")
    assert (group is None) == isinstance(event, c.GroupEpochRemoved)
    if group is not None:
        assert not group.target
        assert ("m" in group.members) == isinstance(event, c.TargetEpochRemoved)
        assert group.owners.keys() == (TARGET if group.members else set())


def test_a_partition_whose_release_a_damaged_log_has_lost() -> None:
    """The later record has it; the earlier owner is fenced and joins again."""
    broker = Broker()
    loaded(*JOINED, c.CurrentStored("n", UNRELEASED), shard=broker.shard).loaded(0)
    assert broker.shard.of_kind(ConsumerGroup)["g"].owners == dict.fromkeys(TARGET, "n")
    assert broker.send(ConsumerGroupHeartbeatRequest("g", "m", 10)).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_target_of_a_member_that_a_damaged_log_has_lost() -> None:
    shard = loaded(c.TargetStored("m", TARGET), c.TargetEpochStored(10, 0))
    shard.loaded(0)
    assert not shard.of_kind(ConsumerGroup)["g"].target


def test_the_tombstone_of_a_target_epoch_makes_no_group() -> None:
    """testReplayConsumerGroupTargetAssignmentMetadataTombstone"""
    assert not loaded(c.TargetEpochRemoved()).every_group()


def test_which_groups_subscribe_to_a_topic() -> None:
    """testGroupIdsByTopics: (group, member, its topics or None for its tombstones) -> the groups of foo, bar and zar."""
    shard = Shard(CoordinatorConfig())
    for group_id, member_id, topics, foo, bar, zar in (
        ("1", "m1", "foo bar", "1", "1", ""),
        ("2", "m1", "foo bar zar", "12", "12", "2"),
        ("1", "m2", "bar zar", "12", "12", "12"),
        ("2", "m2", "foo bar", "12", "12", "12"),
        ("1", "m1", None, "2", "12", "12"),
        ("2", "m1", "", "2", "12", "1"),
        ("2", "m2", "foo", "2", "1", "1"),
        ("2", "m2", "", "", "1", "1"),
        ("1", "m2", "", "", "", ""),
    ):
        if topics is None:
            loaded(c.CurrentRemoved(member_id), c.SubscriptionRemoved(member_id), group_id=group_id, shard=shard)
        else:
            subscription = ConsumerSubscription(frozenset(topics.split()))
            loaded(c.SubscriptionStored(member_id, subscription), group_id=group_id, shard=shard)
        groups = shard.of_kind(ConsumerGroup)
        subscribed = {
            topic: "".join(sorted(g for g in groups if groups[g].topic_subscribers[topic]))
            for topic in ("foo", "bar", "zar")
        }
        assert subscribed == {"foo": foo, "bar": bar, "zar": zar}, (group_id, member_id, topics)


class Broker:
    """A shard, the log before it, and what it appended."""

    def __init__(self, *records: GroupRecord) -> None:
        self.shard = Shard(CoordinatorConfig(group_consumer_assignment_interval_ms=0))
        for record in records:
            self.shard.load(*to_bytes(record))
        self.shard.loaded(0)
        self.appended: list[StoredRecord] = []
        self.response: Any = None

    def heartbeat(self, epoch: int, owned: list[TopicPartitions] | None, **fields: Any) -> Any:
        return self.send(ConsumerGroupHeartbeatRequest("g", "a", epoch, topic_partitions=owned, **fields))

    def send(self, request: Command) -> Any:
        decision = self.shard.decide(request, Context(1_000, "token", api_version=1, topics=TOPICS))
        drive(
            self.shard,
            decision,
            lambda decisions: self.appended.extend(r for decision in decisions for r in decision.records),
            lambda kept, steps: setattr(self, "response", kept.outcome.replies[0].response),
        )
        return self.response


def test_the_topics_that_an_older_kafka_stored_go_with_the_next_epoch() -> None:
    """testSubscriptionUpgradeToMetadataHash, testReplayConsumerGroupPartitionMetadata"""
    key = ConsumerGroupPartitionMetadataKey("g")
    broker = Broker(GroupRecord(key, ConsumerGroupPartitionMetadataValue([])))
    assert broker.shard.of_kind(ConsumerGroup)["g"].partition_metadata_recorded
    broker.heartbeat(0, [], rebalance_timeout_ms=1_000, subscribed_topic_names=["foo"])
    assert StoredRecord(*to_bytes(GroupRecord(key, None))) in broker.appended
    assert not broker.shard.of_kind(ConsumerGroup)["g"].partition_metadata_recorded


def test_a_member_in_a_state_of_a_newer_kafka_is_fenced_until_it_owns_nothing() -> None:
    """testUnknownState, through a heartbeat."""
    value = ConsumerGroupCurrentMemberAssignmentValue(1, 0, 77, [OwnedPartitions(FOO, [0])], [])
    broker = Broker(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey("g", "a"), value))
    assert broker.heartbeat(1, [TopicPartitions(FOO, [0])]).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert broker.heartbeat(1, None).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    joined = broker.heartbeat(0, [], rebalance_timeout_ms=1_000, subscribed_topic_names=["foo"])
    assert not joined.error_code
    assert [(t.topic_id, t.partitions) for t in joined.assignment.topic_partitions] == [(FOO, [0, 1])]


def test_a_classic_member_whose_target_is_not_in_the_log_joins_again() -> None:
    """A damaged batch that was taken out, or another's log. Kafka's broker fails with an exception there."""
    broker = Broker()
    classic = ClassicMetadata(45_000, (("range", encode_subscription(["foo"])),))
    subscription = replace(SUBSCRIPTION, classic=classic)
    events = c.GroupEpochStored(10, 7), c.TargetEpochStored(10, 0), c.SubscriptionStored("a", subscription)
    loaded(*events, c.CurrentStored("a", UNRELEASED), shard=broker.shard).loaded(0)
    assert broker.send(HeartbeatRequest("g", 10, "a")).error_code == ErrorCode.REBALANCE_IN_PROGRESS
