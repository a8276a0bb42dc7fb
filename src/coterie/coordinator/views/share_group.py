"""A share group as others see it: why it stands where it stands (whose heartbeat is due, and which partitions have no state
yet), and ShareGroupDescribe (KIP-932) with its epochs, and of each member what it has.

A pure look at the state. Times in ms; the explanation has the fields of `classic_group`, and the epochs beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.state import TopicId, TopicIdPartition
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.target import NO_PARTITIONS, time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.share.state import ShareGroup, ShareGroupMember, StatePartitions
from coterie.coordinator.state import GroupOffsets
from coterie.coordinator.views.modern_explanation import awaited_member, explained, member_session, next_timeout
from coterie.text.phrase import Phrase, phrase_fields
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.consumer_group_describe import Assignment, TopicPartitions
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup, ShareMember

ASSIGNOR = "simple"


def explain_share_group(group: ShareGroup, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values; ``generation`` is the group epoch."""
    waiting = [_waits(m) for m in group.members.values() if m.current.member_epoch < group.assignment_epoch]
    return explained(group, now_ms, "share", ASSIGNOR, waiting) | {
        "next_timeout": next_timeout(group, now_ms, lambda member_id: Phrase("then_redelivered", {})),
        **phrase_fields("verdict", _verdict(group, waiting, now_ms, config)),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
    }


def _waits(member: ShareGroupMember) -> dict[str, Any]:
    return awaited_member(member.member_id, member.subscription.client_id, Phrase("takes_share_target", {}))


def _verdict(group: ShareGroup, waiting: list[dict[str, Any]], now_ms: int, config: CoordinatorConfig) -> Phrase:
    if not group.members:
        return Phrase("empty", {})
    states = group.states or StatePartitions()
    pending = sum(len(topic.partitions) for topic in states.initializing.values())
    if pending:
        return Phrase("states_initialize", {"partitions": pending})
    if group.group_epoch > group.assignment_epoch:
        interval_ms = config.group_share_assignment_interval_ms
        left_ms = time_to_target_ms(group.assignment_timestamp_ms, interval_ms, now_ms)
        return (
            Phrase("computes_share_target_after", {"ms": left_ms}) if left_ms else Phrase("computes_share_target", {})
        )
    if waiting:
        return Phrase("share_target_awaited", {"late": len(waiting), "members": len(group.members)})
    return Phrase("share_target_taken", {})


def _member(group: ShareGroup, member: ShareGroupMember, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    timers, timeout_ms = group.timers[member.member_id], config.group_share_session_timeout_ms
    return {
        "member_id": member.member_id,
        "group_instance_id": None,
        "client_id": member.subscription.client_id,
        "assignors": [],
        "host": member.subscription.client_host,
        **member_session(timers.session_ms, timeout_ms, now_ms),
        "heartbeat_interval_ms": config.group_share_heartbeat_interval_ms,
        "rebalance_timeout_ms": -1,
        "member_epoch": member.current.member_epoch,
        "assigned": len(member.current.assigned),
        "target": len(group.target.get(member.member_id, NO_PARTITIONS)),
    }


def describe_share_group(group: GroupOffsets | None, group_id: str, topics: TopicsImage) -> DescribedShareGroup:
    """GROUP_ID_NOT_FOUND where there is none, or one of another kind. Topics that are deleted are left out."""
    if not isinstance(group, ShareGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return DescribedShareGroup(ErrorCode.GROUP_ID_NOT_FOUND, short_text(missing), group_id)
    names = {image.topic_id: image.name for image in topics.topics.values()}
    return DescribedShareGroup(
        ErrorCode.NONE,
        None,
        group_id,
        group_state=group.phase.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[
            ShareMember(
                member.member_id,
                member.subscription.rack_id,
                member.current.member_epoch,
                client_id=member.subscription.client_id,
                client_host=member.subscription.client_host,
                subscribed_topic_names=sorted(member.subscription.topic_names),
                assignment=_assignment(member.current.assigned, names),
            )
            for member in group.members.values()
        ],
    )


def _assignment(partitions: Iterable[TopicIdPartition], names: Mapping[TopicId, str]) -> Assignment:
    grouped = partitions_by_topic(partitions)
    return Assignment([TopicPartitions(topic, names[topic], numbers) for topic, numbers in grouped if topic in names])
