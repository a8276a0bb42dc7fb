"""How the offsets of a group change, of either protocol: apply one event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.state import CommittedOffset, GroupOffsets, PendingOffset, TopicPartition

OffsetEvent = e.OffsetStored | e.OffsetRemoved | e.TransactionalOffsetStored | e.TransactionEnded


def replay_offset(group: GroupOffsets, event: OffsetEvent) -> None:
    """Applies an event about offsets to the group."""
    _APPLY[type(event)](group, event)


def store_offset(group: GroupOffsets, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
    """The effect of OffsetStored; a log, most of which is that, is loaded without making the events."""
    group.offsets[topic_partition] = committed
    if group.pending_offsets:
        for pending in group.pending_offsets.values():
            earlier = pending.get(topic_partition)
            if earlier is not None:
                earlier.superseded = True


def _offset_stored(group: GroupOffsets, event: e.OffsetStored) -> None:
    store_offset(group, (event.topic, event.partition), event.committed)


def _offset_removed(group: GroupOffsets, event: e.OffsetRemoved) -> None:
    """A tombstone takes what is pending along."""
    group.offsets.pop((event.topic, event.partition), None)
    for producer_id in list(group.pending_offsets):
        pending = group.pending_offsets[producer_id]
        pending.pop((event.topic, event.partition), None)
        if not pending:
            del group.pending_offsets[producer_id]


def _transactional_stored(group: GroupOffsets, event: e.TransactionalOffsetStored) -> None:
    group.pending_order += 1
    pending = group.pending_offsets.setdefault(event.producer_id, {})
    pending[event.topic, event.partition] = PendingOffset(event.committed, group.pending_order)


def _transaction_ended(group: GroupOffsets, event: e.TransactionEnded) -> None:
    """The record that lies later in the log wins, whichever transaction ends first."""
    settled = group.pending_offsets.pop(event.producer_id, {})
    for topic_partition, pending in settled.items() if event.committed else ():
        if pending.superseded:
            continue
        group.offsets[topic_partition] = pending.committed
        for others in group.pending_offsets.values():
            other = others.get(topic_partition)
            if other is not None and other.order < pending.order:
                other.superseded = True


_APPLY: dict[type, Callable[[GroupOffsets, Any], None]] = {
    e.OffsetStored: _offset_stored,
    e.OffsetRemoved: _offset_removed,
    e.TransactionalOffsetStored: _transactional_stored,
    e.TransactionEnded: _transaction_ended,
}
