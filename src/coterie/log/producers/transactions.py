"""The transactions of one log: which are open, so that readers of committed records stop before the first of them, and
which were aborted, so that those readers leave their records out (KIP-98). Aborted ones are kept in Kafka's `.txnindex`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from coterie.records.batch import BatchHeader

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
