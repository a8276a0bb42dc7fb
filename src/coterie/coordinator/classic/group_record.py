"""The record that stores a group: who is in it, and what each was assigned."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.coordinator.events import GroupStored
from coterie.coordinator.state import Group
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata


def group_stored(group: Group, assignments: Mapping[str, bytes], now_ms: int) -> GroupStored:
    """The group as it stands, with these assignments; a member left out gets empty bytes."""
    assert group.protocol is not None
    return GroupStored(
        GroupMetadataValue(
            group.protocol_type or "",
            group.generation,
            group.protocol,
            group.leader,
            now_ms,
            [
                MemberMetadata(
                    m.member_id,
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    rebalance_timeout=m.rebalance_timeout_ms,
                    session_timeout=m.session_timeout_ms,
                    subscription=m.metadata(group.protocol),
                    assignment=assignments.get(m.member_id, b""),
                )
                for m in group.members.values()
            ],
        )
    )


def group_store_error(code: ErrorCode) -> ErrorCode:
    """The error in a member's response where the append of a group's record failed (scenario testStoreGroupErrorMapping)."""
    return _STORE_ERRORS.get(code, code)


_STORE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def empty_group_stored(group: Group, generation: int, now_ms: int) -> GroupStored:
    """The record of a generation without members."""
    return GroupStored(GroupMetadataValue(group.protocol_type or "", generation, None, None, now_ms, []))
