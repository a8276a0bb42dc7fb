"""The streaming jobs of `coterie pipeline`: they read, call functions of DataFrame -> DataFrame, and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.pipeline.columns import COLUMNS
from coterie.pipeline.options.options import SourceOptions, source_options
from coterie.pipeline.queries import follow, raise_failure, stop_gracefully

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# What the demo's producer writes as JSON; delays in minutes, null when a flight was cancelled.
FLIGHT = "carrier string, flight int, tailnum string, origin string, dest string, time_hour string, dep_delay double"


def flights(records: DataFrame) -> DataFrame:
    """The source's records -> flights, with the record's topic, partition and offset."""
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), FLIGHT)
    return records.select(parsed.alias("flight"), "topic", "partition", "offset").select(
        "flight.*", "topic", "partition", "offset"
    )


def delays(rows: DataFrame) -> DataFrame:
    """Flights -> one row per carrier and hour: flights, departed, and dep_delay_sum in minutes over the departed ones."""
    from pyspark.sql import functions as f

    hour = f.date_trunc("hour", f.to_timestamp("time_hour"))
    return rows.groupBy("carrier", hour.alias("hour")).agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0.0)).alias("dep_delay_sum"),
    )


def delays_added_up(partial: DataFrame) -> DataFrame:
    """Delays of several batches -> delays of all of them."""
    from pyspark.sql import functions as f

    return partial.groupBy("carrier", "hour").agg(
        f.sum("flights").alias("flights"),
        f.sum("departed").alias("departed"),
        f.sum("dep_delay_sum").alias("dep_delay_sum"),
    )


def counts(records: DataFrame) -> DataFrame:
    """The source's records -> one row per key, with the number of its records; those without a key count under null."""
    from pyspark.sql import functions as f

    return records.groupBy(f.col("key").cast("string").alias("key")).agg(f.count("*").alias("records"))


def counts_added_up(partial: DataFrame) -> DataFrame:
    """Counts of several batches -> counts of all of them."""
    from pyspark.sql import functions as f

    return partial.groupBy("key").agg(f.sum("records").alias("records"))


@dataclass(frozen=True, slots=True)
class JobSource:
    """A topic from its first record on, for a group: ``member`` joins it, otherwise it only receives commits."""

    bootstrap_server: str
    topic: str
    group: str
    member: bool = False
    limit: int | None = None  # records per micro-batch
    client: dict[str, str] = field(default_factory=dict, repr=False)

    def options(self) -> dict[str, str]:
        """The options of the source, by name."""
        options = {f"kafka.{name}": value for name, value in self.client.items()}
        options |= {
            "kafka.bootstrap.servers": self.bootstrap_server,
            "kafka.group.id": self.group,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "mode": "group" if self.member else "assign",
        }
        return options if self.limit is None else options | {"maxOffsetsPerTrigger": str(self.limit)}

    def parsed(self) -> SourceOptions:
        """Raises OptionError."""
        return source_options(self.options(), streaming=True)

    def load(self, spark: SparkSession) -> DataFrame:
        """The stream; nothing is connected yet."""
        return spark.readStream.format("coterie").options(**self.options()).load()


@dataclass(frozen=True, slots=True)
class Control:
    """When a job stops, where its lines of progress go, and whether it follows the topic beyond its present end."""

    stop: Callable[[], bool] = lambda: False
    say: Callable[[str], None] | None = None
    follow: bool = False


TO_THE_END = Control()


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A table kept by micro-batches: ``partial`` makes a batch's part of it from records, ``combine`` adds parts up."""

    partial: Callable[[DataFrame], DataFrame]
    combine: Callable[[DataFrame], DataFrame]


DELAYS = Aggregation(lambda records: delays(flights(records)), delays_added_up)
KEYS = Aggregation(counts, counts_added_up)


def run_aggregation(
    spark: SparkSession, aggregation: Aggregation, source: JobSource, out: Path, control: Control = TO_THE_END
) -> int:
    """Keeps OUT/table up to date with a topic; returns its number of rows.

    Each micro-batch writes its own part to OUT/batches/batch_id=N, overwriting: a batch that Spark runs again after a
    crash counts once."""
    parts = out / "batches"

    def write(frame: DataFrame, batch_id: int) -> None:
        aggregation.partial(frame).coalesce(1).write.mode("overwrite").parquet(str(parts / f"batch_id={batch_id}"))

    _run(source.load(spark).writeStream.foreachBatch(write), source, out, control)
    totals = (
        spark.read.parquet(str(parts)) if parts.exists() else aggregation.partial(spark.createDataFrame([], COLUMNS))
    )
    if parts.exists():
        aggregation.combine(totals).coalesce(1).write.mode("overwrite").parquet(str(out / "table"))
        totals = spark.read.parquet(str(out / "table"))
    return int(totals.count())


def run_table(spark: SparkSession, source: JobSource, out: Path, control: Control = TO_THE_END) -> int:
    """The topic's records as they are, appended to OUT/table as Parquet; returns its number of rows."""
    writer = source.load(spark).writeStream.format("parquet").option("path", str(out / "table"))
    _run(writer, source, out, control)
    return int(spark.read.parquet(str(out / "table")).count())


def _run(writer: DataStreamWriter, source: JobSource, out: Path, control: Control) -> None:
    """Reads to the topic's present end, or follows the topic; ends early at a stop."""
    writer = writer.option("checkpointLocation", str(checkpoint(out)))
    trigger = {"processingTime": "500 milliseconds"} if control.follow else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    follow(query, control.stop, control.say)
    if query.isActive:
        stop_gracefully(query, source.parsed())
    raise_failure(query)


def checkpoint(out: Path) -> Path:
    """The checkpoint folder of a job with this output folder."""
    return out / "checkpoint"


JOBS: dict[str, Callable[[SparkSession, JobSource, Path, Control], int]] = {
    "table": run_table,
    "delays": lambda spark, *rest: run_aggregation(spark, DELAYS, *rest),
    "keys": lambda spark, *rest: run_aggregation(spark, KEYS, *rest),
}
