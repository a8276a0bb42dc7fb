"""The jobs of `coterie pipeline`: they read, call the functions of `flights` and `history`, and write. No logic."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.journal import TOPIC as JOURNAL_TOPIC
from coterie.pipeline import flights, history, keys
from coterie.pipeline.columns import COLUMNS

OFFSETS_TOPIC = "__consumer_offsets"


def batch(spark: Any, bootstrap_server: str, topic: str) -> Any:
    """A topic as it is now."""
    return (
        spark.read.format("coterie").options(**{"kafka.bootstrap.servers": bootstrap_server, "subscribe": topic}).load()
    )


def stream(spark: Any, bootstrap_server: str, topic: str, group: str, *, limit: int | None = None) -> Any:
    """A topic from its first record on, committing to the group."""
    options = {
        "kafka.bootstrap.servers": bootstrap_server,
        "subscribe": topic,
        "kafka.group.id": group,
        "startingOffsets": "earliest",
    }
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    return spark.readStream.format("coterie").options(**options).load()


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A table kept by micro-batches: ``partial`` makes a batch's part of it from records, ``combine`` adds parts up."""

    partial: Callable[[Any], Any]
    combine: Callable[[Any], Any]


DELAYS = Aggregation(lambda records: flights.delays(flights.flights(records)), flights.added_up)
KEYS = Aggregation(keys.counts, keys.added_up)


def run_aggregation(
    spark: Any,
    aggregation: Aggregation,
    source: Any,
    out: Path,
    stop: Callable[[], bool] | None = None,
) -> Any:
    """Keeps OUT/table up to date with a stream (`stream`); returns the table.

    Each micro-batch writes its own part to OUT/batches/batch_id=N, overwriting: a batch that Spark runs again after a
    crash counts once. With ``stop`` it follows the topic until that says True; without, it takes what is there now.
    """
    parts = out / "batches"

    def write(frame: Any, batch_id: int) -> None:
        aggregation.partial(frame).coalesce(1).write.mode("overwrite").parquet(str(parts / f"batch_id={batch_id}"))

    writer = source.writeStream.foreachBatch(write).option("checkpointLocation", str(out / "checkpoint"))
    if stop is None:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    else:
        query = writer.trigger(processingTime="500 milliseconds").start()
        while query.isActive and not stop():
            time.sleep(0.1)
        _stop_gracefully(query)
    _raise_failure(query)
    if parts.exists():
        aggregation.combine(spark.read.parquet(str(parts))).coalesce(1).write.mode("overwrite").parquet(
            str(out / "table")
        )
        return spark.read.parquet(str(out / "table"))
    return aggregation.partial(batch_of_nothing(spark))


def batch_of_nothing(spark: Any) -> Any:
    """The source's columns without a row."""
    return spark.createDataFrame([], COLUMNS)


def _stop_gracefully(query: Any, patience_s: float = 20.0) -> None:
    """Stops between two batches, so that the last one is committed."""
    deadline = time.monotonic() + patience_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()


def _raise_failure(query: Any) -> None:
    failure = query.exception()
    if failure is not None:
        raise failure


def run_history(spark: Any, bootstrap_server: str, out: Path) -> dict[str, int]:
    """Writes the tables of `history` to OUT/NAME; returns their row counts."""
    counts: dict[str, int] = {}
    records = batch(spark, bootstrap_server, OFFSETS_TOPIC).cache()
    for name, make in history.TABLES.items():
        counts[name] = _write(spark, make(records), out / name)
    records.unpersist()
    counts["rebalances"] = _write(
        spark, history.rebalances(batch(spark, bootstrap_server, JOURNAL_TOPIC)), out / "rebalances"
    )
    return counts


def run_table(spark: Any, bootstrap_server: str, topic: str, group: str, out: Path) -> int:
    """The topic's records as they are, appended to OUT/table as Parquet; a second run adds what is new."""
    query = (
        stream(spark, bootstrap_server, topic, group)
        .writeStream.format("parquet")
        .option("path", str(out / "table"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    _raise_failure(query)
    return int(spark.read.parquet(str(out / "table")).count())


def _write(spark: Any, frame: Any, path: Path) -> int:
    shutil.rmtree(path, ignore_errors=True)
    frame.coalesce(1).write.mode("overwrite").parquet(str(path))
    return int(spark.read.parquet(str(path)).count())
