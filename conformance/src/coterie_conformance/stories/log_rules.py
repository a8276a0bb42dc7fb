"""What must hold of the batches of a log, as the broker itself has them. Each rule raises AssertionError."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.log.epochs.epoch_cache import UNDEFINED_EPOCH
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.markers import marker_of

READ_BYTES = 100_000
Records = list[tuple[int, bytes]]


def read_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Every batch from the log's start on, with the bytes that hold it and where it begins in them."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data, before = log.read(offset, READ_BYTES), offset
        for position, header in batches(data):
            check_crc(data, position, header)
            yield header, data, position
            offset = header.last_offset + 1
        assert offset > before, f"nothing can be read at offset {offset}, before the end {log.end_offset}"


def check_batches(name: str, log: PartitionLog) -> None:
    """Offsets have no gap; the sequence numbers of a producer id and epoch follow each other."""
    sequences: dict[tuple[int, int], int] = {}
    next_offset: int | None = None
    for header, _, _ in read_batches(log):
        expected = min(header.base_offset, log.log_start_offset) if next_offset is None else next_offset
        assert header.base_offset == expected, f"{name}: offset {header.base_offset} follows {expected - 1}"
        next_offset = header.last_offset + 1
        if header.producer_id < 0 or header.is_control:
            continue
        producer = header.producer_id, header.producer_epoch
        before = sequences.get(producer)
        assert before is None or header.base_sequence == before + 1, (
            f"{name}: of producer {producer} sequence {header.base_sequence} follows {before}"
        )
        sequences[producer] = header.last_sequence
    assert next_offset in (None, log.end_offset), f"{name}: the last batch ends at {next_offset}, not {log.end_offset}"


def committed_records(log: PartitionLog) -> Records:
    """Offset and value, by the markers alone, in the order of the log."""
    every: list[tuple[int | None, int, bytes]] = []
    open_at: dict[int, list[int]] = {}
    committed: set[int] = set()
    for header, data, position in read_batches(log):
        if header.is_control:
            mine = open_at.pop(header.producer_id, [])
            committed.update(mine if marker_of(data, position, header) else ())
            continue
        number = header.base_offset if header.is_of_a_transaction else None
        if number is not None:
            open_at.setdefault(header.producer_id, []).append(number)
        records = decode_records(data, position, header)
        every += [(number, r.offset, r.value or b"") for r in records if r.offset >= log.log_start_offset]
    return [(offset, value) for number, offset, value in every if number is None or number in committed]


def check_committed(name: str, log: PartitionLog, read: Records) -> None:
    """``read``: what a reader of committed records gets of the whole log."""
    expected = committed_records(log)
    if read != expected:
        missing = [record for record in expected if record not in read]
        more = [record for record in read if record not in expected]
        raise AssertionError(f"{name}: by the markers a reader should get {missing[:3]}, and should not {more[:3]}")


def check_epoch(name: str, log: PartitionLog, offset: int, epoch: int) -> None:
    """A committed offset has the epoch of the leader that appended what is before it (KIP-320)."""
    if epoch == UNDEFINED_EPOCH:
        assert not offset, f"{name}: {offset} is committed without a leader epoch"
        return
    begun = [entry.epoch for entry in log.epochs.cache.entries if entry.start_offset < offset]
    assert not begun or epoch == begun[-1], (
        f"{name}: {offset} is committed with leader epoch {epoch}, before it is {begun[-1]}"
    )
