"""Records of the groups that have a group epoch as lines of the journal: consumer groups (KIP-848), share groups (KIP-932) and
streams groups (KIP-1071). The broker's own `replay` and lines make them; causes are what the records before an epoch state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerSubscription
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.journal.patterns import OBSERVED, UNKNOWN, Life, known_cause
from coterie.coordinator.replay import MODERN_KINDS, replay_record
from coterie.coordinator.shard import Step
from coterie.coordinator.share import events as h
from coterie.coordinator.share.state import ShareGroup, ShareSubscription, StatePartitions
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import StreamsGroup, StreamsMetadata
from coterie.observer.machine.known import KnownGroup, ModernGroup
from coterie.observer.machine.rules import Cause, Departure, cause_of, why_departed
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata

# group.KIND.session.timeout.ms and group.KIND.heartbeat.interval.ms, which no record holds: Kafka's defaults, of each kind
SESSION_MS, HEARTBEAT_MS = 45_000, 5_000
TOPICS_CHANGED: Cause = known_cause("topic_metadata_changed", OBSERVED)
STATES_INITIALIZED: Cause = known_cause("states_initialized", OBSERVED)
ModernEvent = c.ConsumerEvent | h.ShareEvent | s.StreamsEvent
MemberStored = c.SubscriptionStored | h.ShareMemberStored | s.StreamsMetadataStored
MemberRemoved = c.SubscriptionRemoved | h.ShareMemberRemoved | s.StreamsMetadataRemoved
EpochStored = c.GroupEpochStored | h.ShareEpochStored | s.StreamsEpochStored
EpochRemoved = c.GroupEpochRemoved | h.ShareEpochRemoved | s.StreamsEpochRemoved
REMOVALS = tuple(event for kind in MODERN_KINDS for event in kind.removals)
Subscription = ConsumerSubscription | ShareSubscription | StreamsMetadata


class ModernWords(NamedTuple):
    """Of a kind of group: its class, the part of a member's record whose change raises the epoch, and the cause of that."""

    group: type[ConsumerGroup | ShareGroup | StreamsGroup]
    subscribed: Callable[[Any], tuple[Any, ...]]
    changed: str


_WORDS: dict[type, ModernWords] = {
    c.SubscriptionStored: ModernWords(
        ConsumerGroup, lambda m: (m.topic_names, m.topic_regex, m.server_assignor), "subscription_changed"
    ),
    h.ShareMemberStored: ModernWords(ShareGroup, lambda m: (m.topic_names,), "subscription_changed"),
    s.StreamsMetadataStored: ModernWords(
        StreamsGroup, lambda m: (m.topology_epoch, m.rack_id, m.client_tags, m.process_id), "member_changed"
    ),
}


def modern_lines(group: KnownGroup, event: ModernEvent, time_ms: int, lines: JournalLines) -> list[JournalLine]:
    """The line of a record, where it is worth one."""
    before = group.modern if group.modern is not None else _empty(group.group, event)
    phase, made = before.phase, _noted(group, event, before, time_ms)
    cause = _of_epoch(group, event, before) if isinstance(event, EpochStored) else None
    after = replay_record(group.group, before, event, time_ms)
    group.modern = after if isinstance(after, ModernGroup) else None
    group.owners = None
    shown = group.modern or before
    step = Step(group.group, event, phase, shown.phase, shown.group_epoch)
    line = lines.line(step, shown, time_ms)
    if line is None:
        return []
    if isinstance(event, MemberRemoved):
        line.causes = made
        line.event = "member_replaced" if made and made[0]["kind"] == "member_replaced" else "member_removed"
        group.leaving.append(line)
        return []
    if cause is not None:
        line.causes = group.notes or [cause]
        group.notes, group.are_states_new, group.stored_ms, group.moved_ms = [], False, time_ms, time_ms
    elif isinstance(event, EpochRemoved):
        line.causes = [known_cause("tombstone", OBSERVED)]
        line.state_to = "Dead"
    return [line]


def release_leaving(group: KnownGroup, event: object, time_ms: int) -> list[JournalLine]:
    """The lines of removed members that waited for what follows: the tombstones of a whole group at one time are no departures
    of its members, and a static member's next life may be stored behind the end of its last. ``event``: the next one, None for
    none."""
    lines = group.leaving
    if lines and time_ms == lines[0].time_ms and isinstance(event, (*REMOVALS, *_WORDS)):
        if isinstance(event, EpochRemoved):
            group.leaving = []
        return []
    group.leaving = []
    for line in lines:
        for cause in line.causes if line.event == "member_removed" else ():
            group.lives.append(Life(line.time_ms, cause.get("member_id", ""), cause.get("client_id", ""), False))
    return lines


def _empty(name: str, event: ModernEvent) -> ModernGroup:
    kind = next(kind for kind in MODERN_KINDS if isinstance(event, kind.events))
    empty: ModernGroup = kind.group(name)
    return empty


def _of_epoch(group: KnownGroup, event: EpochStored, before: ModernGroup) -> Cause:
    """The cause of an epoch before which no member changed, by what its record has."""
    if before.metadata_hash and before.metadata_hash != event.metadata_hash:  # of the subscribed topics
        return dict(TOPICS_CHANGED)
    if group.are_states_new:
        return dict(STATES_INITIALIZED)
    if isinstance(event, s.StreamsEpochStored) and isinstance(before, StreamsGroup) and before.group_epoch:
        validated = event.validated_topology_epoch
        if validated != before.validated_topology_epoch:
            return known_cause("topology_validated" if validated >= 0 else "topology_not_ready", OBSERVED)
        if dict(event.assignment_configs) != before.assignment_configs:
            return known_cause("assignment_configs_changed", OBSERVED)
    return known_cause("not_seen", UNKNOWN)


def _noted(group: KnownGroup, event: ModernEvent, before: ModernGroup, time_ms: int) -> list[Cause]:
    """What a record states that may raise the epoch."""
    causes: list[Cause] = []
    match event:
        case c.SubscriptionStored() | h.ShareMemberStored() | s.StreamsMetadataStored():
            causes = _of_stored(group, event, before, time_ms)
        case c.SubscriptionRemoved() | h.ShareMemberRemoved() | s.StreamsMetadataRemoved():
            causes = [_of_removed(group, event.member_id, time_ms)]
        case c.PartitionMetadataStored() if group.modern is not None and group.stored_ms:
            causes = [dict(TOPICS_CHANGED)]  # Kafka before 4.1: the topics instead of their hash
        case c.RegexStored(regex, resolved) if isinstance(before, ConsumerGroup):
            known_regex = before.regexes.get(regex)
            if known_regex is not None and known_regex.topics != resolved.topics:
                causes = [known_cause("regex_resolved", OBSERVED)]
        case h.StatePartitionsStored(states) if isinstance(before, ShareGroup):
            group.are_states_new = group.are_states_new or _has_more(states, before.states)
    group.notes += [cause for cause in causes if cause["kind"] != "member_replaced"]
    return causes


def _has_more(states: StatePartitions, before: StatePartitions | None) -> bool:
    """Whether a partition has its state that had none."""
    known = {} if before is None else {topic_id: topic.partitions for topic_id, topic in before.initialized.items()}
    return any(topic.partitions - known.get(i, frozenset()) for i, topic in states.initialized.items())


def _of_stored(group: KnownGroup, event: MemberStored, before: ModernGroup, time_ms: int) -> list[Cause]:
    words, member_id = _WORDS[type(event)], event.member_id
    now = event.metadata if isinstance(event, s.StreamsMetadataStored) else event.subscription
    metadata, known = _metadata(member_id, now), group.members.get(member_id)
    group.members[member_id] = group.member(metadata)
    group.members[member_id].came_ms = time_ms
    earlier = _subscription(before.members.get(member_id))
    if earlier is not None:
        changed = words.subscribed(earlier) != words.subscribed(now)
        return [cause_of(words.changed, metadata, OBSERVED)] if changed else []
    if known is not None or _replaces(group, metadata, time_ms):
        return []
    group.lives.append(Life(time_ms, member_id, metadata.client_id, True))
    return [cause_of("member_joined", metadata, OBSERVED)]


def _replaces(group: KnownGroup, metadata: MemberMetadata, time_ms: int) -> bool:
    """Whether it is the next life of a static member: of one that is there still, or whose end was just read."""
    instance_id = metadata.group_instance_id
    if instance_id is None:
        return False
    if any(m.metadata.group_instance_id == instance_id for i, m in group.members.items() if i != metadata.member_id):
        return True
    for line in group.leaving if group.leaving and group.leaving[0].time_ms == time_ms else ():
        (cause,) = line.causes
        if cause.get("group_instance_id") == instance_id:
            group.notes = [noted for noted in group.notes if noted is not cause]
            gone, client_id = cause["member_id"], cause.get("client_id", "")
            replaced = known_cause(
                "member_replaced", OBSERVED, member_id=gone, client_id=client_id, group_instance_id=instance_id
            )
            line.event, line.causes = "member_replaced", [replaced]
            return True
    return False


def _of_removed(group: KnownGroup, member_id: str, time_ms: int) -> Cause:
    member = group.members.pop(member_id, None)
    if member is None:
        return cause_of("member_gone", MemberMetadata(member_id), UNKNOWN)
    instance_id = member.metadata.group_instance_id
    if instance_id and any(m.metadata.group_instance_id == instance_id for m in group.members.values()):
        return cause_of("member_replaced", member.metadata, OBSERVED)
    return why_departed(Departure(member, member.listed_ms, time_ms, time_ms, None, member.came_ms, HEARTBEAT_MS))


def _subscription(member: Any) -> Any:
    """What a member's record has; None for no member."""
    return None if member is None else getattr(member, "subscription", None) or member.metadata


def _metadata(member_id: str, stored: Subscription) -> MemberMetadata:
    classic = stored.classic if isinstance(stored, ConsumerSubscription) else None
    return MemberMetadata(
        member_id,
        None if isinstance(stored, ShareSubscription) else stored.instance_id,
        stored.client_id,
        stored.client_host,
        0 if isinstance(stored, ShareSubscription) else max(stored.rebalance_timeout_ms, 0),
        SESSION_MS if classic is None else classic.session_timeout_ms,
    )
