"""The files of a partition's replicas, compared byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from coterie.log.epochs.epoch_checkpoint import FILE
from coterie.records.batch import BatchError, batches


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    """``records``: the log's segments joined. ``epochs``: (epoch, start offset) of each leader that has appended."""

    records: bytes
    epochs: tuple[tuple[int, int], ...]
    end_offset: int

    @staticmethod
    def read(folder: Path) -> ReplicaFiles:
        """What one partition's folder holds. A batch that is cut short, because its broker writes it just now, is left
        out."""
        records = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        end_offset = size = 0
        try:
            for position, header in batches(records):
                end_offset, size = header.last_offset + 1, position + header.size
        except BatchError:
            pass
        return ReplicaFiles(records[:size], _epochs(folder / FILE, end_offset), end_offset)


def _epochs(file: Path, end_offset: int) -> tuple[tuple[int, int], ...]:
    """Without those in which nothing was appended: only their leader knows of them. A log of epoch 0 alone needs no file."""
    if not file.exists():
        return ((0, 0),) if end_offset else ()
    rows = [line.split() for line in file.read_text().splitlines()[2:] if line.strip()]
    return tuple((int(epoch), int(start)) for epoch, start in rows if int(start) < end_offset)


def difference(replicas: Mapping[int, ReplicaFiles]) -> str:
    """The first difference between two brokers' files, in a sentence; empty where all are equal."""
    (first, expected), *others = replicas.items()
    for broker_id, actual in others:
        names = f"brokers {first} and {broker_id}"
        if actual.records != expected.records:
            return f"{names} differ in their records {_first_batch(expected.records, actual.records)}"
        if actual.epochs != expected.epochs:
            return f"{names} have the leader epochs {expected.epochs} and {actual.epochs}"
    return ""


def _first_batch(expected: bytes, actual: bytes) -> str:
    pairs = zip_longest(_batches(expected), _batches(actual), fillvalue=(-1, b""))
    for (offset, one), (other_offset, other) in pairs:
        if one != other:
            ends = "where one log ends" if min(offset, other_offset) < 0 else ""
            return f"from offset {max(offset, other_offset)} on {ends}".rstrip()
    return "although all batches are equal"


def _batches(records: bytes) -> list[tuple[int, bytes]]:
    return [(header.base_offset, records[at : at + header.size]) for at, header in batches(records)]
