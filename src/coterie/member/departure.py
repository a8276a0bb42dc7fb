"""Whether a member that closes leaves its group (KIP-1092)."""

from __future__ import annotations

from enum import Enum


class GroupMembershipOperation(Enum):
    """What closing does with the membership, by Kafka's names. A member that remains keeps its partitions until its session
    times out, or, where it is static, until it comes back."""

    DEFAULT = "default"  # a dynamic member leaves, a static one remains
    LEAVE_GROUP = "leave_group"
    REMAIN_IN_GROUP = "remain_in_group"

    def leaves(self, group_instance_id: str | None) -> bool:
        """Whether a member of that instance id, None for a dynamic one, leaves for good."""
        if self is GroupMembershipOperation.DEFAULT:
            return group_instance_id is None
        return self is GroupMembershipOperation.LEAVE_GROUP
