"""Groups of the consumer protocol as a log gives them: compacted, written by an older Kafka, or by a newer one."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import ConsumerGroup, CurrentAssignment, TopicIdPartition
from coterie.coordinator.consumer.topics import TopicImage, TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored import StoredRecord, to_record
from coterie.coordinator.stored_consumer_groups import ConsumerGroupRecord, to_bytes
from coterie.coordinator.write_queue import drive
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.consumer_group_records import (
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
    shard = Shard(CoordinatorConfig())
    for event in gone:
        record = to_record("g", event)
        assert record is not None
        shard.load(record.key, record.value)
    assert not shard.every_group()


class Broker:
    """A shard, the log before it, and what it appended."""

    def __init__(self, *records: ConsumerGroupRecord) -> None:
        self.shard = Shard(CoordinatorConfig(consumer_group_assignment_interval_ms=0))
        for record in records:
            self.shard.load(*to_bytes(record))
        self.shard.loaded(0)
        self.appended: list[StoredRecord] = []
        self.response: Any = None

    def heartbeat(self, epoch: int, owned: list[TopicPartitions] | None, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest("g", "a", epoch, topic_partitions=owned, **fields)
        decision = self.shard.submit(request, Context(1_000, "token", api_version=1, topics=TOPICS))
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
    broker = Broker(ConsumerGroupRecord(key, ConsumerGroupPartitionMetadataValue([])))
    assert broker.shard.consumer_groups["g"].partition_metadata_recorded
    broker.heartbeat(0, [], rebalance_timeout_ms=1_000, subscribed_topic_names=["foo"])
    assert StoredRecord(*to_bytes(ConsumerGroupRecord(key, None))) in broker.appended
    assert not broker.shard.consumer_groups["g"].partition_metadata_recorded


def test_a_member_in_a_state_of_a_newer_kafka_is_fenced_until_it_owns_nothing() -> None:
    """testUnknownState, through a heartbeat."""
    value = ConsumerGroupCurrentMemberAssignmentValue(1, 0, 77, [OwnedPartitions(FOO, [0])], [])
    broker = Broker(ConsumerGroupRecord(ConsumerGroupCurrentMemberAssignmentKey("g", "a"), value))
    assert broker.heartbeat(1, [TopicPartitions(FOO, [0])]).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert broker.heartbeat(1, None).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    joined = broker.heartbeat(0, [], rebalance_timeout_ms=1_000, subscribed_topic_names=["foo"])
    assert not joined.error_code
    assert [(t.topic_id, t.partitions) for t in joined.assignment.topic_partitions] == [(FOO, [0, 1])]
