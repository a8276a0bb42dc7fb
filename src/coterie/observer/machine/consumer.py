"""A consumer group's records (KIP-848) as lines of the journal: the broker's own `replay` and lines, and causes from what the
records before an epoch state."""

from __future__ import annotations

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState, ConsumerSubscription
from coterie.coordinator.journal.consumer_lines import ConsumerJournalLines
from coterie.coordinator.journal.evidence import OBSERVED, UNKNOWN, known_cause
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.replay import REMOVALS, replay_record
from coterie.observer.machine.known import KnownGroup, Life
from coterie.observer.machine.rules import Cause, Departure, cause_of, why_departed
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata

# group.consumer.session.timeout.ms and group.consumer.heartbeat.interval.ms, which no record holds: Kafka's defaults
SESSION_MS, HEARTBEAT_MS = 45_000, 5_000
TOPICS_CHANGED: Cause = known_cause("topic_metadata_changed", OBSERVED)


def consumer_lines(
    group: KnownGroup, event: c.ConsumerEvent, time_ms: int, lines: ConsumerJournalLines
) -> list[JournalLine]:
    """The line of a record, where it is worth one."""
    before = group.consumer or ConsumerGroup(group.group)
    metadata_hash = before.metadata_hash
    phase, earlier = before.phase, before.members.get(getattr(event, "member_id", ""))
    subscription = None if earlier is None else earlier.subscription
    made = _noted(group, event, subscription, time_ms)
    after = replay_record(group.group, before, event, time_ms)
    group.consumer = after if isinstance(after, ConsumerGroup) else None
    shown = group.consumer or before
    line = JournalLine(time_ms, group.group, shown.group_epoch, "", phase.value, shown.phase.value)
    if not lines.fill(line, event, shown):
        return []
    if line.event == "member_removed":
        line.causes = made
        line.event = "member_replaced" if made and made[0]["kind"] == "member_replaced" else line.event
        group.leaving.append(line)
        return []
    elif line.event == "epoch_raised":
        line.causes = group.notes or [_of_topics(metadata_hash, shown.metadata_hash)]
        group.notes, group.stored_ms, group.moved_ms = [], time_ms, time_ms
    elif line.event == "group_removed":
        line.causes = [known_cause("tombstone", OBSERVED)]
        line.state_to = ConsumerGroupState.DEAD.value
    return [line]


def release_leaving(group: KnownGroup, event: object, time_ms: int) -> list[JournalLine]:
    """The lines of removed members that waited for what follows: the tombstones of a whole group at one time are no departures
    of its members. ``event``: the next one, None for none."""
    lines = group.leaving
    if lines and isinstance(event, REMOVALS) and time_ms == lines[0].time_ms:
        if isinstance(event, c.GroupEpochRemoved):
            group.leaving = []
        return []
    group.leaving = []
    for line in lines:
        for cause in line.causes:
            group.lives.append(Life(line.time_ms, cause.get("member_id", ""), cause.get("client_id", ""), False))
    return lines


def _of_topics(hash_before: int, hash_now: int) -> Cause:
    """The cause of an epoch before which no member changed: the record has the hash of the subscribed topics' metadata."""
    is_changed = bool(hash_before) and hash_before != hash_now
    return dict(TOPICS_CHANGED) if is_changed else known_cause("not_seen", UNKNOWN)


def _noted(group: KnownGroup, event: c.ConsumerEvent, before: ConsumerSubscription | None, time_ms: int) -> list[Cause]:
    """What a record states that may raise the epoch."""
    causes: list[Cause] = []
    match event:
        case c.SubscriptionStored(member_id, subscription):
            metadata = _metadata(member_id, subscription)
            known = group.members.get(member_id)
            group.members[member_id] = group.member(metadata)
            group.members[member_id].came_ms = time_ms
            if before is None and known is None:
                causes = [cause_of("member_joined", metadata, OBSERVED)]
                group.lives.append(Life(time_ms, member_id, subscription.client_id, True))
            elif before is not None and _subscribed(before) != _subscribed(subscription):
                causes = [cause_of("subscription_changed", metadata, OBSERVED)]
        case c.SubscriptionRemoved(member_id):
            member = group.members.pop(member_id, None)
            metadata = MemberMetadata(member_id) if member is None else member.metadata
            instance_id = metadata.group_instance_id
            heirs = [m for m in group.members.values() if instance_id and m.metadata.group_instance_id == instance_id]
            if heirs:
                causes = [cause_of("member_replaced", heirs[0].metadata, OBSERVED)]
            elif member is None:
                causes = [cause_of("member_gone", metadata, UNKNOWN)]
            else:
                causes = [
                    why_departed(
                        Departure(member, member.listed_ms, time_ms, time_ms, None, member.came_ms, HEARTBEAT_MS)
                    )
                ]
        case c.PartitionMetadataStored() if group.consumer is not None and group.stored_ms:
            causes = [dict(TOPICS_CHANGED)]  # Kafka before 4.1: the topics instead of their hash
        case c.RegexStored(regex, resolved):
            known_regex = None if group.consumer is None else group.consumer.regexes.get(regex)
            if known_regex is not None and known_regex.topics != resolved.topics:
                causes = [known_cause("regex_resolved", OBSERVED)]
    group.notes += [cause for cause in causes if cause["kind"] != "member_replaced"]
    return causes


def _subscribed(subscription: ConsumerSubscription) -> tuple[frozenset[str], str, str | None]:
    return subscription.topic_names, subscription.topic_regex, subscription.server_assignor


def _metadata(member_id: str, subscription: ConsumerSubscription) -> MemberMetadata:
    classic = subscription.classic
    return MemberMetadata(
        member_id,
        subscription.instance_id,
        subscription.client_id,
        subscription.client_host,
        max(subscription.rebalance_timeout_ms, 0),
        SESSION_MS if classic is None else classic.session_timeout_ms,
    )
