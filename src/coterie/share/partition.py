"""A share partition: one partition of a topic as one share group sees it (KIP-932; Kafka's SharePartition).

Theory. A classic group owns partitions, so one committed offset says what is done. Here the members of a group share a
partition and own *records*, each for the time of a lock. So what is kept is a window: below the start offset (SPSO) all is
done, above the end offset (SPEO) nothing was given out, and between them each record is available, acquired, acknowledged or
archived (`states.TRANSITIONS`). The window is bounded, so a stuck record holds up the group after
`group.share.partition.max.record.locks` others and never costs more memory than that.

Rule. Nothing is acknowledged before it is written: a change is made in the window at once, marked with what was there
`before`, and handed out as a `StateWrite`. `SharePartition.written` ends it: kept, or as it was. What no member requested
(a lock that expires) is not undone if its write fails, because to hold a lock without an owner would be worse.
The start offset moves over settled records alone, and never back.

A lock is a number, the time at which it ends; `acknowledging.expire` looks at all of them, and `next_deadline_ms` is when to
look next. Time, the records that were read and the limits are arguments.

What is ugly. Offsets without a record (compacted, control records) are acquired like others; the client acknowledges them as
gaps. A loaded window may have holes that nobody has fetched: where the group was when its leader went. They are fetched as
others are, but only while the end offset is still that of the loaded state, for later holes are holes of the log (`Hole`).
A batch that was split is treated one by one for ever, since a record that fails must not take its neighbours along.
Kafka writes the states of a split batch offset by offset; here runs are written, which the coordinator combines to the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.share.dead_letters import DELIVERY_COUNT_EXCEEDED, REJECTED, DeadRecords
from coterie.share.in_flight import NO_LOCK, NO_MEMBER, Batch, Before, InFlight, OffsetRun
from coterie.share.states import RecordCause, RecordState, next_state

MIN_THROTTLED_DELIVERIES = 2


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The settings that count for a group: group.share.* of the broker, or share.* of the group."""

    max_record_locks: int = 2000
    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    renewals: bool = True
    dead_letters: bool = False

    @property
    def throttled_from(self) -> int:
        """From this delivery count on records are delivered in ever smaller numbers, so that the bad one is found."""
        return max(MIN_THROTTLED_DELIVERIES, (self.delivery_count_limit + 1) // 2)


class StateRange(NamedTuple):
    """Offsets in one state, as they are written and loaded; the state is that of `RecordState`."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class Ended(NamedTuple):
    """Records that are archived without having been accepted; ``cause``: why."""

    first: int
    last: int
    delivery_count: int
    member_id: str
    cause: RecordCause


@dataclass(slots=True)
class StateWrite:
    """What is to be written; `written` is called with it once it is, or cannot be. ``start_offset`` and ``complete_count`` are
    those of when it was made. ``dead_letters``: what goes to the dead letter topic once this is written."""

    number: int
    start_offset: int
    complete_count: int
    batches: list[StateRange]
    ended: list[Ended] = field(default_factory=list)
    dead_letters: list[DeadRecords] = field(default_factory=list)


@dataclass(slots=True)
class Hole:
    """Offsets from ``start`` on that are missing in the loaded state, as long as the end offset is ``end``."""

    start: int
    end: int


@dataclass(slots=True)
class SharePartition:
    """The window of one partition. ``end_offset``: the last offset in flight, or the next one where nothing is."""

    limits: ShareLimits
    start_offset: int = 0
    end_offset: int = 0
    in_flight: InFlight = field(default_factory=InFlight)
    seeks: bool = False  # a record in the window may be available
    hole: Hole | None = None
    writes: int = 0

    # -- what is in flight --------------------------------------------------------------------------------------------

    @property
    def record_count(self) -> int:
        """The number of offsets in the window."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    @property
    def complete_count(self) -> int:
        """The number of offsets from the start offset on that are acknowledged or archived."""
        runs = (run for run in self.in_flight.runs() if run.state.is_final and run.last >= self.start_offset)
        return sum(run.last - max(run.first, self.start_offset) + 1 for run in runs)

    @property
    def open_hole(self) -> Hole | None:
        """The hole of the loaded state, while it is one."""
        return self.hole if self.hole is not None and self.hole.end == self.end_offset else None

    @property
    def next_deadline_ms(self) -> int:
        """When the first acquisition lock ends, or `NO_LOCK`."""
        deadlines = (run.deadline_ms for run in self.in_flight.runs() if run.state is RecordState.ACQUIRED)
        return min((deadline for deadline in deadlines if deadline != NO_LOCK), default=NO_LOCK)

    def can_acquire(self) -> bool:
        """Whether a fetch may find something: a record in the window, or room in it."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.record_count < self.limits.max_record_locks

    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: at the first available record, or after the window."""
        if not self.in_flight or self.start_offset > self.in_flight.last:
            self.seeks = False
            return self.end_offset
        if self.seeks:
            first = self._first_available()
            if first is not None:
                return first
            self.seeks = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        hole = self.open_hole
        expected = hole.start if hole else -1
        for batch in self.in_flight.batches:
            if hole:
                if batch.first > expected:
                    return expected
                expected = max(batch.last + 1, expected)
            for run in batch.runs:
                if run.is_free:
                    return run.first
        return None

    # -- changes ------------------------------------------------------------------------------------------------------

    def new_write(self) -> StateWrite:
        """An empty one, with its number; `seal` puts in the offsets."""
        self.writes += 1
        return StateWrite(self.writes, self.start_offset, 0, [])

    def seal(self, write: StateWrite) -> StateWrite:
        """``write`` with the start offset and the count of this moment."""
        write.start_offset, write.complete_count = self.start_offset, self.complete_count
        return write

    def leave(self, run: OffsetRun, cause: RecordCause, write: StateWrite, *, undoable: bool = True) -> None:
        """An acquired run takes the next state of the table; ``undoable``: it is as before if the write fails."""
        limit = self.limits.delivery_count_limit
        at_limit, dead_letters = run.delivery_count >= limit, self.limits.dead_letters
        after = next_state(cause, run.state, at_limit=at_limit, dead_letters=dead_letters)
        state = StateRange(run.first, run.last, after, run.delivery_count)
        if after is RecordState.ARCHIVED and cause is not RecordCause.NO_RECORD:
            write.ended.append(Ended(run.first, run.last, run.delivery_count, run.member_id, cause))
        if undoable:
            run.before = Before(write.number, run.state, run.member_id, limit)
        else:
            run.deadline_ms = NO_LOCK
            self.seeks = self.seeks or after is RecordState.AVAILABLE
        if after is RecordState.ARCHIVING:
            reason = REJECTED if cause is RecordCause.REJECTED else DELIVERY_COUNT_EXCEEDED
            write.dead_letters.append(DeadRecords(run.first, run.last, run.delivery_count, reason, run.member_id))
        run.state, run.member_id = after, NO_MEMBER
        write.batches.append(state)

    def undo(self, number: int, now_ms: int) -> None:
        """Gives the runs of a write their former state; those whose lock has ended meanwhile are released."""
        for batch in self.in_flight.batches:
            for run in batch.runs:
                before = run.before
                if before is None or before.number != number:
                    continue
                run.before = None
                if run.deadline_ms != NO_LOCK and run.deadline_ms <= now_ms:
                    spent = run.delivery_count >= before.delivery_limit
                    run.state = RecordState.ARCHIVED if spent else RecordState.AVAILABLE
                    run.member_id, run.deadline_ms = NO_MEMBER, NO_LOCK
                else:
                    run.state, run.member_id = before.state, before.member_id
                self.seeks = self.seeks or run.state is RecordState.AVAILABLE
            batch.join()

    def written(self, write: StateWrite, now_ms: int, *, kept: bool) -> bool:
        """A write has ended. Returns whether the start offset has moved."""
        if not kept:
            self.undo(write.number, now_ms)
            write.dead_letters = [records for records in write.dead_letters if self._is_archiving(records)]
        for batch in self.in_flight.batches if kept else ():
            for run in batch.runs:
                if run.before is not None and run.before.number == write.number:
                    run.before, run.deadline_ms = None, NO_LOCK
                    self.seeks = self.seeks or run.state is RecordState.AVAILABLE
            batch.join()
        return self.move_start()

    def _is_archiving(self, records: DeadRecords) -> bool:
        batch = self.in_flight.floor(records.first)
        runs = batch.runs if batch else []
        return any(run.state is RecordState.ARCHIVING and run.first <= records.first <= run.last for run in runs)

    def archiving(self) -> list[DeadRecords]:
        """Of a loaded partition: what was on its way to the dead letter topic when its former leader went. The reason is not
        kept; a record without a delivery left counts as one that has spent them (Kafka's maybeResumeDlqArchiving)."""
        limit = self.limits.delivery_count_limit
        return [
            DeadRecords(
                run.first,
                run.last,
                run.delivery_count,
                DELIVERY_COUNT_EXCEEDED if run.delivery_count >= limit else REJECTED,
            )
            for run in self.in_flight.runs()
            if run.state is RecordState.ARCHIVING
        ]

    def buried(self, first: int, last: int) -> StateWrite:
        """The records are in the dead letter topic, or cannot be written there: either way they are archived now."""
        write = self.new_write()
        for batch in self.overlapping(first, last):
            for run in [run for run in batch.cut(first, last) if run.state is RecordState.ARCHIVING]:
                run.archive()
                write.batches.append(StateRange(run.first, run.last, run.state, run.delivery_count))
            batch.join()
        return self.seal(write)

    def overlapping(self, first: int, last: int) -> list[Batch]:
        """The batches with an offset between the two, both included."""
        floor = self.in_flight.floor(first)
        return self.in_flight.between(floor.first if floor is not None and floor.last >= first else first, last)

    # -- the start offset ---------------------------------------------------------------------------------------------

    def move_start(self) -> bool:
        """Moves the start offset past what is settled; returns whether it did or might have."""
        if not self.in_flight or not self._start_is_settled():
            return False
        last = self._last_settled()
        if last is None:
            return False
        if last == self.in_flight.last:
            self.start_offset = self.end_offset = last + 1
            self.in_flight = InFlight()
            return True
        ends_batch = any(batch.last == last for batch in self.in_flight.batches)
        start = next(batch.first for batch in self.in_flight.batches if batch.last > last) if ends_batch else last + 1
        if ends_batch and self.open_hole is not None:
            start = min(self.open_hole.start, start)
        self.start_offset = max(self.start_offset, start)
        self.in_flight.drop_through(last)
        return True

    def _start_is_settled(self) -> bool:
        batch = self.in_flight.floor(self.start_offset)
        if batch is None:  # a hole that is still to be fetched
            return False
        return next((run for run in batch.runs if run.last >= self.start_offset), batch.runs[-1]).is_settled

    def _last_settled(self) -> int | None:
        last = None
        hole = self.open_hole
        for batch in self.in_flight.batches:
            if hole is not None and batch.last >= hole.start:
                return last
            for run in batch.runs:
                if not run.is_settled:
                    return last
                last = run.last
        return last

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log begins later: available records below are archived, acquired ones when they come back. It is written with
        the next acknowledgement."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            return
        self.delete(self.start_offset, log_start_offset - 1)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)

    def delete(self, first: int, last: int) -> None:
        """Archives the available records between two offsets: the log has them no longer."""
        for batch in self.overlapping(first, last):
            self.seeks = archive(batch, first, last, RecordState.AVAILABLE) or self.seeks


def archive(batch: Batch, first: int, last: int, state: RecordState) -> bool:
    """Archives the runs of a batch between two offsets that are in ``state``; returns whether there were any."""
    if not batch.is_split and batch.whole.state is not state:
        return False
    whole = not batch.is_split and batch.is_within(first, last)
    runs = batch.runs if whole else batch.cut(first, last)
    archived = [run for run in runs if run.state is state]
    for run in archived:
        run.archive()
    batch.join()
    return bool(archived)


def loaded(limits: ShareLimits, start_offset: int, states: Iterable[StateRange]) -> SharePartition:
    """A partition with the state that was written. Raises ValueError for one that makes no sense."""
    partition = SharePartition(limits, start_offset, start_offset)
    hole_start, expected = None, start_offset
    for state in states:
        if state.first < start_offset or state.last < state.first:
            raise ValueError(f"The state of the offsets {state.first} to {state.last} is not after {start_offset}.")
        if hole_start is None and state.first > expected:
            hole_start = expected
        expected = state.last + 1
        run = OffsetRun(state.first, state.last, state.state, state.delivery_count)
        partition.in_flight.add(Batch([run]))
    if partition.in_flight:
        partition.seeks, partition.end_offset = True, partition.in_flight.last
        partition.hole = Hole(hole_start, partition.end_offset) if hole_start is not None else None
        partition.move_start()
    return partition
