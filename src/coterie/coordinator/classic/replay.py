"""The only road by which a group changes: apply one event. Never refuses; an impossible event is a bug.

Hard events applied to an empty group, in the order of the log, give the group that a failover finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    LEGAL_PREDECESSORS,
    PREPARING,
    STABLE,
    Cause,
    Group,
    Member,
    Phase,
    Protocols,
    Reservation,
)
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata


def replay(group: Group, event: e.Event, now_ms: int) -> None:
    """Applies ``event``, which happened at ``now_ms``."""
    _APPLY[type(event)](group, event, now_ms)


def _to(group: Group, phase: Phase, now_ms: int) -> None:
    assert group.phase in LEGAL_PREDECESSORS[phase], f"{group.group_id}: {group.phase} to {phase} is not a transition"
    group.phase, group.phase_since_ms = phase, now_ms


def _count(group: Group, protocols: Protocols, by: int) -> None:
    counts = group.protocol_counts
    for name in dict(protocols):  # a member may list one twice
        count = counts.get(name, 0) + by  # a Counter's own ways to a new name, and from an old one, are not in C
        if count:
            counts[name] = count
        else:
            counts.pop(name, None)


def _add(group: Group, member: Member) -> None:
    assert member.member_id not in group.members, f"{member.member_id} is a member already"
    group.members[member.member_id] = member
    _count(group, member.protocols, 1)
    if member.group_instance_id is not None:
        assert member.group_instance_id not in group.static_members, f"{member.group_instance_id} is taken"
        group.static_members[member.group_instance_id] = member.member_id
    if group.leader is None:
        group.leader = member.member_id


def _remove(group: Group, member_id: str) -> Member:
    member = group.members.pop(member_id)
    _count(group, member.protocols, -1)
    if member.group_instance_id is not None:
        group.static_members.pop(member.group_instance_id, None)
    group.waiting_joins.pop(member_id, None)
    group.waiting_syncs.pop(member_id, None)
    _synced(group, member_id)
    if group.leader == member_id:
        group.leader = next(iter(group.members), None)
    return member


def _synced(group: Group, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        group.sync_deadline_ms = None


def _reserved(group: Group, event: e.MemberIdReserved, now_ms: int) -> None:
    group.reservations[event.member_id] = Reservation(event.deadline_ms)


def _dropped(group: Group, event: e.ReservationDropped, now_ms: int) -> None:
    del group.reservations[event.member_id]


def _joined(group: Group, event: e.MemberJoined, now_ms: int) -> None:
    member = event.member
    group.reservations.pop(member.member_id, None)
    if not group.members:
        group.protocol_type = event.protocol_type
    _add(group, member)
    group.waiting_joins[member.member_id] = event.token
    if group.initial_delay_left_ms is not None:
        group.joined_during_delay = True
    _want(group, event.cause)


def _want(group: Group, cause: Cause) -> None:
    """A cause counts for the rebalance to come, or for the one under way; an Empty group needs members for one."""
    if group.phase != PREPARING:
        group.wanted.append(cause)


def _rejoined(group: Group, event: e.MemberRejoined, now_ms: int) -> None:
    member = group.members[event.member_id]
    _count(group, member.protocols, -1)
    _count(group, event.protocols, 1)
    member.protocols = event.protocols
    member.session_timeout_ms = event.session_timeout_ms
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    group.waiting_joins[event.member_id] = event.token
    if event.cause is not None:
        _want(group, event.cause)


def _replaced(group: Group, event: e.StaticMemberReplaced, now_ms: int) -> None:
    old, new = group.members[event.old_member_id], event.member
    was_leader, owed_sync = group.leader == old.member_id, old.member_id in group.pending_sync
    # The new id takes the old one's place in the order of members, so that nothing else looks changed.
    order = [new.member_id if m == old.member_id else m for m in group.members]
    _remove(group, old.member_id)
    _add(group, new)
    group.members = {m: group.members[m] for m in order}
    if was_leader:
        group.leader = new.member_id
    if event.token is not None:
        group.waiting_joins[new.member_id] = event.token
    if owed_sync and not event.rebalance and group.phase in (STABLE, COMPLETING):
        group.pending_sync.add(new.member_id)
    if event.rebalance:
        _want(group, event.cause)


def _removed(group: Group, event: e.MemberRemoved, now_ms: int) -> None:
    _remove(group, event.member_id)
    _want(group, event.cause)


def _wanted(group: Group, event: e.RebalanceWanted, now_ms: int) -> None:
    _want(group, event.cause)


def _assignment_lost(group: Group, event: e.AssignmentLost, now_ms: int) -> None:
    for member in group.members.values():
        member.assignment = b""
    group.waiting_syncs.clear()
    _want(group, event.cause)


def _started(group: Group, event: e.RebalanceStarted, now_ms: int) -> None:
    if group.phase == COMPLETING:
        for member in group.members.values():
            member.assignment = b""
    group.waiting_syncs.clear()
    group.pending_sync.clear()
    group.sync_deadline_ms = None
    group.wanted = []
    _to(group, PREPARING, now_ms)
    group.join_deadline_ms = event.deadline_ms
    group.initial_delay_left_ms = event.initial_delay_left_ms
    group.joined_during_delay = False


def _extended(group: Group, event: e.JoinPhaseExtended, now_ms: int) -> None:
    group.join_deadline_ms = event.deadline_ms
    group.initial_delay_left_ms = event.initial_delay_left_ms
    group.joined_during_delay = False


def _formed(group: Group, event: e.GenerationFormed, now_ms: int) -> None:
    _to(group, COMPLETING, now_ms)
    group.generation, group.protocol, group.leader = event.generation, event.protocol, event.leader
    group.join_deadline_ms = group.initial_delay_left_ms = None
    group.waiting_joins.clear()
    group.pending_sync = set(group.members)
    group.sync_deadline_ms = event.sync_deadline_ms
    for member in group.members.values():
        member.is_new = False
    group.remember_subscriptions()


def _sync_received(group: Group, event: e.SyncReceived, now_ms: int) -> None:
    _synced(group, event.member_id)
    if event.token is not None:
        group.waiting_syncs[event.member_id] = event.token


def _stored(group: Group, event: e.GroupStored, now_ms: int) -> None:
    value = event.value
    kept = {m.member_id for m in value.members}
    for member_id in [m for m in group.members if m not in kept]:
        _remove(group, member_id)
    for saved in value.members:
        member = group.members.get(saved.member_id)
        if member is None:
            # A record keeps a member's subscription for the chosen protocol only.
            _add(group, _loaded_member(value, saved))
        else:
            member.assignment = saved.assignment
    group.phase = STABLE if value.members else EMPTY
    group.protocol_type = value.protocol_type or None
    group.generation, group.protocol, group.leader = value.generation, value.protocol, value.leader
    group.phase_since_ms = value.current_state_timestamp
    group.join_deadline_ms = group.initial_delay_left_ms = None
    group.waiting_syncs.clear()
    if not value.members:
        group.wanted = []
    if group.subscriptions is None or not value.members:
        group.remember_subscriptions()


def _loaded_member(value: GroupMetadataValue, saved: MemberMetadata) -> Member:
    rebalance_timeout_ms = saved.rebalance_timeout or saved.session_timeout
    return Member(
        saved.member_id,
        saved.group_instance_id,
        saved.client_id,
        saved.client_host,
        session_timeout_ms=saved.session_timeout,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocols=((value.protocol or "", saved.subscription),),
        assignment=saved.assignment,
    )


def _group_removed(group: Group, event: e.GroupRemoved, now_ms: int) -> None:
    """The group goes, its offsets stay until their own tombstones: the shard forgets it when nothing is left."""
    for member_id in list(group.members):
        _remove(group, member_id)
    group.reservations.clear()
    group.phase, group.phase_since_ms = DEAD, now_ms
    group.join_deadline_ms = group.sync_deadline_ms = group.initial_delay_left_ms = None
    group.wanted = []


_APPLY: dict[type, Callable[[Group, Any, int], None]] = {
    e.MemberIdReserved: _reserved,
    e.ReservationDropped: _dropped,
    e.MemberJoined: _joined,
    e.MemberRejoined: _rejoined,
    e.StaticMemberReplaced: _replaced,
    e.MemberRemoved: _removed,
    e.RebalanceWanted: _wanted,
    e.AssignmentLost: _assignment_lost,
    e.RebalanceStarted: _started,
    e.JoinPhaseExtended: _extended,
    e.GenerationFormed: _formed,
    e.SyncReceived: _sync_received,
    e.GroupStored: _stored,
    e.GroupRemoved: _group_removed,
}
