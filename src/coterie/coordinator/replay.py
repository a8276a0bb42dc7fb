"""The only code that changes a group of any kind, and the offsets that all kinds have: by an event of a decision, a record
of the log, a new session. Nothing else assigns to a group or its members (`tests/coordinator/test_replay.py`).

Theory: a group is the fold of its events, and the log keeps the hard ones. If a decision changed the group by other
code than a restart does, the two would differ after some crash, and no test of either would see it. So a decision never
changes the group: it returns events, and the same functions apply them when the decision is committed and when its
record is read again.

Rule: to apply an event needs nothing but the group, the event and its time; it cannot fail and cannot refuse. Events of
a decision (`replay_event`) are applied in full. A record (`replay_record`) is less than its events: soft state such as
waiting requests is not in it and does not survive a load, as in Kafka.

Offsets belong to the group id, not to the group: a group of the other kind in its place takes them over, and they may
outlive the group as those of simple consumers.

What is ugly: the kinds of group replace each other under one id, so both functions return the group in force and
every caller has to keep it. A heartbeat is not an event, since it would be the most frequent one and changes nothing that
is stored: `restart_session` writes the deadline into the member directly, the one change beside the events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, get_args

from coterie.coordinator import events as e
from coterie.coordinator.classic.replay import replay
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.replay import removals_before, replay_consumer, restart_timers
from coterie.coordinator.consumer.state import ConsumerGroup, MemberTimers
from coterie.coordinator.offsets.replay import OffsetEvent, replay_offset
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.share import events as h
from coterie.coordinator.share.replay import replay_share, restart_share_timers, share_removals_before
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Group, Member
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.replay import replay_streams, restart_streams_timers, streams_removals_before
from coterie.coordinator.streams.state import StreamsGroup

ModernGroup = ConsumerGroup | StreamsGroup | ShareGroup
AnyGroup = Group | ModernGroup
K = TypeVar("K", Group, ConsumerGroup, StreamsGroup, ShareGroup)
OFFSET_EVENTS = get_args(OffsetEvent)
REMOVALS = (
    c.GroupEpochRemoved,
    c.PartitionMetadataRemoved,
    c.SubscriptionRemoved,
    c.TargetEpochRemoved,
    c.TargetRemoved,
    c.CurrentRemoved,
    c.RegexRemoved,
)


@dataclass(frozen=True, slots=True)
class ModernKind:
    """How the events of one kind of group, other than the classic one, apply. ``removals``: the tombstones, which are nothing
    to a group of another kind; ``removals_before``: the removals that a damaged log lacks before an event; ``target_removed``:
    that of a member's target assignment; ``restart_timers``: of a loaded group, at a time, with the session timeout that is
    the ``session_timeout_ms`` of the coordinator's settings."""

    group: type[Any]
    events: tuple[type, ...]
    replay: Callable[[Any, Any, int], None]
    removals: tuple[type, ...]
    removals_before: Callable[[Any, Any], Sequence[Any]]
    target_removed: Callable[[str], e.Event]
    restart_timers: Callable[[Any, int, int], None]
    session_timeout_ms: Callable[[CoordinatorConfig], int]


MODERN_KINDS = (
    ModernKind(
        ConsumerGroup,
        get_args(c.ConsumerEvent),
        replay_consumer,
        REMOVALS,
        removals_before,
        c.TargetRemoved,
        restart_timers,
        attrgetter("group_consumer_session_timeout_ms"),
    ),
    ModernKind(
        StreamsGroup,
        get_args(s.StreamsEvent),
        replay_streams,
        s.STREAMS_REMOVALS,
        streams_removals_before,
        s.TaskTargetRemoved,
        restart_streams_timers,
        attrgetter("group_streams_session_timeout_ms"),
    ),
    ModernKind(
        ShareGroup,
        get_args(h.ShareEvent),
        replay_share,
        h.SHARE_REMOVALS,
        share_removals_before,
        h.ShareTargetRemoved,
        restart_share_timers,
        attrgetter("group_share_session_timeout_ms"),
    ),
)
_KIND_OF = {event: kind for kind in MODERN_KINDS for event in kind.events}
_KIND_OF_GROUP = {kind.group: kind for kind in MODERN_KINDS}


def replay_event(group: AnyGroup, event: e.Event, now_ms: int) -> AnyGroup:
    """Applies ``event``, none of offsets, which happened at ``now_ms``; returns the group in force, a new one where the event
    is of the other kind."""
    kind = _KIND_OF.get(type(event))
    if kind is not None:
        if not isinstance(group, kind.group):
            group = _of_kind(kind.group, group.group_id, group)
        kind.replay(group, event, now_ms)
    else:
        if not isinstance(group, Group):
            group = _of_kind(Group, group.group_id, group)
        replay(group, event, now_ms)
    return group


def replay_record(group_id: str, group: AnyGroup | None, event: e.Event, timestamp_ms: int) -> AnyGroup | None:
    """Applies one record of the log; returns the group that stands under the id afterwards, None for none."""
    if isinstance(event, OFFSET_EVENTS):
        if group is None:
            if isinstance(event, e.OffsetRemoved):
                return None
            group = Group(group_id)
        replay_offset(group, event)
    elif (kind := _KIND_OF.get(type(event))) is not None:
        if not isinstance(group, kind.group):
            if isinstance(event, kind.removals):
                return group  # the tombstone of what a group of that kind never had is nothing
            group = _of_kind(kind.group, group_id, group)
        for missing in kind.removals_before(group, event):
            kind.replay(group, missing, timestamp_ms)
        kind.replay(group, event, timestamp_ms)
    else:
        if isinstance(event, e.GroupRemoved) and not isinstance(group, Group):
            return group  # of a group that is gone, or has become one of another kind since
        # A record is the whole group: nothing of an earlier record's members may shine through.
        group = _of_kind(Group, group_id, group)
        replay(group, event, timestamp_ms)
    if not group.is_dead:
        return group
    # Offsets may outlive their group's records: then it is a group of simple consumers.
    return _of_kind(Group, group_id, group) if group.offsets or group.pending_offsets else None


def restart_sessions(group: ModernGroup, now_ms: int, config: CoordinatorConfig) -> None:
    """Each member of a group that was loaded has its whole session before it. Of a member that a damaged log has lost, the
    target assignment goes."""
    kind = _KIND_OF_GROUP[type(group)]
    for member_id in group.target.keys() - group.members.keys():
        kind.replay(group, kind.target_removed(member_id), now_ms)
    kind.restart_timers(group, now_ms, kind.session_timeout_ms(config))


def _of_kind(kind: type[K], group_id: str, before: AnyGroup | None) -> K:
    """A new group of that kind with the offsets of the group in whose place it comes."""
    if before is None:
        return kind(group_id)
    return kind(group_id, before.offsets, before.pending_offsets, before.pending_order)


def restart_session(
    group: AnyGroup, member_id: str, deadline_ms: int, *, is_heartbeat: bool = False
) -> Member | MemberTimers | None:
    """The member's session ends at ``deadline_ms`` from now on. A heartbeat does no more than that, and measures the member's
    interval, so no event is made of it. Returns what has the deadline; None for an id without a session, as a reserved one."""
    if not isinstance(group, Group):
        timers = group.timers.get(member_id)
        if timers is not None:
            timers.session_ms = deadline_ms
        return timers
    member = group.members.get(member_id)
    if member is not None:
        member.deadline_ms = deadline_ms
        if is_heartbeat:
            heard_ms = deadline_ms - member.session_timeout_ms
            if 0 <= member.heartbeat_ms >= group.phase_since_ms:  # else it waited in a rebalance
                member.heartbeat_interval_ms = heard_ms - member.heartbeat_ms
            member.heartbeat_ms = heard_ms
    return member
