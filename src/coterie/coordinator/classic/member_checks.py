"""The checks that join, sync, heartbeat, leave and commit share, in Kafka's order; and Heartbeat (scenarios:
tests/spec/heartbeat.txt), which is little else: in a settled group it makes no event, it moves one deadline."""

from __future__ import annotations

from coterie.coordinator.outcome import Context, Outcome, Reply
from coterie.coordinator.state import DEAD, EMPTY, PREPARING, Group, GroupOffsets, Member
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse


def refuse_unnamed(group: GroupOffsets) -> None:
    """Only a simple consumer's offsets may be kept under the empty group id."""
    if not group.group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID)


def refuse_dead(group: Group) -> None:
    """Raises Refusal COORDINATOR_NOT_AVAILABLE for a Dead group: the client looks its coordinator up again
    (Kafka's GroupCoordinator)."""
    if group.phase == DEAD:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def known_member(group: Group, member_id: str, group_instance_id: str | None) -> Member:
    """The member; refuses an unknown one, and a member id that another process with its instance id replaced."""
    if group_instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    current = group.static_members.get(group_instance_id)
    if current is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if current != member_id:
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
    return group.members[current]


def same_generation(group: Group, generation: int) -> None:
    """Raises Refusal ILLEGAL_GENERATION for a generation other than the group's current one."""
    if generation != group.generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION)


def decide_heartbeat(group: Group, request: HeartbeatRequest, ctx: Context) -> Outcome:
    """Restarts the session; the response carries REBALANCE_IN_PROGRESS during a rebalance. Raises Refusal."""
    refuse_unnamed(group)
    refuse_dead(group)
    member = known_member(group, request.member_id, request.group_instance_id)
    same_generation(group, request.generation_id)
    if group.phase == EMPTY:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    code = ErrorCode.REBALANCE_IN_PROGRESS if group.phase == PREPARING else ErrorCode.NONE
    deadline = (member.member_id, ctx.now_ms + member.session_timeout_ms)
    return Outcome([], [Reply(ctx.token, HeartbeatResponse(0, code))], [deadline], is_heartbeat=True)
