"""The requests a member sends, made of what it knows of itself."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.assignors import Assignment
from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.member.config import MemberConfig
from coterie.member.effects import TopicPartition
from coterie.member.state import MembershipState, OwnershipState
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
MAX_REASON = 255  # characters, as the coordinator cuts it (KIP-800)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """topic -> partitions, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped


def join_request(config: MemberConfig, membership: MembershipState, ownership: OwnershipState) -> JoinGroupRequest:
    """A subscription for each assignor, which may add user data made of the last assignment."""
    protocols = []
    owned, (last, last_generation) = by_topic(ownership.owned), ownership.last_assignment
    for name in config.assignors:
        user_data = config.assignor_specs[name].user_data(by_topic(last), last_generation)
        metadata = encode_subscription(membership.topics, owned, membership.generation, config.rack, user_data)
        protocols.append(JoinGroupRequestProtocol(name, metadata))
    return JoinGroupRequest(
        config.group_id,
        config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=membership.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=membership.reason[:MAX_REASON],
    )


def sync_request(
    config: MemberConfig, member_id: str, generation: int, protocol: str | None, assignments: Assignment
) -> SyncGroupRequest:
    """``assignments``: of the leader, by member id; a follower's is empty."""
    return SyncGroupRequest(
        config.group_id,
        generation,
        member_id,
        config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(m, encode_assignment(partitions)) for m, partitions in assignments.items()
        ],
    )


def heartbeat_request(config: MemberConfig, member_id: str, generation: int) -> HeartbeatRequest:
    """A heartbeat of the generation, with the instance id of a static member."""
    return HeartbeatRequest(config.group_id, generation, member_id, config.group_instance_id)


def leave_request(config: MemberConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """``reason`` is cut to `MAX_REASON` characters (KIP-800)."""
    identity = MemberIdentity(member_id, None, reason[:MAX_REASON])
    return LeaveGroupRequest(config.group_id, member_id, [identity])
