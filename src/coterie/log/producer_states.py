"""What a log knows of its producers: epoch and the last five batches of each idempotent one (KIP-98, KIP-360), and the
transactions. A repeated batch returns its first offset; a gap in the sequence is refused.

Readers of committed records stop before the first transaction that is open, and leave out the records of aborted ones
(KIP-98), which are kept in Kafka's `.txnindex`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import google_crc32c

from coterie.records.batch import BatchHeader
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.stored.producer_snapshot import ProducerEntry, ProducerSnapshot
from coterie.wire.primitives import WireError

BATCHES_KEPT = 5
UNVERIFIED_KEPT = 1_000
_SNAPSHOT_VERSION = 1
LAST_EPOCH = 2**15 - 1  # no epoch is after it, so that a marker may repeat it
_MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _SeenBatch:
    """A batch that was appended: its sequence numbers, last offset, offset delta and timestamp (ms)."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerStateEntry:
    """``last_timestamp`` (ms) is that of its newest batch or marker; ``coordinator_epoch`` that of the newest marker;
    ``markers`` counts them since the log was opened."""

    epoch: int
    batches: deque[_SeenBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    markers: int = 0

    @property
    def last_sequence(self) -> int:
        """-1 where only the end of a transaction is known of the epoch: its numbers begin with 0."""
        return self.batches[-1].last_sequence if self.batches else -1


@dataclass(frozen=True, slots=True)
class _LowestSequence:
    """The lowest number of the batches of an epoch that came, of a producer of which none is in the log yet."""

    epoch: int
    sequence: int


class Producers:
    """The producers of one log, by producer id. ``lowest``: of producers of transactions that are not known here, while the
    coordinator verifies the transaction and after it refused, `UNVERIFIED_KEPT` of them."""

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerStateEntry] = {}
        self.lowest: dict[int, _LowestSequence] = {}

    def note_unverified(self, header: BatchHeader) -> None:
        """Before the coordinator verifies the batch's transaction: where it fails for now, no later batch may come into
        the log ahead of this one, which its producer sends again (Kafka's VerificationStateEntry)."""
        if header.producer_id in self.by_id:
            return  # the numbers go on from its last batch
        known = self.lowest.pop(header.producer_id, None)
        if known is None or header.producer_epoch > known.epoch:
            known = _LowestSequence(header.producer_epoch, header.base_sequence)
        elif header.producer_epoch == known.epoch:
            known = _LowestSequence(known.epoch, min(known.sequence, header.base_sequence))
        self.lowest[header.producer_id] = known
        if len(self.lowest) > UNVERIFIED_KEPT:
            del self.lowest[next(iter(self.lowest))]

    def check(self, header: BatchHeader, *, must_begin: bool = False) -> _SeenBatch | None:
        """The earlier batch if this one is a duplicate, else None. ``must_begin``: a producer that is not known here has
        not written before. Raises Refusal for an old epoch or a gap."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            if must_begin and header.base_sequence != 0:
                raise Refusal(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a producer that is not known begins with sequence 0"
                )
            # The batches before may have been deleted by retention, so any sequence is accepted (KIP-360).
            self._check_lowest(header)
            return None
        self.check_epoch(header.producer_id, header.producer_epoch)
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch must begin with sequence 0")
            return None
        for seen in producer.batches:
            if seen.first_sequence == header.base_sequence and seen.last_sequence == header.last_sequence:
                return seen
        last = producer.last_sequence
        following = 0 if last == _MAX_SEQUENCE else last + 1
        if header.base_sequence != following:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {header.base_sequence} of producer {header.producer_id} is out of order: {following} is next",
            )
        return None

    def _check_lowest(self, header: BatchHeader) -> None:
        lowest = self.lowest.get(header.producer_id)
        if lowest is not None and lowest.epoch == header.producer_epoch and header.base_sequence > lowest.sequence:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {header.base_sequence} of producer {header.producer_id} came after {lowest.sequence}",
            )

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raises Refusal for a producer that a newer one with its id has fenced."""
        producer = self.by_id.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)

    def appended(self, header: BatchHeader, last_offset: int) -> None:
        """Remembers a batch that went into the log."""
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            coordinator_epoch = -1 if producer is None else producer.coordinator_epoch
            producer = ProducerStateEntry(header.producer_epoch, coordinator_epoch=coordinator_epoch)
            self.by_id[header.producer_id] = producer
            self.lowest.pop(header.producer_id, None)
        producer.last_timestamp = header.max_timestamp
        producer.batches.append(
            _SeenBatch(
                header.base_sequence, header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp
            )
        )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, *, exceeds_epoch: bool) -> None:
        """Raises Refusal for the marker of a coordinator that a newer one has replaced, and with
        ``exceeds_epoch`` for one that is late: the marker of a transaction of version 2 is of the epoch after it, so that
        what is open under the marker's own epoch is another transaction (KIP-1228)."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return
        if coordinator_epoch < producer.coordinator_epoch:
            raise Refusal(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        if exceeds_epoch and header.producer_epoch == producer.epoch < LAST_EPOCH:
            raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)

    def ended(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """A transaction's marker: it has no sequence, but a newer epoch in it fences the older."""
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch < header.producer_epoch:
            producer = self.by_id[header.producer_id] = ProducerStateEntry(header.producer_epoch)
            self.lowest.pop(header.producer_id, None)
        producer.last_timestamp, producer.coordinator_epoch = header.max_timestamp, coordinator_epoch
        producer.markers += 1

    def expire(self, before_ms: int, busy: Container[int] = ()) -> None:
        """Forgets producers whose newest batch or marker is older (producer.id.expiration.ms), but none that is ``busy`` in
        an open transaction."""
        old = [producer_id for producer_id, p in self.by_id.items() if p.last_timestamp < before_ms]
        for producer_id in old:
            if producer_id not in busy:
                del self.by_id[producer_id]

    def to_snapshot(self, open_transactions: Mapping[int, int]) -> bytes:
        """Kafka's `.snapshot` file: each producer's last batch, and where its open transaction began."""
        entries = []
        for producer_id, p in sorted(self.by_id.items()):
            last = p.batches[-1] if p.batches else _SeenBatch(-1, -1, -1, 0, -1)
            first_offset = open_transactions.get(producer_id, -1)
            entries.append(
                ProducerEntry(
                    producer_id,
                    p.epoch,
                    last.last_sequence,
                    last.last_offset,
                    offset_delta=last.offset_delta,
                    timestamp=p.last_timestamp,
                    coordinator_epoch=p.coordinator_epoch,
                    current_txn_first_offset=first_offset,
                )
            )
        body = ProducerSnapshot(entries).encode(1)
        return struct.pack(">hI", _SNAPSHOT_VERSION, google_crc32c.value(body)) + body

    def load_snapshot(self, data: bytes, open_transactions: dict[int, int]) -> bool:
        """Restores the state from a snapshot and adds the first offsets of open transactions to ``open_transactions``; False
        for a damaged one, which is not used."""
        try:
            version, crc = struct.unpack_from(">hI", data)
            if version != _SNAPSHOT_VERSION or google_crc32c.value(data[6:]) != crc:
                return False
            snapshot = ProducerSnapshot.decode(data, 1, 6)
        except (struct.error, WireError):
            return False
        for entry in snapshot.producer_entries:
            producer = ProducerStateEntry(
                entry.epoch, last_timestamp=entry.timestamp, coordinator_epoch=entry.coordinator_epoch
            )
            self.by_id[entry.producer_id] = producer
            if entry.current_txn_first_offset >= 0:
                open_transactions[entry.producer_id] = entry.current_txn_first_offset
            if entry.last_offset < 0:
                continue
            first = (entry.last_sequence - entry.offset_delta) & _MAX_SEQUENCE
            producer.batches.append(
                _SeenBatch(first, entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        return True


_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class Aborted:
    """Records of ``producer_id`` from ``first_offset`` up to its marker at ``last_offset`` do not count;
    ``last_stable_offset``: what could be read when the marker came."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return _ENTRY.pack(_VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


def decode_index(data: bytes) -> list[Aborted]:
    """The whole entries of a `.txnindex` file; a torn one at the end is left out."""
    whole = len(data) - len(data) % _ENTRY.size
    return [Aborted(*fields[1:]) for fields in _ENTRY.iter_unpack(data[:whole])]


class PartitionTransactions:
    """The open and aborted transactions of one partition, updated with every batch that is appended or replayed."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id -> offset of its first record
        self.aborted: list[Aborted] = []
        # First offset and marker of each that ended above the high watermark.
        self.unreplicated: list[tuple[int, int]] = []

    def appended(self, header: BatchHeader) -> None:
        if header.is_of_a_transaction and not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)

    def ended(self, header: BatchHeader, committed: bool) -> Aborted | None:
        """A marker was appended; the entry for the index, if it aborts something."""
        first = self.open.pop(header.producer_id, None)
        if first is None:
            return None
        self.unreplicated.append((first, header.last_offset))
        if committed:
            return None
        stable = self.last_stable_offset(header.last_offset + 1)
        entry = Aborted(header.producer_id, first, header.last_offset, stable)
        self.aborted.append(entry)
        return entry

    def replicated(self, high_watermark: int) -> None:
        """The high watermark has moved: transactions with their marker below it are decided for good."""
        if self.unreplicated:
            self.unreplicated = [ended for ended in self.unreplicated if ended[1] >= high_watermark]

    def last_stable_offset(self, end_offset: int) -> int:
        """Before it every transaction is decided for good, with a marker before ``end_offset``; at most ``end_offset``."""
        stable = min(end_offset, *self.open.values()) if self.open else end_offset
        if self.unreplicated:
            stable = min([stable, *(first for first, marker in self.unreplicated if marker >= end_offset)])
        return stable

    def aborted_between(self, first: int, last: int) -> list[Aborted]:
        """Aborted transactions with records from offset ``first`` up to, not including, ``last``."""
        return [a for a in self.aborted if a.last_offset >= first and a.first_offset < last]

    def forget_before(self, offset: int) -> None:
        """Drops aborted transactions whose records are all below ``offset``: they are deleted."""
        self.aborted = [a for a in self.aborted if a.last_offset >= offset]
