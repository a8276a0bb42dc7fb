"""One partition of `__share_group_state`: the states of partitions in share groups, decided and replayed (Kafka's
ShareCoordinatorShard).

A decision is a change to append, or None, beside the result that its sender receives; `replay` applies a change that is
appended, or read as the log is loaded. A state belongs to the leader of its partition: a write by an older leader epoch than
the last that read or wrote is refused, and so is one for a state that was initialized again since.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from coterie.coordinator.share_state.state import (
    NO_COUNT,
    NO_OFFSET,
    ShareChange,
    SharePartitionKey,
    ShareState,
    ShareUpdate,
    combined,
    from_wire,
    to_wire,
    updated,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.read_share_group_state import SharePartitionState
from coterie.wire.messages.share.read_share_group_state_summary import PartitionStateSummary
from coterie.wire.messages.share.write_share_group_state import WrittenPartitionState

_NEGATIVE = "The {} cannot be a negative number."
_UNINITIALIZED = "{} operation on uninitialized share partition not allowed."


class RedundantOffsets:
    """The offset of the newest snapshot of each state: what is below all of them may be deleted. A deleted state holds
    nothing back."""

    def __init__(self) -> None:
        self._newest: dict[Hashable, int] = {}
        self._last = 0

    def snapshot(self, key: Hashable, offset: int, *, deleted: bool = False) -> None:
        """A state has a snapshot at that offset, or its tombstone."""
        self._last = offset
        if deleted:
            self._newest.pop(key, None)
        else:
            self._newest[key] = offset

    def before(self) -> int | None:
        """The offset below which every record was overridden; None where that is not known."""
        return min(self._newest.values(), default=self._last) or None


@dataclass(slots=True)
class _Kept:
    """A state with the highest epochs that were seen for it, and the updates since its last snapshot."""

    state: ShareState
    leader_epoch: int
    state_epoch: int
    updates: int = 0


class ShareShard:
    """The states of one partition of `__share_group_state`. ``updates_per_snapshot``: share.coordinator.snapshot.update.
    records.per.snapshot. ``partitions`` of a request: how many its topic has, None for one that does not exist."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self._kept: dict[SharePartitionKey, _Kept] = {}
        self._redundant = RedundantOffsets()

    def __len__(self) -> int:
        return len(self._kept)

    def state(self, key: SharePartitionKey) -> ShareState | None:
        """The state of a partition in a share group; None where it is not initialized."""
        kept = self._kept.get(key)
        return None if kept is None else kept.state

    def leader_epochs(self) -> Iterator[tuple[SharePartitionKey, int]]:
        """The highest epoch of a leader of each share partition."""
        return ((key, kept.leader_epoch) for key, kept in self._kept.items())

    # -- decisions ----------------------------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, partitions: int | None, now_ms: int
    ) -> ShareChange:
        """A fresh state. Raises Refusal FENCED_STATE_EPOCH for an older state epoch than the present one's."""
        _check_partition(key)
        _check_epoch(state_epoch, "state epoch")
        kept = self._kept.get(key)
        if kept is not None and kept.state_epoch > state_epoch:
            raise Refusal(ErrorCode.FENCED_STATE_EPOCH)
        _check_known(key, partitions)
        epoch = 0 if kept is None else kept.state.snapshot_epoch + 1
        count = NO_COUNT if start_offset == NO_OFFSET else 0
        return ShareState(epoch, state_epoch, 0, start_offset, count, (), now_ms, now_ms)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, partitions: int | None, now_ms: int
    ) -> tuple[SharePartitionState, ShareChange]:
        """The state for the leader of that epoch, which has it from then on. Raises Refusal FENCED_LEADER_EPOCH for an older
        leader."""
        _check_partition(key)
        _check_epoch(leader_epoch, "leader epoch")
        kept = self._kept.get(key)
        if kept is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, _UNINITIALIZED.format("Read"))
        if kept.leader_epoch > leader_epoch:
            raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        _check_known(key, partitions)
        state = kept.state
        read = SharePartitionState(
            key.partition, 0, None, state.state_epoch, state.start_offset, to_wire(state.batches)
        )
        if kept.leader_epoch == leader_epoch:
            return read, None
        count = state.delivery_complete_count
        return read, self._next(
            kept, ShareUpdate(state.snapshot_epoch, leader_epoch, state.start_offset, count), now_ms
        )

    def write(
        self, key: SharePartitionKey, written: WrittenPartitionState, partitions: int | None, now_ms: int
    ) -> ShareChange:
        """What the leader's write changes. Raises Refusal FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH for older epochs."""
        _check_partition(key)
        _check_epoch(written.leader_epoch, "leader epoch")
        _check_epoch(written.state_epoch, "state epoch")
        kept = self._kept.get(key)
        if kept is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, _UNINITIALIZED.format("Write"))
        if kept.leader_epoch > written.leader_epoch:
            raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        if kept.state_epoch > written.state_epoch:
            raise Refusal(ErrorCode.FENCED_STATE_EPOCH)
        _check_known(key, partitions)
        state, count = kept.state, written.delivery_complete_count
        if written.start_offset == state.start_offset:
            count = max(count, state.delivery_complete_count)
        elif written.start_offset < state.start_offset:
            count = state.delivery_complete_count
        start = max(written.start_offset, state.start_offset)
        batches = from_wire(written.state_batches)
        return self._next(kept, ShareUpdate(state.snapshot_epoch, state.leader_epoch, start, count, batches), now_ms)

    def _next(self, kept: _Kept, update: ShareUpdate, now_ms: int) -> ShareChange:
        """The update, or, after share.coordinator.snapshot.update.records.per.snapshot of them, a snapshot with it."""
        state = kept.state
        if kept.updates < self.updates_per_snapshot:
            return replace(update, batches=combined((), update.batches, update.start_offset))
        return ShareState(
            state.snapshot_epoch + 1,
            state.state_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            combined(state.batches, update.batches, update.start_offset),
            now_ms,
            now_ms,
        )

    def summary(self, key: SharePartitionKey, partitions: int | None) -> PartitionStateSummary:
        """Where the partition stands. Raises Refusal."""
        _check_partition(key)
        _check_known(key, partitions)
        state = self.state(key) or ShareState()
        return PartitionStateSummary(
            key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def delete(self, key: SharePartitionKey, partitions: int | None) -> bool:
        """Whether there is a state, whose tombstone is due. Raises Refusal."""
        _check_partition(key)
        _check_known(key, partitions)
        return key in self._kept

    def of_topics(self, topic_ids: set[bytes]) -> list[SharePartitionKey]:
        """The states of deleted topics, whose tombstones are due."""
        return [key for key in self._kept if key.topic_id in topic_ids]

    def cold(self, now_ms: int, interval_ms: int) -> list[tuple[SharePartitionKey, ShareState]]:
        """Snapshots of the states whose last one is older than the interval, so that the log before them can be deleted.
        None once each state has had its own."""
        states = [(key, kept.state) for key, kept in self._kept.items()]
        if all(state.create_ms != state.write_ms for _, state in states):
            return []
        return [
            (key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_ms=now_ms))
            for key, state in states
            if now_ms - state.write_ms >= interval_ms
        ]

    # -- what is in the log -------------------------------------------------------------------------------------------

    def replay(self, key: SharePartitionKey, change: ShareChange, offset: int) -> None:
        """Applies the change of a record at that offset of the log."""
        kept = self._kept.get(key)
        if change is None:
            self._kept.pop(key, None)
            self._redundant.snapshot(key, offset, deleted=True)
        elif isinstance(change, ShareState):
            if kept is None:
                self._kept[key] = _Kept(change, change.leader_epoch, change.state_epoch)
            else:
                kept.state = change
                kept.leader_epoch = max(kept.leader_epoch, change.leader_epoch)
                kept.state_epoch = max(kept.state_epoch, change.state_epoch)
                kept.updates = 0 if kept.updates >= self.updates_per_snapshot else kept.updates
            self._redundant.snapshot(key, offset)
        elif kept is None:  # its snapshot is not in the log any more
            first = ShareState(change.snapshot_epoch, 0, change.leader_epoch, change.start_offset)
            state = replace(first, delivery_complete_count=change.delivery_complete_count, batches=change.batches)
            self._kept[key] = _Kept(state, change.leader_epoch, 0, 1)
        else:
            kept.state = updated(kept.state, change)
            kept.leader_epoch = max(kept.leader_epoch, change.leader_epoch)
            kept.updates += 1

    def redundant_before(self) -> int | None:
        """The offset of the log below which each record was overridden by a later one; None where that is not known."""
        return self._redundant.before()


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, _NEGATIVE.format("partition id"))


def _check_epoch(epoch: int, name: str) -> None:
    if epoch < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, _NEGATIVE.format(name))


def _check_known(key: SharePartitionKey, partitions: int | None) -> None:
    if partitions is None or key.partition >= partitions:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
