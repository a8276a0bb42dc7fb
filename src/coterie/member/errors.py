"""The errors of the group protocol, sorted by what a member must do (Kafka's AbstractCoordinator)."""

from __future__ import annotations

from enum import Enum

from coterie.wire.errors import COORDINATOR_LOST, ErrorCode, error_of
from coterie.wire.messages.groups.leave_group import LeaveGroupResponse


class Remedy(Enum):
    """What a member does after an error."""

    RETRY = "try the same again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REJOIN = "join again with the same member id"
    REJOIN_AS_NEW = "forget generation (and member id), join again; what was owned is lost"
    GIVE_UP = "tell the caller"


_REMEDIES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    **dict.fromkeys(COORDINATOR_LOST, Remedy.FIND_COORDINATOR),
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.ILLEGAL_GENERATION: Remedy.REJOIN_AS_NEW,
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Remedy.GIVE_UP,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: Remedy.GIVE_UP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Remedy.GIVE_UP,
    ErrorCode.GROUP_MAX_SIZE_REACHED: Remedy.GIVE_UP,
}


def leave_refusal(response: LeaveGroupResponse) -> ErrorCode:
    """What went wrong with our leaving: the error of the whole, or of our one entry. A response that names several members
    is one that was not requested."""
    if response.error_code or not response.members:
        return error_of(response.error_code)
    if len(response.members) > 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error_of(response.members[0].error_code)


def remedy_for(code: ErrorCode) -> Remedy:
    """What that response to a join, sync or heartbeat calls for; an error listed nowhere is for the caller."""
    return _REMEDIES.get(code, Remedy.GIVE_UP)
