"""The records in flight of a share partition: batches in the order of their offsets, each cut into runs of one state.

A batch is what was acquired together; its bounds decide what a later fetch acquires together. An `OffsetRun` is offsets of it
that share a state, a delivery count, a member and a lock: records that are accepted one by one become one run again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from coterie.share.states import RecordState

NO_MEMBER = ""
NO_LOCK = -1


@dataclass(frozen=True, slots=True)
class Before:
    """What a run was before a change that is being written: it is so again if the write ``number`` fails."""

    number: int
    state: RecordState
    member_id: str
    delivery_limit: int


@dataclass(slots=True)
class OffsetRun:
    """Offsets ``first`` to ``last``, that one included. ``deadline_ms``: when its acquisition lock ends."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    deadline_ms: int = NO_LOCK
    before: Before | None = None

    @property
    def count(self) -> int:
        """The number of its offsets."""
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        """Whether it may be acquired: no change of it is being written."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        """Whether the start offset may pass it."""
        return self.state.is_final and self.before is None

    def archive(self) -> None:
        """Ends it at once, whatever is being written of it."""
        self.state, self.member_id, self.deadline_ms, self.before = RecordState.ARCHIVED, NO_MEMBER, NO_LOCK, None

    def _continues(self, other: OffsetRun) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.before == other.before
        )


@dataclass(slots=True)
class Batch:
    """Records that were acquired together. ``is_split``: they have been treated one by one since, and their runs differ."""

    runs: list[OffsetRun]
    is_split: bool = False

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def last(self) -> int:
        return self.runs[-1].last

    @property
    def whole(self) -> OffsetRun:
        """Its one run, where it is not split."""
        return self.runs[0]

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def cut(self, first: int, last: int) -> list[OffsetRun]:
        """The runs between two offsets, both included; a run that reaches over one of them becomes two. It counts as split."""
        self.is_split = True
        runs: list[OffsetRun] = []
        for run in self.runs:
            bounds = sorted({run.first, run.last + 1, *(o for o in (first, last + 1) if run.first < o <= run.last)})
            if len(bounds) == 2:
                runs.append(run)
            else:
                runs += [replace(run, first=a, last=b - 1) for a, b in pairwise(bounds)]
        self.runs = runs
        return [run for run in runs if first <= run.first and run.last <= last]

    def join(self) -> None:
        """Makes neighbours that do not differ one run."""
        runs = self.runs[:1]
        for run in self.runs[1:]:
            if run._continues(runs[-1]):
                runs[-1].last = run.last
            else:
                runs.append(run)
        self.runs = runs


@dataclass(slots=True)
class InFlight:
    """All batches of a partition, in the order of their offsets; between two of them there may be a gap."""

    batches: list[Batch] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def last(self) -> int:
        """The last offset. Raises IndexError where there is none."""
        return self.batches[-1].last

    def floor(self, offset: int) -> Batch | None:
        """The last batch that begins at the offset or before it."""
        index = self._index(offset)
        return self.batches[index] if index >= 0 else None

    def between(self, first: int, last: int) -> list[Batch]:
        """The batches that begin between two offsets, both included."""
        return self.batches[self._index(first - 1) + 1 : self._index(last) + 1]

    def add(self, batch: Batch) -> None:
        self.batches.insert(self._index(batch.first) + 1, batch)

    def drop_through(self, offset: int) -> None:
        """Forgets the batches that end at the offset or before it."""
        self.batches = [batch for batch in self.batches if batch.last > offset]

    def runs(self) -> Iterator[OffsetRun]:
        """All runs, in the order of their offsets."""
        for batch in self.batches:
            yield from batch.runs

    def _index(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
