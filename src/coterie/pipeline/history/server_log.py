"""The coordinator's lines of Apache Kafka's own log -> LOG_EVENTS, as `coterie.observer.logs.server_log` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coterie.observer.logs.server_log import coordinator_lines, rebalances
from coterie.pipeline.history.tables import LOG_EVENTS
from coterie.pipeline.tables.ddl import arrow_schema
from coterie.pipeline.tables.frame import Frame, Frames
from coterie.records.arrow_arrays import batch_of_rows, table_of_rows

LINES = "group string, time_ms bigint, number bigint, line string"


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
