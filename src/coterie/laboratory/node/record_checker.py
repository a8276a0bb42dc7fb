"""The invariants of logs and of what clients were answered about them, judged by the batches that a log holds.

- Offsets have no gap and no double, and begin at the log's start.
- A batch in a log is one that was sent, whole, and is there once.
- An acknowledged record is at its offset with its value, unless it was deleted; a refused batch is nowhere.
- The sequence numbers of one producer id and epoch follow each other.
- The log begins between the last acknowledged DeleteRecords and the largest that was requested.
- Committed records are those of transactions that were committed; a transaction ends the same way in every partition.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from coterie.laboratory.decoded_reads import DecodedReads
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.markers import marker_of

READ_BYTES = 20_000
TopicPartition = tuple[str, int]
Values = tuple[bytes, ...]
Reads = DecodedReads[list[tuple[BatchHeader, Values]]]


class Acknowledgement(StrEnum):
    """What a client knows about its request."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(slots=True)
class SentBatch:
    """One batch that was sent, perhaps several times; ``transaction`` names the one it is part of."""

    partition: TopicPartition
    values: Values
    transaction: int | None = None
    outcome: Acknowledgement = Acknowledgement.UNKNOWN
    base_offset: int = -1


@dataclass(slots=True)
class SentTransaction:
    """``committed``: what the producer requested; None until it did. ``outcome``: of that request."""

    number: int
    committed: bool | None = None
    outcome: Acknowledgement = Acknowledgement.UNKNOWN


@dataclass(slots=True)
class _Partition:
    sent: dict[Values, SentBatch] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    sent_at: dict[int, SentBatch] = field(default_factory=dict)  # of what is acknowledged
    observed: dict[int, bytes] = field(default_factory=dict)
    acknowledged_anywhere: set[bytes] = field(default_factory=set)
    delete_requested: int = 0
    deleted_until: int = 0
    reads: Reads = field(default_factory=lambda: DecodedReads(_decoded))


class RecordChecker:
    """What clients sent, with what they know of it. What was read stays, acknowledged or not, also where power fails: readers
    get nothing before it is synced."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, _Partition] = {}
        self.transactions: list[SentTransaction] = []
        self.acknowledged = self.refused = self.batches_checked = 0

    def _of(self, partition: TopicPartition) -> _Partition:
        of = self.partitions.get(partition)
        if of is None:
            of = self.partitions[partition] = _Partition()
        return of

    # -- what clients did ---------------------------------------------------------------------------------------------

    def begin_transaction(self) -> SentTransaction:
        transaction = SentTransaction(len(self.transactions))
        self.transactions.append(transaction)
        return transaction

    def send(self, partition: TopicPartition, values: Values, transaction: int | None = None) -> SentBatch:
        """A batch is about to be sent for the first time. All values of a story are different."""
        sent = SentBatch(partition, values, transaction)
        self._of(partition).sent[values] = sent
        return sent

    def acknowledge(self, sent: SentBatch, base_offset: int) -> None:
        """The batch was acknowledged at that offset. Raises AssertionError where another one was before, at its offset
        or for itself."""
        assert sent.outcome != Acknowledgement.REFUSED
        if sent.outcome == Acknowledgement.ACKNOWLEDGED:
            assert sent.base_offset == base_offset, f"{sent} is acknowledged anew at offset {base_offset}"
            return
        sent.outcome, sent.base_offset = Acknowledgement.ACKNOWLEDGED, base_offset
        self.acknowledged += 1
        of = self._of(sent.partition)
        for offset, value in enumerate(sent.values, base_offset):
            known = of.acknowledged.setdefault(offset, value)
            assert known == value, f"{sent.partition}: offset {offset} is of {known!r} and of {value!r}"
            of.sent_at[offset] = sent

    def send_again(self, partition: TopicPartition, values: Values) -> None:
        """A batch is about to be sent, perhaps not for the first time, and perhaps as a piece of another."""
        if values not in self._of(partition).sent:
            self.send(partition, values)

    def acknowledge_record(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """One record, by itself. ``offset`` -1: a later acknowledgement shows that it is in the log, at an offset that
        the producer does not learn."""
        if offset < 0:
            self._of(partition).acknowledged_anywhere.add(value)
            return
        self.acknowledge(SentBatch(partition, (value,)), offset)

    def refuse(self, sent: SentBatch) -> None:
        """The producer will not send it again, and every time that it did it was refused."""
        sent.outcome = Acknowledgement.REFUSED
        self.refused += 1

    def end(self, transaction: SentTransaction) -> None:
        """Its end, as its producer requested it, was acknowledged."""
        transaction.outcome = Acknowledgement.ACKNOWLEDGED

    def observe(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader got this record."""
        before = self._of(partition).observed.setdefault(offset, value)
        assert before == value, f"{partition}: at offset {offset} a reader gets {value!r}, and got {before!r} before"

    def delete_requested(self, partition: TopicPartition) -> int:
        """The largest offset before which records were to be deleted."""
        return self._of(partition).delete_requested

    def due_value(self, partition: TopicPartition, offset: int, *, committed_only: bool) -> bytes | None:
        """The record that every consumer which reads beyond must get; None for an offset without such a record."""
        known = self._of(partition)
        sent = known.sent_at.get(offset)
        if sent is None:
            return None
        if committed_only and sent.transaction is not None:
            transaction = self.transactions[sent.transaction]
            if not (transaction.committed and transaction.outcome == Acknowledgement.ACKNOWLEDGED):
                return None
        return known.acknowledged[offset]

    def acknowledged_offset(self, rng: random.Random, partition: TopicPartition) -> int | None:
        """A random one."""
        offsets = list(self._of(partition).acknowledged)
        return rng.choice(offsets) if offsets else None

    def request_delete(self, partition: TopicPartition, offset: int) -> None:
        of = self._of(partition)
        of.delete_requested = max(of.delete_requested, offset)

    def deleted(self, partition: TopicPartition, low_watermark: int) -> None:
        of = self._of(partition)
        of.deleted_until = max(of.deleted_until, low_watermark)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check_log(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Reads the whole log. Raises AssertionError."""
        known, seen = self._of(partition), set[bytes]()
        sequences: dict[tuple[int, int], int] = {}
        next_offset: int | None = None
        contents: dict[int, bytes] = {}
        name = f"{partition[0]}-{partition[1]}"
        start = log.log_start_offset
        for header, values in read_batches(log, known.reads):
            self.batches_checked += 1
            expected = next_offset if next_offset is not None else min(header.base_offset, start)
            assert header.base_offset == expected, f"{name}: offset {header.base_offset} follows {expected - 1}"
            next_offset = header.last_offset + 1
            if header.is_control:
                continue
            assert values in known.sent, f"{name}: at offset {header.base_offset} is no batch that was sent: {values!r}"
            twice = seen.intersection(values)
            assert not twice, f"{name}: {sorted(twice)} is there twice, again at offset {header.base_offset}"
            sent = known.sent[values]
            assert sent.outcome != Acknowledgement.REFUSED, (
                f"{name}: {sent} was refused, and is at offset {header.base_offset}"
            )
            seen.update(values)
            contents.update(enumerate(values, header.base_offset))
            if header.producer_id >= 0:
                before = sequences.get((header.producer_id, header.producer_epoch))
                assert before is None or header.base_sequence == before + 1, (
                    f"{name}: of producer {header.producer_id} sequence {header.base_sequence} follows {before}"
                )
                sequences[header.producer_id, header.producer_epoch] = header.last_sequence
        end = log.end_offset
        assert next_offset is None or next_offset == end, (
            f"{name}: the last batch ends at {next_offset}, the log at {end}"
        )
        for what, promised in (("acknowledged", known.acknowledged), ("read", known.observed)):
            for offset, value in promised.items():
                there = contents.get(offset)
                assert there == value or offset < start, f"{name}: {value!r} was {what} at {offset}, where {there!r} is"
        lost = set() if known.delete_requested else known.acknowledged_anywhere - seen
        assert not lost, f"{name}: {sorted(lost)} were acknowledged, and are nowhere"
        assert start >= known.deleted_until, f"{name}: begins at {start}, and was deleted until {known.deleted_until}"
        assert start <= known.delete_requested, f"{name}: begins at {start}, deleted was {known.delete_requested}"

    def check_committed(self, partition: TopicPartition, log: PartitionLog, committed: list[bytes]) -> None:
        """``committed``: the values that a reader of committed records got of the whole log, once no transaction is open."""
        name, known = f"{partition[0]}-{partition[1]}", self._of(partition)
        expected = [value for _, value in committed_records(log)]
        if committed != expected:
            missing = [value for value in expected if value not in committed]
            more = [value for value in committed if value not in expected]
            raise AssertionError(f"{name}: by the markers a reader should get {missing}, and should not {more}")
        visible = set(committed)
        for sent in known.sent.values():
            if sent.transaction is None or sent.base_offset < log.log_start_offset:
                continue
            transaction = self.transactions[sent.transaction]
            if sent.outcome != Acknowledgement.ACKNOWLEDGED or transaction.outcome != Acknowledgement.ACKNOWLEDGED:
                continue
            is_there = sent.values[-1] in visible
            assert is_there == transaction.committed, f"{name}: {sent} of {transaction} is visible: {is_there}"

    def check_whole_transactions(
        self, committed: dict[TopicPartition, list[bytes]], starts: dict[TopicPartition, int]
    ) -> None:
        """A transaction whose end is not known was committed in every partition or in none."""
        visible = {partition: set(values) for partition, values in committed.items()}
        ended: dict[int, set[bool]] = {}
        for partition, known in self.partitions.items():
            for sent in known.sent.values():
                is_counted = sent.outcome == Acknowledgement.ACKNOWLEDGED and sent.base_offset >= starts[partition]
                if sent.transaction is not None and is_counted:
                    ended.setdefault(sent.transaction, set()).add(sent.values[-1] in visible[partition])
        torn = [number for number, ends in ended.items() if len(ends) > 1]
        assert not torn, f"transactions {torn} were committed in part"


def read_batches(log: PartitionLog, reads: Reads | None = None) -> Iterator[tuple[BatchHeader, Values]]:
    """Every batch of a log, with the checks of a consumer; no values for a marker. ``reads``: what was read of it before."""
    offset, reads = log.log_start_offset, DecodedReads(_decoded) if reads is None else reads
    while offset < log.end_offset:
        before = offset
        for header, values in reads.of(offset, log.read(offset, READ_BYTES)):
            yield header, values
            offset = header.last_offset + 1
        assert offset > before, f"nothing can be read at offset {offset}, before the end {log.end_offset}"


def _decoded(data: bytes) -> list[tuple[BatchHeader, Values]]:
    decoded = []
    for position, header in batches(data):
        check_crc(data, position, header)
        records = [] if header.is_control else decode_records(data, position, header)
        decoded.append((header, tuple([record.value or b"" for record in records])))
    return decoded


def committed_records(log: PartitionLog) -> Iterator[tuple[int, bytes]]:
    """Offset and value, by the markers alone, in the order of the log."""
    every: list[tuple[int | None, int, bytes]] = []
    open_at: dict[int, list[int]] = {}
    committed: set[int] = set()
    offset = log.log_start_offset
    for header, values in read_batches(log):
        if header.is_control:
            mine = open_at.pop(header.producer_id, [])
            data = log.read(max(header.base_offset, offset), header.size)
            if marker_of(data, 0, header):
                committed.update(mine)
            continue
        number = None
        if header.is_of_a_transaction:
            number = header.base_offset
            open_at.setdefault(header.producer_id, []).append(number)
        every += [(number, at, value) for at, value in enumerate(values, header.base_offset) if at >= offset]
    return ((at, value) for number, at, value in every if number is None or number in committed)
