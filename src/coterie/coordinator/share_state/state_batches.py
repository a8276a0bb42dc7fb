"""Batches of a partition's state in a share group: offsets with one delivery state and delivery count.

Batches of several writes overlap. Of an offset in several of them the one with the higher delivery count holds, of equal
counts the higher state, since both only rise (Kafka's PersisterStateBatchCombiner).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
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
    """Batches without overlap, from the start offset on; -1: from any offset on. Neighbours with the same delivery are one
    batch. A batch that ends before it begins is left out beside others."""
    waiting = sorted(_pruned([*before, *added], start_offset))
    if len(waiting) < 2:
        return tuple(waiting)
    bounds = sorted({bound for b in waiting for bound in (b.first_offset, b.last_offset + 1)})
    # Delivery count and state, negated, and last offset: the highest comes first.
    active: list[tuple[int, int, int]] = []
    result: list[DeliveryBatch] = []
    begun = 0
    for first, end in pairwise(bounds):
        while begun < len(waiting) and waiting[begun].first_offset == first:
            batch = waiting[begun]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            begun += 1
        while active and active[0][2] < first:
            heappop(active)
        if active:
            part = DeliveryBatch(first, end - 1, -active[0][0], -active[0][1])
            if result and result[-1].last_offset + 1 == first and result[-1].delivery == part.delivery:
                part = part._replace(first_offset=result.pop().first_offset)
            result.append(part)
    return tuple(result)


def _pruned(batches: list[DeliveryBatch], start_offset: int) -> list[DeliveryBatch]:
    if start_offset == -1:
        return batches
    return [
        b._replace(first_offset=max(b.first_offset, start_offset)) for b in batches if b.last_offset >= start_offset
    ]
