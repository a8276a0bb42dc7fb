"""DescribeGroups and ListGroups (scenarios: tests/spec/offsets.txt): a group as others see it."""

from __future__ import annotations

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.state import Group, Phase
from coterie.coordinator.subscriptions import CONSUMER
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.groups.list_groups import ListedGroup

NOT_FOUND_FROM = 6
GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = "consumer"


def describe_group(group: Group | ConsumerGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """Unknown, or of the consumer protocol: Dead with no error up to v5, GROUP_ID_NOT_FOUND from v6 (KIP-1043). Protocol and
    subscriptions are given only for a Stable group; assignments as they stand (Kafka 4; before, of a Stable group only)."""
    if group is None or isinstance(group, ConsumerGroup) or group.phase == Phase.DEAD:
        if api_version >= NOT_FOUND_FROM:
            other = isinstance(group, ConsumerGroup)
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


def list_group(group: Group | ConsumerGroup) -> ListedGroup:
    """The group's row of ListGroups; protocol type "" where a classic group has had no member."""
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, CONSUMER, group.phase.value, CONSUMER_GROUP_TYPE)
    return ListedGroup(group.group_id, group.protocol_type or "", group.phase.value, GROUP_TYPE)
