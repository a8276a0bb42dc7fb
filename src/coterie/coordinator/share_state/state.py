"""What the share coordinator keeps of a partition in a share group, and its records in `__share_group_state`.

Byte for byte what Apache Kafka 4.4 writes (ShareCoordinatorRecordHelpers): int16 kind before a key, int16 version 0 before a
value. A snapshot is the whole state; an update is what one write added to it. A batch of it: offsets with one delivery state
and delivery count.

Batches of several writes overlap. Of an offset in several of them the one with the higher delivery count holds, of equal counts
the higher state, since both only rise (Kafka's PersisterStateBatchCombiner).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from coterie.machines.values import value
from coterie.wire.messages.stored.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from coterie.wire.primitives import WireError

SHARE_STATE_TOPIC = "__share_group_state"
SNAPSHOT, UPDATE = 0, 1  # the kinds of keys
NO_OFFSET = -1  # the start offset before the first fetch, which finds it by share.auto.offset.reset
NO_COUNT = -1  # the delivery complete count where there is no start offset
_VERSION = struct.Struct(">h")


class SharePartitionKey(NamedTuple):
    """A partition in a share group."""

    group_id: str
    topic_id: bytes
    partition: int

    def text(self) -> str:
        """The key by which its share coordinator is found: the topic id as Kafka prints it."""
        topic_id = base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=")
        return f"{self.group_id}:{topic_id}:{self.partition}"


def parse_key(text: str) -> SharePartitionKey:
    """The key of FindCoordinator. Raises ValueError for a text of another form (Kafka's SharePartitionKey.validate)."""
    group_id, topic_id, partition = text.rsplit(":", 2)
    decoded = base64.urlsafe_b64decode(topic_id.strip() + "==")
    if not group_id.strip() or len(decoded) != 16:
        raise ValueError(f"{text!r} is not group:topicId:partition")
    return SharePartitionKey(group_id, decoded, int(partition))


@value
class ShareState:
    """The state of one partition in one share group (Kafka's ShareGroupOffset); times in ms. ``delivery_complete_count``: how
    many records from the start offset on are done with."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
    batches: tuple[DeliveryBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0


@value
class ShareUpdate:
    """What one write changes of a state."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[DeliveryBatch, ...] = ()


ShareChange = ShareState | ShareUpdate | None  # a snapshot, an update, a tombstone


def updated(state: ShareState, update: ShareUpdate) -> ShareState:
    """The state after an update."""
    start = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    return replace(
        state,
        start_offset=start,
        delivery_complete_count=update.delivery_complete_count,
        leader_epoch=state.leader_epoch if update.leader_epoch == -1 else update.leader_epoch,
        batches=combined(state.batches, update.batches, start),
    )


def to_bytes(key: SharePartitionKey, change: ShareChange) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; a tombstone has the key of a snapshot."""
    if isinstance(change, ShareUpdate):
        update = ShareUpdateValue(
            change.snapshot_epoch,
            change.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            to_wire(change.batches),
        )
        return _VERSION.pack(UPDATE) + ShareUpdateKey(*key).encode(1), _VERSION.pack(0) + update.encode(0)
    stored_key = _VERSION.pack(SNAPSHOT) + ShareSnapshotKey(*key).encode(0)
    if change is None:
        return stored_key, None
    snapshot = ShareSnapshotValue(
        change.snapshot_epoch,
        change.state_epoch,
        change.leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        change.create_ms,
        change.write_ms,
        to_wire(change.batches),
    )
    return stored_key, _VERSION.pack(0) + snapshot.encode(0)


def from_bytes(key: bytes, value: bytes | None) -> tuple[SharePartitionKey, ShareChange] | None:
    """The change of a record; None for a key of another kind. Raises WireError for a damaged one."""
    kind = int.from_bytes(key[:2], "big")
    if len(key) < 2 or kind not in (SNAPSHOT, UPDATE):
        return None
    decoded = ShareSnapshotKey.decode(key, 0, 2)  # both kinds have the same fields
    partition = SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if value is None:
        return partition, None
    if len(value) < 2:
        raise WireError(f"a value of {SHARE_STATE_TOPIC} is too short for its version")
    version = _VERSION.unpack_from(value)[0]
    if kind == UPDATE:
        update = ShareUpdateValue.decode(value, version, 2)
        count, batches = update.delivery_complete_count, from_wire(update.state_batches)
        return partition, ShareUpdate(update.snapshot_epoch, update.leader_epoch, update.start_offset, count, batches)
    stored = ShareSnapshotValue.decode(value, version, 2)
    return partition, ShareState(
        stored.snapshot_epoch,
        stored.state_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        from_wire(stored.state_batches),
        stored.create_timestamp,
        stored.write_timestamp,
    )


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
