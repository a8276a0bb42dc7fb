"""For how long a consumer group has been in its state, as `explain_consumer_group` reports it. ConsumerGroupDescribe of
the core."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.coordinator.stored_records.stored_consumer_groups import GroupRecord, to_bytes
from coterie.coordinator.views.consumer_group import describe_consumer_group, explain_consumer_group
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import Assignment, DescribedGroup, Member
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.stored.consumer_group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator

TOPIC = TopicImage("t", bytes(15) + b"\1", 4)
TOPICS = TopicsImage({"t": TOPIC}, 1, 1)
ONE_TOPIC = TopicsImage({"t": TopicImage("t", bytes(15) + b"\1", 3)}, 1, 1)
ASSIGNORS = ["range"]


class Keeping(Coordinator):
    """A coordinator that keeps its records with their times."""

    def __init__(self) -> None:
        super().__init__(TOPICS)
        self.records: list[tuple[StoredRecord, int]] = []

    def _append(self, decisions: list[Decision]) -> None:
        self.records += [(record, decision.now_ms) for decision in decisions for record in decision.records]

    def explained(self, now_ms: int, shard: Shard | None = None) -> tuple[str, Any]:
        group = (shard or self.shard).group("g")
        assert isinstance(group, ConsumerGroup)
        document = explain_consumer_group(group, now_ms, CoordinatorConfig(), TOPICS)
        return document["state"], document["in_state_ms"]


def test_the_time_begins_with_the_event_that_changed_the_state() -> None:
    here = Keeping()
    here.join("g", "a", subscribed_topic_names=["t"])
    stable_ms = here.now_ms
    assert here.explained(stable_ms + 250) == ("Stable", 250)
    here.send("g", "a", 2)
    assert here.explained(stable_ms + 300) == ("Stable", 300), "a heartbeat changes nothing"
    here.join("g", "b", subscribed_topic_names=["t"])
    reconciling_ms = here.now_ms
    assert here.explained(reconciling_ms + 40) == ("Reconciling", 40)
    here.send("g", "a", 2)  # its response revokes; the group is still reconciling
    assert here.explained(reconciling_ms + 500) == ("Reconciling", 500)
    kept = here.shard.group("g")
    assert isinstance(kept, ConsumerGroup)
    left = sorted(p for _, p in kept.members["a"].current.assigned)
    here.send("g", "a", 2, topic_partitions=[TopicPartitions(TOPIC.topic_id, left)])
    here.send("g", "b", 3)
    assert here.explained(here.now_ms + 7) == ("Stable", 7)
    assert here.explained(here.now_ms - 50) == ("Stable", 0), "a clock that was set back"


def test_a_group_that_is_loaded_has_the_time_of_its_records() -> None:
    here = Keeping()
    here.join("g", "a", subscribed_topic_names=["t"])
    loaded = Shard(CoordinatorConfig())
    for record, time_ms in here.records:
        loaded.load(record.key, record.value, time_ms)
    assert here.explained(here.now_ms + 900, loaded) == here.explained(here.now_ms + 900) == ("Stable", 900)


def described(shard: Shard, group_id: str) -> DescribedGroup:
    return describe_consumer_group(shard.group(group_id), group_id, ONE_TOPIC, ASSIGNORS)


def test_groups_without_a_target_assignment() -> None:
    """testConsumerGroupDescribeNoErrors: the assignor is that of the members, also where this broker does not have it."""
    shard = Shard(CoordinatorConfig())
    for group_id in ("g1", "g2"):
        shard.load(*to_bytes(GroupRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(10))))
    subscription = ConsumerGroupMemberMetadataValue(None, None, "client", "/h", ["t"], None, 60_000, "assignorName")
    shard.load(*to_bytes(GroupRecord(ConsumerGroupMemberMetadataKey("g2", "m"), subscription)))
    assert described(shard, "g1") == DescribedGroup(0, None, "g1", "Empty", 10, 1, "range", [])
    member = Member("m", None, None, 0, "client", "/h", ["t"], "", Assignment([]), Assignment([]), 1)
    assert described(shard, "g2") == DescribedGroup(0, None, "g2", "Assigning", 10, 1, "assignorName", [member])


def test_a_group_is_described_once_its_records_are_appended() -> None:
    """testConsumerGroupDescribeBeforeAndAfterCommittingOffset, testConsumerGroupDescribeWithErrors"""
    shard = Shard(CoordinatorConfig(group_consumer_assignment_interval_ms=60_000))
    for member_id in ("m1", "m2"):
        before = described(shard, "g")
        join = ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 60_000, ["t"], None, None, [])
        decision = shard.decide(join, Context(1_000, "token", "", 1, "client", "/h", ONE_TOPIC))
        assert decision.records
        assert described(shard, "g") == before
        if member_id == "m1":
            assert (before.error_code, before.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
        shard.commit(decision)
    group = described(shard, "g")
    assert (group.group_state, group.assignor_name, group.group_epoch, group.assignment_epoch) == (
        "Assigning",
        "range",
        3,
        2,
    )
    targets = {m.member_id: [t.partitions for t in m.target_assignment.topic_partitions] for m in group.members}
    assert targets == {"m1": [[0, 1, 2]], "m2": []}
