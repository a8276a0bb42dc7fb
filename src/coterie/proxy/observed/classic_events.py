"""From the requests of a group's members, and their responses, to what happened to the group: the table REQUESTS when a request
goes to the coordinator, the table RESPONSES when its response is here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.classic.join import decide_join, rebalance_timeout_ms
from coterie.coordinator.classic.leave import BATCH_FROM, decide_leave
from coterie.coordinator.classic.sync import group_stored
from coterie.coordinator.offsets.replay import replay_offset
from coterie.coordinator.replay import restart_session
from coterie.coordinator.state import COMPLETING, PREPARING, STABLE, Cause, CommittedOffset, Member
from coterie.proxy.observed.classic_group import (
    ANY_CONFIG,
    NAMED,
    OBSERVED,
    UNKNOWN,
    Evidence,
    ObservedClassicGroup,
    SeenRequest,
    error_code,
    form_missed,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

# -- requests ---------------------------------------------------------------------------------------------------------


def _join_sent(one: ObservedClassicGroup, seen: SeenRequest, now_ms: int) -> None:
    """A newcomer's id comes with its response. Beside the leader's SyncGroup it may be either's turn at the coordinator first:
    the response to the SyncGroup shows whose it was."""
    if seen.request.member_id and one.group.phase == COMPLETING and _leader_syncs(one):
        one.beside_sync.append(seen)
    elif seen.request.member_id:
        _decide_join(one, seen, now_ms)


def _leader_syncs(one: ObservedClassicGroup) -> bool:
    """Whether the SyncGroup that ends the phase has no response yet."""
    wanted = one.group.leader, one.group.generation
    return any(
        isinstance(other.request, SyncGroupRequest) and (other.request.member_id, other.request.generation_id) == wanted
        for other in one.in_flight
    )


def decide_beside_sync(one: ObservedClassicGroup, now_ms: int) -> None:
    """The JoinGroups that waited for the leader's SyncGroup, once it has its response or its connection has ended."""
    if not _leader_syncs(one):
        _decide_waiting(one, now_ms)


def _decide_waiting(one: ObservedClassicGroup, now_ms: int) -> None:
    joins, one.beside_sync = one.beside_sync, []
    for seen in joins:
        _decide_join(one, seen, now_ms)


def _sync_sent(one: ObservedClassicGroup, seen: SeenRequest, now_ms: int) -> None:
    group, request = one.group, seen.request
    is_owed = request.member_id in group.pending_sync and request.generation_id == group.generation
    if group.phase == COMPLETING and is_owed:
        one.apply([e.SyncReceived(request.member_id, seen)], now_ms)


def _nothing(one: ObservedClassicGroup, seen: SeenRequest, now_ms: int) -> None:
    """What it does is known with its response."""


def _decide_join(one: ObservedClassicGroup, seen: SeenRequest, now_ms: int, member_id: str = "") -> None:
    """By the coordinator's own rules, on the group as it is known here."""
    try:
        outcome = decide_join(one.group, True, seen.request, seen.context(now_ms, member_id), ANY_CONFIG)
    except Refusal:
        return
    one.apply(outcome.events, now_ms)


# -- responses --------------------------------------------------------------------------------------------------------


def _join_responded(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    group, request = one.group, seen.request
    if seen in one.beside_sync:
        _decide_waiting(one, now_ms)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        deadline_ms = now_ms + request.session_timeout_ms
        one.apply([e.MemberIdReserved(response.member_id, deadline_ms)], now_ms)
    elif response.error_code == ErrorCode.NONE:
        if response.generation_id == group.generation and group.phase in (COMPLETING, STABLE):
            _repeated(one, seen, response, now_ms)
        elif response.generation_id > group.generation:
            _formed(one, seen, response, now_ms)
        restart_session(group, response.member_id, now_ms + request.session_timeout_ms)
    else:
        _refused(one, request.member_id, response.error_code, now_ms)


def _repeated(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    """The generation in force: to a member that lost a response, or to a static one that returned."""
    if response.member_id not in one.group.members and not seen.request.member_id:
        _decide_join(one, seen, now_ms, response.member_id)


def _formed(
    one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int, *, is_held_back: bool = False
) -> None:
    """A generation: the leader's response has its members. Others are kept until it is here, or, where it will not come, until
    those of the newcomers are, which come at the same time."""
    group = one.group
    listed = {member.member_id: member for member in response.members}
    if not listed and not is_held_back and any(_may_follow(other, response.leader) for other in one.in_flight):
        one.held_back.append((seen, response))
        one.held_back_ms = now_ms
        return
    one.drop_reservations(now_ms)
    _name_newcomers(one, seen, response, listed, now_ms)
    if group.phase == PREPARING:
        kept = {response.leader, response.member_id, *listed, *(late.member_id for _, late in one.held_back)}
        form_missed(one, response, kept, now_ms)
    if listed:
        for other in [o for o in one.in_flight if isinstance(o.request, LeaveGroupRequest)]:
            left(one, other, None, now_ms, set(listed))
        _remove_absent(one, set(listed), now_ms)
        _add_strangers(one, seen, response, now_ms)
    elif group.phase == PREPARING:
        _remove_unjoined(one, response.member_id, now_ms)
    if response.member_id not in group.members:  # it was in the group before anything was seen here
        one.apply(
            [_joins(seen, response.member_id, Cause("not_seen", response.member_id, seen.client_id))], now_ms, UNKNOWN
        )
    if group.phase != PREPARING or one.is_unexplained:
        one.want(now_ms)
    protocol = response.protocol_name or ""
    lacking = [m for m in group.members.values() if protocol not in dict(m.protocols)]
    for member in lacking:  # it cannot be in a generation of that protocol
        one.apply([e.MemberRemoved(member.member_id, one.cause("member_gone", member))], now_ms, UNKNOWN)
    one.apply([e.GenerationFormed(response.generation_id, protocol, response.leader, None)], now_ms)
    one.is_whole = bool(listed)
    for member in group.members.values():
        restart_session(group, member.member_id, now_ms + member.session_timeout_ms)
    held_back, one.held_back = one.held_back, []
    for other, late in held_back:
        _join_responded(one, other, late, now_ms)
    # What was sent while others were held back.
    for other in [o for o in one.in_flight if isinstance(o.request, SyncGroupRequest)]:
        _sync_sent(one, other, now_ms)


def form_held_back(one: ObservedClassicGroup, now_ms: int) -> None:
    """The generation whose leader's response does not come, of the responses that are here."""
    if one.held_back:
        seen, response = one.held_back.pop(0)
        _formed(one, seen, response, now_ms, is_held_back=True)


def _may_follow(other: SeenRequest, leader: str) -> bool:
    """Whether a request under way is a JoinGroup whose response tells more of the generation: the leader's, a newcomer's."""
    return isinstance(other.request, JoinGroupRequest) and other.request.member_id in (leader, "")


def _may_be(other: SeenRequest, member_id: str) -> bool:
    """Whether a JoinGroup under way may be that member's."""
    request = other.request
    if not request.member_id:
        return member_id.startswith(f"{request.group_instance_id or other.client_id}-")
    return bool(request.member_id == member_id)


def _name_newcomers(
    one: ObservedClassicGroup, seen: SeenRequest, response: Any, listed: dict[str, Any], now_ms: int
) -> None:
    """JoinGroups without an id, whose responses have it: this one's, and, by the leader's list or its id, of the others under
    way, or lost with their connection."""
    named = [(other, late.member_id) for other, late in [*one.held_back, (seen, response)]]
    known = {*one.group.members, *(member_id for _, member_id in named)}
    ids = [member_id for member_id in dict.fromkeys([*listed, response.leader]) if member_id not in known]
    for other in [*(o for o in one.in_flight if isinstance(o.request, JoinGroupRequest)), *one.lost_joins]:
        member_id = next((i for i in ids if not other.request.member_id and _may_be(other, i)), "")
        named.append((other, member_id))
        ids = [i for i in ids if i != member_id]
    for other, member_id in sorted(named, key=lambda pair: pair[0].sent_ms):
        if member_id and not other.request.member_id and member_id not in one.group.members:
            _decide_join(one, other, max(other.sent_ms, one.group.phase_since_ms), member_id)
    one.lost_joins = []


def _remove_absent(one: ObservedClassicGroup, listed: set[str], now_ms: int) -> None:
    if any(member.member_id not in listed for member in one.silent(now_ms)):
        one.remove_silent(now_ms)
    for member in [m for m in one.group.members.values() if m.member_id not in listed]:
        one.gone(member, now_ms)


def _remove_unjoined(one: ObservedClassicGroup, joined: str, now_ms: int) -> None:
    """Members that have not joined again by the end of the phase are in the group no more, but for static ones with a session
    left. Without a leader's list this tells who is gone."""
    waiting = {joined, *(late.member_id for _, late in one.held_back)}
    waiting |= {o.request.member_id for o in one.in_flight if isinstance(o.request, JoinGroupRequest)}
    silent = {member.member_id for member in one.silent(now_ms)}
    for member in list(one.group.members.values()):
        is_gone = member.member_id not in one.group.members  # with one before it
        if is_gone or one.group.is_waiting(member.member_id) or member.member_id in one.strangers | waiting:
            continue
        if member.group_instance_id is None or member.member_id in silent:
            one.gone(member, now_ms)


def _add_strangers(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    """Members of the leader's list whose requests do not pass here."""
    protocol = response.protocol_name or ""
    for listed in response.members:
        if listed.member_id in one.group.members:
            continue
        member = _member(seen, listed.member_id, listed.group_instance_id, ((protocol, listed.metadata),), now_ms)
        cause = Cause("member_joined", listed.member_id, "", listed.group_instance_id)
        one.strangers.add(listed.member_id)
        one.apply(
            [e.MemberJoined(member, response.protocol_type or seen.request.protocol_type, None, cause)],
            now_ms,
            NAMED,
        )


def _joins(seen: SeenRequest, member_id: str, cause: Cause) -> e.MemberJoined:
    request = seen.request
    protocols = tuple((p.name, p.metadata) for p in request.protocols)
    member = _member(seen, member_id, request.group_instance_id, protocols, seen.sent_ms)
    member.client_id, member.client_host = seen.client_id, seen.client_host
    return e.MemberJoined(member, request.protocol_type, seen, cause)


def _member(seen: SeenRequest, member_id: str, instance_id: str | None, protocols: Any, now_ms: int) -> Member:
    session_ms, request = seen.request.session_timeout_ms, seen.request
    return Member(
        member_id,
        instance_id,
        "",
        "",
        session_ms,
        rebalance_timeout_ms(request),
        protocols,
        b"",
        True,
        now_ms + session_ms,
    )


def _sync_responded(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    group, request = one.group, seen.request
    if response.error_code != ErrorCode.NONE:
        _refused(one, request.member_id, response.error_code, now_ms)
        return
    if request.generation_id > group.generation:
        form_held_back(one, now_ms)
    if request.generation_id != group.generation or request.member_id not in group.members:
        return
    if request.member_id in group.pending_sync:
        one.apply([e.SyncReceived(request.member_id)], now_ms)
    if group.phase == COMPLETING:
        one.apply([group_stored(group, _assignments(one, seen, response), now_ms)], now_ms)
    elif group.phase == STABLE:
        group.members[request.member_id].assignment = response.assignment
    restart_session(group, request.member_id, now_ms + group.members[request.member_id].session_timeout_ms)


def _assignments(one: ObservedClassicGroup, seen: SeenRequest, response: Any) -> dict[str, bytes]:
    """By member id; only this member's where the leader's request did not pass here."""
    for other in [seen, *one.in_flight]:
        request = other.request
        if isinstance(request, SyncGroupRequest) and request.member_id == one.group.leader:
            return {assignment.member_id: assignment.assignment for assignment in request.assignments}
    return {seen.request.member_id: response.assignment}


def left(
    one: ObservedClassicGroup,
    seen: SeenRequest,
    response: Any,
    now_ms: int,
    kept: Collection[str] = (),
    evidence: Evidence = OBSERVED,
) -> None:
    """``response`` None: it has not come, but the coordinator has acted on it; the members ``kept`` are still there."""
    request = seen.request
    if response is not None and response.error_code:
        return
    if seen.api_version >= BATCH_FROM:
        refused = set[str]() if response is None else {m.member_id for m in response.members if m.error_code}
        gone = [m for m in request.members if m.member_id not in refused and m.member_id not in kept]
        request = replace(request, members=gone) if len(gone) < len(request.members) else request
    elif request.member_id in kept:
        return
    outcome = decide_leave(one.group, request, seen.context(now_ms), ANY_CONFIG)
    one.apply(outcome.events, now_ms, evidence)


def _committed(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    """A sign of life too; topics of version 10 go by id, and are left out."""
    _heard(one, seen, response, now_ms)
    refused = {(t.name, p.partition_index) for t in response.topics for p in t.partitions if p.error_code}
    for topic in seen.request.topics:
        for p in topic.partitions:
            if topic.name and (topic.name, p.partition_index) not in refused:
                committed = CommittedOffset(p.committed_offset, p.committed_leader_epoch, "", now_ms)
                replay_offset(one.group, e.OffsetStored(topic.name, p.partition_index, committed))


def _leavers(request: Any) -> list[str]:
    """The members that a request removes."""
    if not isinstance(request, LeaveGroupRequest):
        return []
    return [member.member_id for member in request.members] or [request.member_id]


def _heard(one: ObservedClassicGroup, seen: SeenRequest, response: Any, now_ms: int) -> None:
    member_id, code = getattr(seen.request, "member_id", ""), error_code(response)
    member = one.group.members.get(member_id)
    if member is not None and code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):  # it is one of the group's
        is_heartbeat = isinstance(seen.request, HeartbeatRequest)
        restart_session(one.group, member_id, now_ms + member.session_timeout_ms, is_heartbeat=is_heartbeat)
    if code != ErrorCode.NONE:
        _refused(one, member_id, code, now_ms)


def _refused(one: ObservedClassicGroup, member_id: str, code: int, now_ms: int) -> None:
    """What an error says about the group."""
    member = one.group.members.get(member_id)
    if code == ErrorCode.REBALANCE_IN_PROGRESS and one.group.phase in (STABLE, COMPLETING):
        _notice_rebalance(one, now_ms)
    elif code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None:
        for other in [o for o in one.in_flight if member_id in _leavers(o.request)]:  # its response is under way
            left(one, other, None, now_ms)
        if member_id in one.group.members:
            one.gone(member, now_ms)


def _notice_rebalance(one: ObservedClassicGroup, now_ms: int) -> None:
    """The coordinator rebalances: a departure whose response is under way, or a member whose session is over. Any other cause
    shows in the next generation."""
    _decide_waiting(one, now_ms)
    for other in [o for o in one.in_flight if isinstance(o.request, LeaveGroupRequest)]:
        left(one, other, None, now_ms)
    if one.group.phase != PREPARING and not one.remove_silent(now_ms, OBSERVED):
        one.start(now_ms)


REQUESTS: dict[type[Message], Callable[[ObservedClassicGroup, SeenRequest, int], None]] = {
    JoinGroupRequest: _join_sent,
    SyncGroupRequest: _sync_sent,
    HeartbeatRequest: _nothing,
    LeaveGroupRequest: _nothing,
    OffsetCommitRequest: _nothing,
    TxnOffsetCommitRequest: _nothing,
}
RESPONSES: dict[type[Message], Callable[[ObservedClassicGroup, SeenRequest, Any, int], None]] = {
    JoinGroupRequest: _join_responded,
    SyncGroupRequest: _sync_responded,
    HeartbeatRequest: _heard,
    LeaveGroupRequest: left,
    OffsetCommitRequest: _committed,
    TxnOffsetCommitRequest: _heard,
}
