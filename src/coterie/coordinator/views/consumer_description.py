"""ConsumerGroupDescribe (KIP-848): a group with its epochs, and of each member what it has and is to have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember, TopicId, TopicIdPartition
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.target import NO_PARTITIONS, assignor_wishes, preferred_assignor
from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.coordinator.state import GroupOffsets
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types (KIP-1099)


def describe_consumer_group(
    group: GroupOffsets | None, group_id: str, topics: TopicsImage, assignors: Iterable[str]
) -> DescribedGroup:
    """GROUP_ID_NOT_FOUND where there is none, or one of the classic protocol. Topics that are deleted are left out.
    ``assignors`` are the broker's, the default one first; members may request others, where an earlier broker had them."""
    if not isinstance(group, ConsumerGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, short_text(missing), group_id)
    names = {image.topic_id: image.name for image in topics.topics.values()}
    wishes = assignor_wishes(group.members.values())
    return DescribedGroup(
        ErrorCode.NONE,
        None,
        group_id,
        group_state=group.phase.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(wishes, list(dict.fromkeys([*assignors, *filter(None, wishes)]))),
        members=[_member(group, member, names) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, names: Mapping[TopicId, str]) -> Member:
    subscription, current = member.subscription, member.current
    return Member(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex,
        # The member owns what it is to revoke until it has revoked it.
        assignment=_assignment((*current.assigned, *current.pending_revocation), names),
        target_assignment=_assignment(group.target.get(member.member_id, NO_PARTITIONS), names),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], names: Mapping[TopicId, str]) -> Assignment:
    grouped = partitions_by_topic(partitions)
    return Assignment([TopicPartitions(topic, names[topic], numbers) for topic, numbers in grouped if topic in names])
