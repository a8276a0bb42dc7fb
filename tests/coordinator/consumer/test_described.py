"""For how long a consumer group has been in its state, as `explain_consumer_group` reports it. ConsumerGroupDescribe of
the core."""

from __future__ import annotations

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored_records.stored_consumer_groups import GroupRecord, to_bytes
from coterie.coordinator.views.consumer_group import describe_consumer_group
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import Assignment, DescribedGroup, Member
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.stored.consumer_group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)

TOPICS = TopicsImage({"t": TopicImage("t", bytes(15) + b"\1", 3)}, 1, 1)
ASSIGNORS = ["range"]


def described(shard: Shard, group_id: str) -> DescribedGroup:
    return describe_consumer_group(shard.group(group_id), group_id, TOPICS, ASSIGNORS)


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
        decision = shard.decide(join, Context(1_000, "token", "", 1, "client", "/h", TOPICS))
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
