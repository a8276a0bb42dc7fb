"""DescribeGroups and ListGroups (scenarios: tests/spec/offsets.txt): a group as others see it."""

from __future__ import annotations

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Group, Phase
from coterie.coordinator.streams.state import StreamsGroup
from coterie.coordinator.subscriptions import CONSUMER
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.groups.list_groups import ListedGroup

NOT_FOUND_FROM = 6
GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = "consumer"
SHARE = "share"  # the protocol type and the type of a share group
STREAMS = "streams"  # the protocol type and the type of a streams group


def describe_group(group: AnyGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """Unknown, or of another kind than classic: Dead with no error up to v5, GROUP_ID_NOT_FOUND from v6 (KIP-1043). Protocol
    and subscriptions are given only for a Stable group; assignments as they stand (Kafka 4; before, of a Stable group only)."""
    if not isinstance(group, Group) or group.phase == Phase.DEAD:
        if api_version >= NOT_FOUND_FROM:
            other = group is not None and not isinstance(group, Group)
            text = f"Group {group_id} is not a classic group." if other else f"Group {group_id} not found."
            return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, short_text(text), group_id, Phase.DEAD.value)
        return DescribedGroup(ErrorCode.NONE, None, group_id, Phase.DEAD.value)
    stable = group.phase == Phase.STABLE and group.protocol is not None
    return DescribedGroup(
        ErrorCode.NONE,
        None,
        group_id,
        group_state=group.phase.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.metadata(group.protocol) if stable and group.protocol is not None else b"",
                m.assignment,
            )
            for m in group.members.values()
        ],
    )


def list_group(group: AnyGroup) -> ListedGroup:
    """The group's row of ListGroups; protocol type "" where a classic group has had no member."""
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, CONSUMER, group.phase.value, CONSUMER_GROUP_TYPE)
    if isinstance(group, ShareGroup):
        return ListedGroup(group.group_id, SHARE, group.phase.value, SHARE)
    if isinstance(group, StreamsGroup):
        return ListedGroup(group.group_id, STREAMS, group.phase.value, STREAMS)
    return ListedGroup(group.group_id, group.protocol_type or "", group.phase.value, GROUP_TYPE)
