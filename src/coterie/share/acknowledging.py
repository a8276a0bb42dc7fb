"""Members give records back: acknowledged one way or the other, released as they leave, or because a lock has expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coterie.share.in_flight import NO_LOCK, NO_MEMBER, Batch, OffsetRun
from coterie.share.partition import SharePartition, StateWrite
from coterie.share.states import ACKNOWLEDGEMENTS, RENEW, RecordCause, RecordState
from coterie.wire.errors import ErrorCode, Refusal

NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
PART_NOT_ACQUIRED = "The batch cannot be acknowledged. The subset batch is not in the acquired state."
OFFSET_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
OTHER_MEMBERS_BATCH = "Member is not the owner of batch record"
OTHER_MEMBERS_OFFSET = "Member is not the owner of offset"
NOT_IN_FLIGHT = "Batch record not found. The request batch offsets are not found in the cache."
FIRST_IS_PAST = "Batch record not found. The first offset in request is past acquired records."
LAST_IS_PAST = "Batch record not found. The last offset in request is past acquired records."
NO_RENEWALS = "Renewing acquisition locks is not enabled for the group."


class Acknowledgement(NamedTuple):
    """Offsets, both included, with one type for all of them or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """First and last offset and type, neighbours of one type together."""
        if len(self.types) == 1:
            yield self.first, self.last, self.types[0]
            return
        start = 0
        for index in range(1, len(self.types) + 1):
            if index == len(self.types) or self.types[index] != self.types[start]:
                yield self.first + start, self.first + index - 1, self.types[start]
                start = index


def acknowledge(
    partition: SharePartition, member_id: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
) -> StateWrite:
    """All of them, or none: what is to be written, which is nothing where locks are renewed. Raises Refusal
    INVALID_RECORD_STATE or INVALID_REQUEST; renewals before it stay."""
    write = partition.new_write()
    try:
        for acknowledgement in acknowledgements:
            unknown = [kind for kind in acknowledgement.types if kind != RENEW and kind not in ACKNOWLEDGEMENTS]
            if unknown:
                kinds = ", ".join(str(kind) for kind in acknowledgement.types)
                raise Refusal(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: [{kinds}]")
            if acknowledgement.last < partition.start_offset:
                continue
            for batch in _acknowledged_batches(partition, acknowledgement):
                _acknowledge_batch(partition, member_id, acknowledgement, batch, (write, now_ms))
    except Refusal:
        partition.undo(write.number, now_ms)
        raise
    return partition.seal(write)


def _acknowledged_batches(partition: SharePartition, acknowledgement: Acknowledgement) -> list[Batch]:
    first, last, _ = acknowledgement
    floor = partition.in_flight.floor(first)
    if floor is None and first < partition.start_offset <= last:
        floor = partition.in_flight.floor(partition.start_offset)
    if floor is None:
        raise _invalid_state(NOT_IN_FLIGHT)
    batches = partition.in_flight.between(floor.first, last)
    if batches[-1].last < first:
        raise Refusal(ErrorCode.INVALID_REQUEST, FIRST_IS_PAST)
    if last > batches[-1].last:
        raise Refusal(ErrorCode.INVALID_REQUEST, LAST_IS_PAST)
    return [batch for batch in batches if batch.last >= partition.start_offset]


def _acknowledge_batch(
    partition: SharePartition,
    member_id: str,
    acknowledgement: Acknowledgement,
    batch: Batch,
    writing: tuple[StateWrite, int],
) -> None:
    start = partition.start_offset
    if not batch.is_split:
        whole = batch.whole
        if whole.member_id == NO_MEMBER:
            raise _invalid_state(NOT_ACQUIRED)
        if whole.member_id != member_id:
            raise _invalid_state(OTHER_MEMBERS_BATCH)
        is_full = batch.is_within(acknowledgement.first, acknowledgement.last)
        if is_full and len(acknowledgement.types) == 1 and start <= batch.first:
            _acknowledge_run(partition, whole, acknowledgement.types[0], writing)
            return
        if whole.state is not RecordState.ACQUIRED:
            raise _invalid_state(PART_NOT_ACQUIRED)
    for first, last, kind in acknowledgement.parts():
        for run in batch.cut(max(first, start), last):
            if run.state is not RecordState.ACQUIRED:
                raise _invalid_state(OFFSET_NOT_ACQUIRED)
            if run.member_id != member_id:
                raise _invalid_state(OTHER_MEMBERS_OFFSET)
            _acknowledge_run(partition, run, kind, writing)
    batch.join()


def _acknowledge_run(partition: SharePartition, run: OffsetRun, kind: int, writing: tuple[StateWrite, int]) -> None:
    write, now_ms = writing
    if kind != RENEW:
        partition.leave(run, ACKNOWLEDGEMENTS[kind], write)
    elif partition.limits.renewals:
        run.deadline_ms = now_ms + partition.limits.record_lock_duration_ms
    else:
        raise _invalid_state(NO_RENEWALS)


def _invalid_state(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD_STATE, message)


def _acquired(partition: SharePartition, of: Callable[[OffsetRun], bool]) -> list[OffsetRun]:
    """The acquired runs ``of`` which are meant, cut at the start offset."""
    runs: list[OffsetRun] = []
    start = partition.start_offset
    for batch in partition.in_flight.batches:
        if not any(run.state is RecordState.ACQUIRED and of(run) for run in batch.runs):
            continue
        if batch.first < start <= batch.last:
            batch.cut(start, batch.last)
        runs += [run for run in batch.runs if run.state is RecordState.ACQUIRED and of(run)]
    return runs


def release(partition: SharePartition, member_id: str) -> StateWrite:
    """A member leaves: what it has acquired is released, below the start offset archived."""
    write = partition.new_write()
    for run in _acquired(partition, lambda run: run.member_id == member_id):
        cause = RecordCause.DELETED if run.last < partition.start_offset else RecordCause.RELEASED
        partition.leave(run, cause, write)
    return partition.seal(write)


def expire(partition: SharePartition, now_ms: int) -> StateWrite:
    """The locks that have ended: their records are released at once, whatever becomes of the write."""
    write = partition.new_write()
    for run in _acquired(partition, lambda run: run.deadline_ms != NO_LOCK and run.deadline_ms <= now_ms):
        cause = RecordCause.DELETED if run.last < partition.start_offset else RecordCause.EXPIRED
        partition.leave(run, cause, write, undoable=False)
    for batch in partition.in_flight.batches:
        batch.join()
    return partition.seal(write)
