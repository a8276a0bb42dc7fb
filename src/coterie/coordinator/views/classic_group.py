"""A classic group as others see it: why it stands where it stands (whom it waits for, how long yet, which timeout acts next and
what it will do), and DescribeGroups and, of groups of every kind, ListGroups (scenarios: tests/spec/offsets.txt).

A pure look at the state; nothing is changed. Times in ms; `..._left_ms` is never negative.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import CONSUMER, Group, Member, Phase
from coterie.coordinator.streams.state import StreamsGroup
from coterie.text.phrase import Phrase, phrase_fields
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.groups.list_groups import ListedGroup

_NOT_FOUND_FROM = 6
GROUP_TYPE = "classic"
_CONSUMER_GROUP_TYPE = "consumer"
SHARE = "share"  # the protocol type and the type of a share group
STREAMS = "streams"  # the protocol type and the type of a streams group


def explain_group(group: Group, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values: state, members, ``waiting_for``, ``next_timeout`` and the ``verdict`` in words."""
    waiting_for = _waiting_for(group)
    next_timeout = _next_timeout(group, now_ms)
    return {
        "group": group.group_id,
        "state": group.phase.value,
        "in_state_ms": now_ms - group.phase_since_ms if group.phase_since_ms >= 0 else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "waiting_for": waiting_for,
        "next_timeout": next_timeout,
        **phrase_fields("verdict", _verdict(group, waiting_for)),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
        "reserved_ids": [
            {"member_id": member_id, "left_ms": max(r.deadline_ms - now_ms, 0)}
            for member_id, r in group.reservations.items()
        ],
    }


def _member(group: Group, member: Member, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    granted_ms = config.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    waits = "JoinGroup" if member.member_id in group.waiting_joins else None
    waits = "SyncGroup" if member.member_id in group.waiting_syncs else waits
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "assignors": [name for name, _ in member.protocols],
        "host": member.client_host,
        "leader": member.member_id == group.leader,
        "waits_in": waits,
        "last_heard_ms": max(now_ms - (member.deadline_ms - granted_ms), 0),
        "session_timeout_ms": member.session_timeout_ms,
        "session_left_ms": max(member.deadline_ms - now_ms, 0),
        "heartbeat_interval_ms": member.heartbeat_interval_ms if member.heartbeat_interval_ms >= 0 else None,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def _waiting_for(group: Group) -> list[dict[str, Any]]:
    """The members that hold up the present phase, with the request each still owes."""
    late: list[tuple[str, str]] = []
    if group.phase == Phase.PREPARING:
        late = [(m, "owes_join") for m in group.members if m not in group.waiting_joins]
        late += [(m, "owes_first_join") for m in group.reservations]
    elif group.phase == Phase.COMPLETING:
        leader, rest = group.leader or "", [m for m in group.pending_sync if m != group.leader]
        late = [(leader, "owes_assignment")] if leader in group.pending_sync else []
        late += [(m, "owes_sync") for m in group.members if m in rest]
    return [
        {"member_id": m, "client_id": _client(group, m), **phrase_fields("owes", Phrase(owes, {}))} for m, owes in late
    ]


def _client(group: Group, member_id: str) -> str | None:
    member = group.members.get(member_id)
    return member.client_id if member is not None else None


def _next_timeout(group: Group, now_ms: int) -> dict[str, Any] | None:
    """The timeout that acts first: its name, whose it is, the time left, and what happens then."""
    timeouts: list[tuple[int, str, str | None, Phrase]] = []
    if group.phase == Phase.PREPARING and group.join_deadline_ms is not None:
        if group.initial_delay_left_ms is not None:
            then = Phrase("then_formed", {})
            timeouts.append((group.join_deadline_ms, "group.initial.rebalance.delay.ms", None, then))
        else:
            timeouts.append((group.join_deadline_ms, "rebalance timeout", None, _at_join_deadline(group)))
    if group.sync_deadline_ms is not None:
        timeouts.append((group.sync_deadline_ms, "rebalance timeout", None, Phrase("then_syncs_removed", {})))
    for member in group.members.values():
        if not group.is_waiting(member.member_id):
            then = Phrase(_at_session_end(group), {})
            timeouts.append((member.deadline_ms, "session timeout", member.member_id, then))
    for member_id, reservation in group.reservations.items():
        then = Phrase("then_id_not_awaited" if group.members else "then_id_expires", {})
        timeouts.append((reservation.deadline_ms, "session timeout", member_id, then))
    if not timeouts:
        return None
    deadline_ms, name, whose, then = min(timeouts, key=lambda f: f[0])
    left_ms = max(deadline_ms - now_ms, 0)
    return {"name": name, "member_id": whose, "left_ms": left_ms, **phrase_fields("then", then)}


def _at_join_deadline(group: Group) -> Phrase:
    absent = [m for m in group.members.values() if m.member_id not in group.waiting_joins]
    leaving = [m.member_id for m in absent if m.group_instance_id is None]
    if not group.waiting_joins and len(leaving) < len(group.members):
        return Phrase("then_waits_again", {})
    if not leaving:
        return Phrase("then_static_stay", {})
    if len(leaving) == len(group.members):
        name = "then_only_removed" if len(leaving) == 1 else "then_all_removed"
    else:
        name = "then_one_removed" if len(leaving) == 1 else "then_some_removed"
    return Phrase(name, {"removed": len(leaving), "members": len(group.members), "leaving": tuple(leaving)})


def _at_session_end(group: Group) -> str:
    if len(group.members) == 1 and not group.reservations:
        return "then_removed_empty"
    if group.phase != Phase.PREPARING:
        return "then_removed_rebalance"
    last = len(group.waiting_joins) == len(group.members) - 1 and not group.reservations
    return "then_removed_formed" if last else "then_removed"


def _verdict(group: Group, waiting_for: list[dict[str, Any]]) -> Phrase:
    """One sentence for a person."""
    late, members = tuple(w["member_id"] for w in waiting_for), len(group.members)
    if group.phase == Phase.STABLE:
        return Phrase("stable", {"generation": group.generation, "members": members})
    if group.phase == Phase.PREPARING and group.initial_delay_left_ms is not None:
        return Phrase("initial_delay", {"members": members})
    if group.phase == Phase.PREPARING:
        return Phrase("waits_for_joins", {"late": late, "joined": len(group.waiting_joins), "members": members})
    if group.phase == Phase.COMPLETING and group.leader in group.pending_sync:
        return Phrase("waits_for_leader", {"leader": group.leader or ""})
    return Phrase("waits_for_syncs", {"late": late}) if group.phase == Phase.COMPLETING else empty_group(group.offsets)


def empty_group(offsets: Collection[object]) -> Phrase:
    """Of a group without members."""
    return Phrase("empty_with_offsets", {"offsets": len(offsets)}) if offsets else Phrase("empty_without_offsets", {})


def describe_group(group: AnyGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """Unknown, or of another kind than classic: Dead with no error up to v5, GROUP_ID_NOT_FOUND from v6 (KIP-1043). Protocol
    and subscriptions are given only for a Stable group; assignments as they stand (Kafka 4; before, of a Stable group only)."""
    if not isinstance(group, Group) or group.phase == Phase.DEAD:
        if api_version >= _NOT_FOUND_FROM:
            other = group is not None and not isinstance(group, Group)
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


def list_group(group: AnyGroup) -> ListedGroup:
    """The group's row of ListGroups; protocol type "" where a classic group has had no member."""
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, CONSUMER, group.phase.value, _CONSUMER_GROUP_TYPE)
    if isinstance(group, ShareGroup):
        return ListedGroup(group.group_id, SHARE, group.phase.value, SHARE)
    if isinstance(group, StreamsGroup):
        return ListedGroup(group.group_id, STREAMS, group.phase.value, STREAMS)
    return ListedGroup(group.group_id, group.protocol_type or "", group.phase.value, GROUP_TYPE)
