"""Batches of a partition's state in a share group: offsets with one delivery state and delivery count.

Batches of several writes overlap. Of an offset in several of them the one with the higher delivery count holds, of equal
counts the higher state, since both only rise (Kafka's PersisterStateBatchCombiner).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from coterie.wire.messages.stored.share_group_state import StateBatch


class DeliveryBatch(NamedTuple):
    """The offsets from the first to the last one, both included. In the order of the fields batches are sorted."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def delivery(self) -> tuple[int, int]:
        """What decides between two batches of one offset."""
        return self.delivery_count, self.delivery_state


def from_wire(batches: Iterable[StateBatch]) -> tuple[DeliveryBatch, ...]:
    """The batches of a message or a record."""
    return tuple(DeliveryBatch(b.first_offset, b.last_offset, b.delivery_count, b.delivery_state) for b in batches)


def to_wire(batches: Iterable[DeliveryBatch]) -> list[StateBatch]:
    """The batches for a message or a record."""
    return [StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]


def combined(
    before: Iterable[DeliveryBatch], added: Iterable[DeliveryBatch], start_offset: int
) -> tuple[DeliveryBatch, ...]:
    """Batches without overlap, from the start offset on; -1: from any offset on. Neighbours with the same delivery become one
    batch, unless a batch between them was only found to be covered after the first of them was passed, as in Kafka."""
    waiting = _pruned([*before, *added], start_offset)
    if len(waiting) < 2:
        return tuple(waiting)
    heapify(waiting)
    passed: list[DeliveryBatch] = []
    earlier = heappop(waiting)
    while waiting:
        later = heappop(waiting)
        is_next = earlier.last_offset + 1 == later.first_offset
        if later.first_offset <= earlier.last_offset or (is_next and earlier.delivery == later.delivery):
            for part in _merged(earlier, later):
                heappush(waiting, part)
            earlier = heappop(waiting)
        else:
            passed.append(earlier)
            earlier = later
    return (*passed, earlier)


def _pruned(batches: list[DeliveryBatch], start_offset: int) -> list[DeliveryBatch]:
    if start_offset == -1:
        return batches
    return [
        b._replace(first_offset=max(b.first_offset, start_offset)) for b in batches if b.last_offset >= start_offset
    ]


def _merged(earlier: DeliveryBatch, later: DeliveryBatch) -> list[DeliveryBatch]:
    """What two batches come to that overlap, or follow each other with the same delivery."""
    if later.delivery == earlier.delivery:
        return [earlier._replace(last_offset=max(earlier.last_offset, later.last_offset))]
    if later.delivery < earlier.delivery:
        rest = later._replace(first_offset=earlier.last_offset + 1)
        return [earlier, rest] if later.last_offset > earlier.last_offset else [earlier]
    parts = [later]
    if earlier.first_offset < later.first_offset:
        parts.append(earlier._replace(last_offset=later.first_offset - 1))
        if earlier.last_offset > later.last_offset:
            parts.append(earlier._replace(first_offset=later.last_offset + 1))
    return parts
