"""What was observed of groups from outside, as sources of the history: the journal of `coterie observe` or `coterie proxy`, and
the coordinator's lines of Apache Kafka's own log, which become LOG_EVENTS. A journal is a file in a folder, in ranges of bytes,
or a topic, in ranges of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.observer.journal_folders import JOURNAL_FILE, journal_folder
from coterie.observer.logs.server_log import coordinator_lines, rebalances
from coterie.pipeline.history.reading.record_sources import JOURNAL, LogRange, NothingToRead, broker_ranges
from coterie.pipeline.history.tables import LOG_EVENTS
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.tables.frame import Frame, Frames, arrow_schema
from coterie.records.arrow_arrays import batch_of_rows, table_of_rows

RANGE_BYTES = 32 * 1024 * 1024
LINES_AT_ONCE = 10_000
TAIL_BYTES = 1024 * 1024
LINES = "group string, time_ms bigint, number bigint, line string"


def observed_ranges(journal: str, client: Mapping[str, str] | None, since: Mapping[str, int]) -> list[LogRange]:
    """What is new in it; ``since``: by `source_name`. A line that is not written whole yet is left for the next run. Raises
    KafkaError, NothingToRead."""
    folder = journal_folder(journal)
    if folder is not None:
        return _file_ranges(folder / JOURNAL_FILE, since.get(str((folder / JOURNAL_FILE).resolve()), 0))
    if client is None:
        raise NothingToRead(
            f"{journal} is a topic: name its broker with --bootstrap-server, or a folder as ./{journal}"
        )
    done = {int(name.rpartition("-")[2]): offset for name, offset in since.items() if name.startswith(f"{journal}-")}
    return broker_ranges(SourceOptions(dict(client), subscribe=(journal,)), done)


def source_name(journal: str, r: LogRange) -> str:
    """Of the file, or of the topic's partition."""
    return f"{journal}-{r.log_partition}" if r.path is None else r.path


def _file_ranges(file: Path, since: int) -> list[LogRange]:
    try:
        end = _whole_lines(file)
    except OSError as error:
        raise NothingToRead(
            f"{file} cannot be read: {error.strerror}; `coterie observe --journal` writes it"
        ) from error
    path = str(file.resolve())
    return [
        LogRange(path, None, port=None, log_partition=0, first=first, last=min(first + RANGE_BYTES, end), since=since)
        for first in range(since, end, RANGE_BYTES)
    ]


def _whole_lines(file: Path) -> int:
    """The position behind the last line's end."""
    size = file.stat().st_size
    first = max(size - TAIL_BYTES, 0)
    with open(file, "rb") as opened:
        opened.seek(first)
        return first + opened.read(size - first).rfind(b"\n") + 1


def observed_lines(ranges: Frame) -> Frame:
    """RANGES of files -> JOURNAL. A line is of the range in which it begins; its offset is its position."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                rows: list[dict[str, Any]] = []
                for line in _lines(LogRange(**row)):
                    rows.append(line)
                    if len(rows) == LINES_AT_ONCE:
                        yield batch_of_rows(rows, arrow_schema(JOURNAL))
                        rows = []
                yield batch_of_rows(rows, arrow_schema(JOURNAL))

    return ranges.map(run, JOURNAL)


def _lines(r: LogRange) -> Iterator[dict[str, Any]]:
    assert r.path is not None
    with open(r.path, "rb") as file:
        if r.first:
            file.seek(r.first - 1)
            file.readline()  # the end of the line before
        position = file.tell()
        while position < r.last:
            line = file.readline()
            yield {"value": line, "offset": position}
            position += len(line)


def advanced(journal: str, ranges: Sequence[LogRange], progress: dict[str, int]) -> None:
    """Notes how far the ranges reach."""
    for r in ranges:
        name = source_name(journal, r)
        progress[name] = max(progress.get(name, 0), r.last)


def lines_of(frames: Frames, paths: Sequence[Path]) -> Frame:
    """Files -> LINES: a task per file; rotated and several brokers' files may come in any order."""
    files = frames.of_rows([(str(path.resolve()),) for path in paths], "path string", tasks=len(paths))

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                rows = [
                    {"group": group, "time_ms": time_ms, "number": number, "line": line}
                    for number, (time_ms, group, line) in enumerate(coordinator_lines(Path(path)))
                ]
                yield batch_of_rows(rows, arrow_schema(LINES))

    return files.map(run, LINES)


def from_lines(lines: Frame) -> Frame:
    """LINES -> LOG_EVENTS: each group's story, in the order of time."""

    def run(key: tuple[Any, ...], table: Any) -> Any:
        ordered = table.sort_by([("time_ms", "ascending"), ("number", "ascending")])
        rows = list(rebalances(ordered.column("line").to_pylist()))
        return table_of_rows(rows, arrow_schema(LOG_EVENTS))

    return lines.group(["group"], run, LOG_EVENTS)
