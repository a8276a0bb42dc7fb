"""A whole log in pieces, as a coordinator loads it: some milliseconds of work each, so that a driver can do other things in
between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches

CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class SkippedBatch:
    """A batch whose checksum is right and of which records cannot be read: its offsets, the last included, and why."""

    first_offset: int
    last_offset: int
    problem: str

    def __str__(self) -> str:
        return f"the batch with offsets {self.first_offset} to {self.last_offset} cannot be read ({self.problem})"


def chunks(log: PartitionLog) -> Iterator[tuple[bytes, list[tuple[int, BatchHeader]]]]:
    """The bytes of some batches, with the position and the header of each. Ends at the end of the log, or where damage took
    what came before the end. Raises BatchError, OSError."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, CHUNK_BYTES)
        if not data:
            return
        headers = list(batches(data))
        yield data, headers
        offset = headers[-1][1].last_offset + 1
