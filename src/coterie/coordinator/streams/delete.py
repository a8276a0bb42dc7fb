"""The end of a streams group, and offsets that go while it lives."""

from __future__ import annotations

from coterie.coordinator.consumer.delete import check_deletable, expired_offsets, offset_tombstones
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
from coterie.coordinator.streams.leave import streams_tombstones, subscribed_by_streams
from coterie.coordinator.streams.state import StreamsGroup


def decide_delete_streams_group(group: StreamsGroup, exists: bool) -> Outcome:
    """DeleteGroups: a group without members goes with its offsets; its internal topics stay. Raises Refusal."""
    check_deletable(exists and not group.is_dead, bool(group.members))
    return Outcome([*offset_tombstones(group), *streams_tombstones(Cause("deleted"))], divisible=True)


def decide_expire_streams_offsets(group: StreamsGroup, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Offsets of topics that the topology does not read go when they are old, and with the last one an empty group."""
    gone = expired_offsets(group, subscribed_by_streams(group), now_ms, config)
    outcome = Outcome([*gone], divisible=True)
    if not group.members and len(gone) == len(group.offsets) and not group.pending_offsets:
        outcome.events += streams_tombstones(Cause("expired"))
    return outcome
