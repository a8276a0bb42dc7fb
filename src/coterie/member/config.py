"""What a user sets of a member: the settings of both protocols, and whether closing leaves the group (KIP-1092)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from coterie.assignors import ASSIGNORS, AssignorSpec, RebalanceProtocol, protocol_of


@dataclass(slots=True)
class MemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``assignors`` in order of preference, by their names in
    ``assignor_specs``."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    rack: str | None = None
    retry_backoff_max_ms: int = 1_000
    assignor_specs: Mapping[str, AssignorSpec] = field(default_factory=lambda: ASSIGNORS)

    @property
    def protocol(self) -> RebalanceProtocol:
        """The one in force. Raises ValueError where the assignors share none."""
        protocol = protocol_of(self.assignors, self.assignor_specs)
        if protocol is None:
            raise ValueError(
                f"the assignors {', '.join(self.assignors)} share no rebalance protocol; list fewer of them"
            )
        return protocol


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


@dataclass(frozen=True, slots=True)
class ConsumerMemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``member_id``: chosen by the client and kept for its life
    (KIP-1082). The session timeout and the interval of heartbeats are the broker's. ``shares``: a member of a share group
    (KIP-932), which is neither static nor reports what is assigned to it."""

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    max_poll_interval_ms: int = 300_000  # also the rebalance timeout
    remote_assignor: str | None = None
    rack: str | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    shares: bool = False
