"""The coordinator's lines of Apache Kafka's own log -> LOG_EVENTS, as `coterie.observer.server_log` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.observer.server_log import coordinator_lines, rebalances
from coterie.pipeline.history.tables import LOG_EVENTS
from coterie.pipeline.tables.ddl import arrow_schema
from coterie.records.arrow_arrays import batch_of_rows, table_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES = "group string, time_ms bigint, number bigint, line string"


def lines_of(spark: SparkSession, paths: list[Path]) -> DataFrame:
    """Files -> LINES: a task per file; rotated and several brokers' files may come in any order."""
    frame = spark.createDataFrame([(str(p.resolve()),) for p in paths], "path string").repartition(max(len(paths), 1))

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                rows = [
                    {"group": group, "time_ms": time_ms, "number": number, "line": line}
                    for number, (time_ms, group, line) in enumerate(coordinator_lines(Path(path)))
                ]
                yield batch_of_rows(rows, arrow_schema(LINES))

    return frame.mapInArrow(run, LINES)


def from_lines(lines: DataFrame) -> DataFrame:
    """LINES -> LOG_EVENTS: each group's story, in the order of time."""

    def run(table: Any) -> Any:
        ordered = table.sort_by([("time_ms", "ascending"), ("number", "ascending")])
        rows = list(rebalances(ordered.column("line").to_pylist()))
        return table_of_rows(rows, arrow_schema(LOG_EVENTS))

    return lines.groupBy("group").applyInArrow(run, LOG_EVENTS)
