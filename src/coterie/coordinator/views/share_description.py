"""ShareGroupDescribe (KIP-932): a share group with its epochs, and of each member what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.state import TopicId, TopicIdPartition
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import GroupOffsets
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.consumer_group_describe import Assignment, TopicPartitions
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup, ShareMember

ASSIGNOR = "simple"


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
