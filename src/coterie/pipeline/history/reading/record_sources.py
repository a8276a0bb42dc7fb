"""The sources of `__consumer_offsets`' records: log folders, in byte ranges that begin with a batch, or a broker's
topic, in ranges of offsets. Each task reads its range in pieces and decodes them; nothing passes through the JVM but rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.client.settings.settings import ClientSettings, client_settings
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.pipeline.history.reading.decoding import OffsetsDecoder
from coterie.pipeline.history.reading.sound_batches import Piece, UnreadableBatch, read_file, unfolded
from coterie.pipeline.history.tables import COMMITS, GROUP_LOG
from coterie.pipeline.offsets import EARLIEST, LATEST
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.log_folders import FileRange, file_ranges, partition_folders
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.topics import TopicReader
from coterie.pipeline.tables.frame import Frame, Frames, OfBatches, arrow_schema
from coterie.records.batch import read_header
from coterie.records.columnar import Columns

TOPIC = "__consumer_offsets"
RANGE_RECORDS = 1_000_000
RECORD_BYTES = 100  # about what a commit takes in a log
JOURNAL = "value binary, offset bigint"

# A range as a row: of a file, bytes; of a broker (path null), offsets. Records below ``since`` were read by an earlier run.
RANGES = "path string, host string, port int, log_partition int, first bigint, last bigint, since bigint"


class NothingToRead(ValueError):
    """There is no `__consumer_offsets` at the configured broker or in the folders."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """A piece of one partition of `__consumer_offsets`, as a row of RANGES: of a file (``path``) the bytes from
    ``first`` to ``last``, of a broker (``host``, ``port``) the offsets."""

    path: str | None
    host: str | None
    port: int | None
    log_partition: int
    first: int
    last: int
    since: int

    @property
    def size_bytes(self) -> int:
        """Its size; an estimate where a broker has it."""
        return (self.last - self.first) * (RECORD_BYTES if self.path is None else 1)

    @property
    def end_offset(self) -> int:
        """A fetch may run past a range of offsets; a file's piece does not run past its bytes."""
        return self.last if self.path is None else 2**63 - 1

    def row(self) -> tuple[Any, ...]:
        """As a row of the table of ranges."""
        return (self.path, self.host, self.port, self.log_partition, self.first, self.last, self.since)


# -- planning ---------------------------------------------------------------------------------------------------------------


def offsets_folders(folders: Sequence[Path]) -> dict[int, Path]:
    """By partition, in order. ``folders``: those of the partitions, or ones that hold them (a broker's log.dirs). Raises
    NothingToRead."""
    named = [item for folder in folders for item in partition_folders(folder).items()]
    by_partition = {number: path for (topic, number), path in sorted(named) if topic == TOPIC}
    if not by_partition:
        text = ", ".join(map(str, folders))
        raise NothingToRead(f"there is no folder {TOPIC}-N with a segment in {text}; give a broker's data folder")
    return by_partition


def log_ranges(folders: Sequence[Path], since: Mapping[int, int]) -> list[LogRange]:
    """``folders`` as `offsets_folders`. Raises NothingToRead."""
    ranges: list[LogRange] = []
    for number, path in offsets_folders(folders).items():
        done = since.get(number, 0)
        ranges += [
            LogRange(r.path, None, port=None, log_partition=number, first=r.first, last=r.last, since=done)
            for r in file_ranges(path, done)
        ]
    return ranges


def broker_ranges(options: SourceOptions, since: Mapping[int, int]) -> list[LogRange]:
    """The ranges of the topic as it is now; none where there is no such topic. Raises KafkaError."""
    reader = TopicReader(options)
    try:
        partitions = reader.partitions(missing_allowed=True)
        starts = reader.offsets_of(dict.fromkeys(partitions, EARLIEST))
        ends = reader.offsets_of(dict.fromkeys(partitions, LATEST))
        wanted = {tp: (max(starts[tp], since.get(tp[1], 0)), ends[tp]) for tp in partitions}
        ranges = reader.plan_ranges(wanted)
    finally:
        reader.close()
    pieces: list[LogRange] = []
    for r in ranges:
        for first in range(r.start, r.end, RANGE_RECORDS):
            last = min(first + RANGE_RECORDS, r.end)
            pieces.append(
                LogRange(None, r.host, r.port, log_partition=r.partition, first=first, last=last, since=first)
            )
    return pieces


def as_frame(frames: Frames, ranges: Sequence[LogRange]) -> Frame:
    """RANGES, spread out so that each task has about as many as any other."""
    return frames.of_rows([r.row() for r in ranges], RANGES, tasks=min(len(ranges), 64))


# -- reading, in tasks --------------------------------------------------------------------------------------------------------


def read_range(r: LogRange, settings: ClientSettings | None) -> Iterator[Piece | UnreadableBatch]:
    """Whole batches, some megabytes at a time, and what of the range cannot be read."""
    if r.path is not None:
        yield from read_file(FileRange(r.path, r.first, r.last))
        return
    from coterie.pipeline.reading.fetching import fetched

    assert settings is not None
    for data in fetched(_offset_range(TOPIC, r), settings):
        yield from unfolded(data)


def _offset_range(topic: str, r: LogRange) -> OffsetRange:
    assert r.host is not None
    assert r.port is not None
    return OffsetRange(topic, r.log_partition, r.first, r.last, r.host, r.port)


def commits(ranges: Frame, client: Mapping[str, str] | None) -> Frame:
    """RANGES -> COMMITS."""
    return ranges.map(_task(client, _commit_batches), COMMITS)


def group_log(ranges: Frame, client: Mapping[str, str] | None) -> Frame:
    """RANGES -> GROUP_LOG."""
    return ranges.map(_task(client, _group_log_batches), GROUP_LOG)


def journal(ranges: Frame, client: Mapping[str, str], topic: str = JOURNAL_TOPIC) -> Frame:
    """RANGES of the journal's topic -> JOURNAL. What was deleted before it was read is left out."""
    given = dict(client)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from coterie.pipeline.reading import fetching

        settings, schema = client_settings(given), arrow_schema(JOURNAL)
        for batch in batches:
            for row in batch.to_pylist():
                r = _offset_range(topic, LogRange(**row))
                for columns in fetching.read_range(r, settings, with_headers=False, fail_on_data_loss=False):
                    yield fetching.to_arrow(columns, r.topic, r.partition, schema)

    return ranges.map(run, JOURNAL)


Decode = Callable[[OffsetsDecoder, Piece | UnreadableBatch, LogRange], Any]


def _task(client: Mapping[str, str] | None, decode: Decode) -> OfBatches:
    given = None if client is None else dict(client)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        decoder = OffsetsDecoder(arrow_schema(COMMITS), arrow_schema(GROUP_LOG))
        settings = None if given is None else client_settings(given)
        for batch in batches:
            for row in batch.to_pylist():
                r = LogRange(**row)
                for piece in read_range(r, settings):
                    made = decode(decoder, piece, r)
                    if made is not None and made.num_rows:
                        yield made

    return run


def _commit_batches(decoder: OffsetsDecoder, piece: Piece | UnreadableBatch, r: LogRange) -> Any:
    if isinstance(piece, UnreadableBatch) or piece.columns is None:
        return None
    return decoder.commits(_within(piece.columns, r), r.log_partition)


def _group_log_batches(decoder: OffsetsDecoder, piece: Piece | UnreadableBatch, r: LogRange) -> Any:
    if isinstance(piece, UnreadableBatch):
        is_new = piece.last_offset is None or piece.last_offset >= r.since
        return decoder.unreadable(piece, r.log_partition) if is_new else None
    wanted = [at for at in piece.controls if r.since <= read_header(piece.data, at).base_offset < r.end_offset]
    columns = None if piece.columns is None else _within(piece.columns, r)
    return decoder.group_log(columns, piece.data, wanted, r.log_partition)


def _within(columns: Columns, r: LogRange) -> Columns:
    first, last = (int(columns.offsets.searchsorted(offset)) for offset in (r.since, r.end_offset))
    return columns.slice(first, last)
