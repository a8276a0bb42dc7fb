"""What `coterie groups dump` prints of segment files: ours and Apache Kafka's are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from coterie.coordinator.stored_records.stored import record_text
from coterie.pipeline.history.reading.sound_batches import UnreadableBatch, walk
from coterie.pipeline.reading.log_folders import FileRange
from coterie.records.batch import MAGIC, BatchError, BatchHeader, batches
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_records
from coterie.records.markers import ends_transaction
from coterie.text.quantity import quantity
from coterie.wire.primitives import WireError


def offset_segments(path: Path) -> list[Path]:
    """The segment itself, or those of a partition's folder or of a data folder."""
    if path.is_file():
        return [path]
    folders = sorted(path.glob("__consumer_offsets-*")) or [path]
    return sorted(segment for folder in folders for segment in folder.glob("[0-9]*.log"))


def is_segment(path: Path) -> bool:
    """Whether the file is empty or begins with a whole record batch."""
    data = path.read_bytes()
    try:
        header = next((header for _, header in batches(data)), None)
    except BatchError:
        return False
    return not data or (header is not None and header.magic == MAGIC)


def dump_offsets(segments: Sequence[Path], unread: list[str]) -> Iterator[str]:
    """A line a record, oldest first. What cannot be read is skipped, with a line that begins with !; ``unread`` has a sentence
    for each segment with such a line."""
    for segment in segments:
        if len(segments) > 1:
            yield f"# {segment}"
        bad = 0
        for line in _lines(segment):
            bad += line.startswith("!")
            yield line
        if bad:
            unread.append(f"{segment}: {quantity(bad, 'part')} cannot be read; the lines that begin with ! say why")


def _lines(segment: Path) -> Iterator[str]:
    end = 0
    try:
        size = segment.stat().st_size
        for each in walk(FileRange(str(segment), 0, size)):
            if isinstance(each, UnreadableBatch):
                last = "" if each.last_offset is None else f" to {each.last_offset}"
                yield f"! {each.first_offset}{last}: {each.why}, at byte {each.position}"
                end = size if each.last_offset is None else end
                continue
            position, data = each
            for at, header in batches(data):
                yield from _batch(data, at, header)
            end = max(end, position + len(data))
    except OSError as error:
        yield f"! {error.strerror or error}"
    else:
        if end < size:
            yield f"! no whole record batch at byte {end}"


def _batch(data: bytes, position: int, header: BatchHeader) -> Iterator[str]:
    transaction = f" [transaction of producer {header.producer_id}]" if header.is_transactional else ""
    try:
        records = decode_records(data, position, header) if header.record_count else []
    except (BatchError, CompressionError) as error:
        yield f"! {header.base_offset}: {error}"
        return
    for record in records:
        if header.is_control:
            ends = {True: "committed", False: "aborted", None: "unknown marker"}[ends_transaction(record)]
            yield f"{record.offset}: transaction of producer {header.producer_id} {ends}"
            continue
        try:
            yield f"{record.offset}: {record_text(record.key or b'', record.value)}{transaction}"
        except WireError as error:
            yield f"! {record.offset}: {error}"
