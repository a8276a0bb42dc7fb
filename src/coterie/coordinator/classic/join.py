"""JoinGroup (scenarios: tests/spec/join.txt, tests/spec/rejoin.txt, tests/spec/static_members.txt)."""

from __future__ import annotations

from dataclasses import replace
from sys import intern

from coterie.coordinator import events as e
from coterie.coordinator.classic.member_checks import known_member, refuse_dead
from coterie.coordinator.classic.sync import group_store_error, group_stored, sync_refused
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    NO_GENERATION,
    PREPARING,
    STABLE,
    UNKNOWN_MEMBER,
    Cause,
    Group,
    Member,
    Protocols,
    count_protocols,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9


def join_refused(request: JoinGroupRequest, code: ErrorCode, member_id: str | None = None) -> JoinGroupResponse:
    """A response with an error: no generation, no protocol, no leader; after a failure of the broker's no member id either."""
    if code == ErrorCode.UNKNOWN_SERVER_ERROR:
        member_id = UNKNOWN_MEMBER
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        member_id=request.member_id if member_id is None else member_id,
    )


def check_join(request: JoinGroupRequest, config: CoordinatorConfig) -> None:
    """What a JoinGroup to a group of either kind must have. Raises Refusal."""
    if not request.group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID)
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        raise Refusal(ErrorCode.INVALID_SESSION_TIMEOUT)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """JoinGroup v0 has none: the session timeout serves for both."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def decide_join(
    group: Group, exists: bool, request: JoinGroupRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Lets a member in, has it wait, or repeats the current generation to it. Raises Refusal."""
    check_join(request, config)
    newcomer = request.member_id == UNKNOWN_MEMBER
    if not newcomer and not exists:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if not _has_room(group, request.member_id, config):
        return _refused(group, request, ctx)
    refuse_dead(group)
    protocols = tuple([(intern(p.name), p.metadata) for p in request.protocols])
    if not group.supports(request.protocol_type, protocols):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if newcomer:
        return _newcomer(group, request, protocols, ctx, config)
    if request.member_id in group.reservations:
        if request.group_instance_id is not None:
            # An id that was assigned to a dynamic member; Kafka's error for this illegal state.
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        return _add(group, request, request.member_id, protocols, ctx, config)
    member = known_member(group, request.member_id, request.group_instance_id)
    return _known(group, member, request, protocols, ctx)


def _has_room(group: Group, member_id: str, config: CoordinatorConfig) -> bool:
    if group.phase in (EMPTY, DEAD):
        return True
    if group.phase == PREPARING:
        return member_id in group.waiting_joins or len(group.waiting_joins) < config.group_max_size
    return member_id in group.members or len(group.members) < config.group_max_size


def _refused(group: Group, request: JoinGroupRequest, ctx: Context) -> Outcome:
    """The group is full. A member or pending id without room is removed from the group."""
    reply = Reply(ctx.token, join_refused(request, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER))
    cause = _cause("group_max_size", request, request.member_id, ctx)
    if request.member_id in group.members:
        return Outcome([e.MemberRemoved(request.member_id, cause)], [reply])
    if request.member_id in group.reservations:
        return Outcome([e.ReservationDropped(request.member_id, cause)], [reply])
    return Outcome(replies=[reply])


def _cause(kind: str, request: JoinGroupRequest, member_id: str, ctx: Context) -> Cause:
    return Cause(kind, member_id, ctx.client_id, request.group_instance_id, request.reason)


def _newcomer(
    group: Group, request: JoinGroupRequest, protocols: Protocols, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    static = request.group_instance_id
    member_id = f"{ctx.client_id if static is None else static}-{ctx.fresh_id}"
    if static is None:
        if ctx.api_version >= MEMBER_ID_REQUIRED_FROM:
            deadline_ms = ctx.now_ms + request.session_timeout_ms
            response = join_refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return Outcome([e.MemberIdReserved(member_id, deadline_ms)], [Reply(ctx.token, response)])
        return _add(group, request, member_id, protocols, ctx, config)
    old_member_id = group.static_members.get(static)
    if old_member_id is None:
        return _add(group, request, member_id, protocols, ctx, config)
    new = _member(request, member_id, protocols, ctx, request.session_timeout_ms)
    return _replace_static(group, group.members[old_member_id], request, new, ctx)


def _member(request: JoinGroupRequest, member_id: str, protocols: Protocols, ctx: Context, within_ms: int) -> Member:
    return Member(
        member_id,
        request.group_instance_id,
        ctx.client_id,
        ctx.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        protocols=protocols,
        is_new=True,
        deadline_ms=ctx.now_ms + within_ms,
    )


def _add(
    group: Group,
    request: JoinGroupRequest,
    member_id: str,
    protocols: Protocols,
    ctx: Context,
    config: CoordinatorConfig,
) -> Outcome:
    # A new member cannot heartbeat while its JoinGroup waits, so it has a limit of its own until the join completes.
    member = _member(request, member_id, protocols, ctx, config.new_member_join_timeout_ms)
    cause = _cause("member_joined", request, member_id, ctx)
    return Outcome([e.MemberJoined(member, request.protocol_type, ctx.token, cause)])


def _known(group: Group, member: Member, request: JoinGroupRequest, protocols: Protocols, ctx: Context) -> Outcome:
    unchanged = member.protocols == protocols
    is_leader = group.leader == member.member_id
    if group.phase == EMPTY:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase == COMPLETING and unchanged:
        return Outcome(replies=[Reply(ctx.token, current_generation(group, member.member_id, with_members=is_leader))])
    if group.phase == STABLE and unchanged and not is_leader:
        return Outcome(replies=[Reply(ctx.token, current_generation(group, member.member_id, with_members=False))])
    cause = None
    if group.phase != PREPARING:
        cause = _cause("leader_rejoined" if unchanged else "subscription_changed", request, member.member_id, ctx)
    fresh = _member(request, member.member_id, protocols, ctx, request.session_timeout_ms)
    rejoined = e.MemberRejoined(
        member.member_id, protocols, fresh.session_timeout_ms, fresh.rebalance_timeout_ms, ctx.token, cause
    )
    return Outcome(
        [rejoined], _respond_to_superseded(group, member.member_id, request, ErrorCode.REBALANCE_IN_PROGRESS)
    )


def _respond_to_superseded(group: Group, member_id: str, request: JoinGroupRequest, code: ErrorCode) -> list[Reply]:
    """A second JoinGroup of a member while its first one waits: the first receives a response too."""
    earlier = group.waiting_joins.get(member_id)
    return [] if earlier is None else [Reply(earlier, join_refused(request, code, member_id))]


def current_generation(
    group: Group, member_id: str, *, with_members: bool, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The JoinGroup response of the current generation; only the leader's lists the members."""
    members: list[JoinGroupResponseMember] = []
    if with_members:
        assert group.protocol is not None
        members = [
            JoinGroupResponseMember(m.member_id, m.group_instance_id, m.metadata(group.protocol))
            for m in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or None,
        leader=leader if leader is not None else group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def _replace_static(group: Group, old: Member, request: JoinGroupRequest, new: Member, ctx: Context) -> Outcome:
    """A static member came back with no member id: the old id is fenced from now on (KIP-345)."""
    assert group.phase != EMPTY, f"group {group.group_id} is Empty and yet maps {new.group_instance_id}"
    new = replace(new, is_new=False, assignment=old.assignment)
    cause = _cause("static_member_returned", request, new.member_id, ctx)
    fenced = _respond_to_superseded(group, old.member_id, request, ErrorCode.FENCED_INSTANCE_ID)
    if old.member_id in group.waiting_syncs:
        fenced.append(Reply(group.waiting_syncs[old.member_id], sync_refused(ErrorCode.FENCED_INSTANCE_ID)))
    if group.phase == STABLE and _protocol_if(group, old, new) == group.protocol:
        return _replace_quietly(group, old, new, ctx, cause, fenced)
    rebalance = group.phase != PREPARING
    return Outcome([e.StaticMemberReplaced(old.member_id, new, ctx.token, cause, rebalance)], fenced)


def _protocol_if(group: Group, old: Member, new: Member) -> str:
    """The protocol the group would choose with ``new`` in the place of ``old``."""
    members = {m.member_id: (new if m is old else m) for m in group.members.values()}
    return Group(group.group_id, members=members, protocol_counts=count_protocols(members.values())).select_protocol()


def _replace_quietly(
    group: Group, old: Member, new: Member, ctx: Context, cause: Cause, fenced: list[Reply]
) -> Outcome:
    """No rebalance: the new member id is persisted first, then returned with the generation in force."""
    old_leader = group.leader
    after = replace(
        group,
        members={(new if m is old else m).member_id: (new if m is old else m) for m in group.members.values()},
        leader=new.member_id if old_leader == old.member_id else old_leader,
    )
    stored = group_stored(after, {m.member_id: m.assignment for m in after.members.values()}, ctx.now_ms)
    is_leader = after.leader == new.member_id
    if ctx.api_version >= SKIP_ASSIGNMENT_FROM:
        # KIP-814: the restarted leader learns that it leads, and that it need not assign.
        response = current_generation(after, new.member_id, with_members=is_leader, skip_assignment=is_leader)
    else:
        # With the old leader's id in the response an older client acts as a follower and computes no assignment.
        response = current_generation(after, new.member_id, with_members=False, leader=old_leader)

    def failed(code: ErrorCode) -> Outcome:
        # Kafka's response names the generation that goes on without the new id.
        unchanged = current_generation(group, UNKNOWN_MEMBER, with_members=False)
        unchanged.error_code = group_store_error(code)
        return Outcome(replies=[Reply(ctx.token, unchanged)])

    return Outcome(
        [e.StaticMemberReplaced(old.member_id, new, None, cause, False), stored],
        [*fenced, Reply(ctx.token, response)],
        on_append_error=failed,
    )
