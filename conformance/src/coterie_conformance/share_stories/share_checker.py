"""What must hold of the deliveries of a share group, by their history (KIP-932). A violation is an AssertionError.

The history is what members saw: which records they acquired, with the delivery count, and how each acknowledgement ended. One
whose response was lost may have been written or not, and so may a release by a member that is gone. One that is below the
start offset has a response without an error and no effect, as in Kafka: the response to a member that has lost its record may
report that it has accepted it, and only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

Partition = tuple[str, int]


class AckOutcome(Enum):
    """How an acknowledgement ended."""

    WRITTEN = auto()
    TOO_LATE = auto()  # the same to the member, but its record had a dead letter by then
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class RecordHistory:
    """One record: its deliveries with their counts and members, and how often it was acknowledged for good. ``ended``: accepted
    or rejected, and reported by the broker as written."""

    deliveries: list[tuple[int, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    may_be_ended: bool = False


class ShareDeliveries:
    """The history of one share group. ``limit``: group.share.delivery.count.limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.records: dict[tuple[Partition, int], RecordHistory] = {}
        self._start_offsets: dict[Partition, int] = {}
        self._late: dict[Partition, int] = {}  # the highest offset that a member accepted after it had lost it

    def _record(self, partition: Partition, offset: int) -> RecordHistory:
        return self.records.setdefault((partition, offset), RecordHistory())

    # -- what members see ---------------------------------------------------------------------------------------------

    def acquired(self, member: str, partition: Partition, parts: Iterable[tuple[int, int, int]]) -> None:
        """A response has these offsets: first and last, delivery count. They come in their order, and none twice; a count above
        the limit, or of a record that is done with, is wrong."""
        before = -1
        for first, last, count in parts:
            assert before < first <= last, f"{partition}: offsets {first} to {last} come after {before}"
            before = last
            assert 1 <= count <= self.limit, f"{partition}: {first} to {last} is delivered for the {count}th time"
            for offset in range(first, last + 1):
                self._deliver(member, partition, offset, count)

    def _deliver(self, member: str, partition: Partition, offset: int, count: int) -> None:
        record = self._record(partition, offset)
        where = f"record {offset} of {partition}"
        assert not record.ended, f"{where} is delivered to {member} after it was {record.ended[0]}"
        start = self._start_offsets.get(partition, 0)
        assert offset >= start, f"{where} is delivered below the start offset {start}"
        record.deliveries.append((count, member))

    def acknowledged(self, member: str, partition: Partition, offset: int, kind: str, outcome: AckOutcome) -> None:
        """A member has accepted, rejected or released a record; ``kind`` is that word."""
        record = self._record(partition, offset)
        if kind == "released" or outcome is AckOutcome.REFUSED:
            return
        if outcome is AckOutcome.TOO_LATE and self._is_spent(record):
            return
        if outcome is AckOutcome.UNKNOWN:
            record.may_be_ended = True
            return
        where = f"record {offset} of {partition}"
        assert any(by == member for _, by in record.deliveries), f"{where} is {kind} by {member}, who never had it"
        if record.deliveries[-1][1] != member:
            self._late[partition] = max(offset, self._late.get(partition, 0))
            return
        assert not record.ended, f"{where} is {kind} by {member} after it was {record.ended[0]}"
        record.ended.append(kind)

    def start_offset(self, partition: Partition, offset: int) -> None:
        """The start offset as the broker has it, or as it is written."""
        known = self._start_offsets.get(partition, 0)
        assert offset >= known, f"{partition}: the start offset went back from {known} to {offset}"
        self._start_offsets[partition] = offset
        late = self._late.pop(partition, -1)
        assert late < offset, (
            f"{partition}: record {late} is accepted by a member that had lost it; the group is at {offset}"
        )

    # -- dead letters -------------------------------------------------------------------------------------------------

    def missing_letters(self, letters: Collection[tuple[Partition, int]]) -> list[tuple[Partition, int]]:
        """The records that must have a letter (KIP-1191), and have none among these: rejected ones, and ones that have had all
        their deliveries. At rest there are none."""
        return [
            at
            for at, record in self.records.items()
            if at not in letters and (record.ended == ["rejected"] or self._is_exhausted(record))
        ]

    def _is_exhausted(self, record: RecordHistory) -> bool:
        return self._is_spent(record) and not record.ended and not record.may_be_ended

    def _is_spent(self, record: RecordHistory) -> bool:
        return max((count for count, _ in record.deliveries), default=0) >= self.limit

    def check_no_letter_of_accepted(self, letters: Iterable[tuple[Partition, int]]) -> None:
        """A record that was accepted has no letter, and one that nobody had neither."""
        for at in letters:
            record = self.records.get(at)
            where = f"record {at[1]} of {at[0]}"
            assert record is not None, f"{where} has a dead letter, and was never delivered"
            assert record.ended != ["accepted"], f"{where} was accepted, and has a dead letter"

    # -- at rest ------------------------------------------------------------------------------------------------------

    def check_none_lost(self, end_offsets: Mapping[Partition, int]) -> None:
        """At rest, with members that accept what they get: each record was accepted or rejected, or has had all its deliveries,
        or its end is not known."""
        for partition, end in end_offsets.items():
            for offset in range(end):
                record = self.records.get((partition, offset))
                assert record is not None, f"record {offset} of {partition} was never delivered"
                assert record.ended or record.may_be_ended or self._is_spent(record), (
                    f"record {offset} of {partition} is lost: delivered {len(record.deliveries)} times, "
                    f"last to {record.deliveries[-1][1]}, and not accepted"
                )
