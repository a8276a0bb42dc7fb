"""Progress by commits: which ones count, how regular they are, where they paused, and the lag. DataFrame ->
DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.pipeline.history.tables import CADENCE
from coterie.pipeline.tables.ddl import arrow_schema, column_names
from coterie.records.arrow_arrays import numbers_of, table_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STALL_FACTOR = 10  # a pause is a stall when it is so many times the median interval
STALL_AT_LEAST_MS = 30_000


def counting(commits: DataFrame, group_log: DataFrame) -> DataFrame:
    """COMMITS, GROUP_LOG -> COMMITS: without those of transactions that were aborted or are still open. A commit within a
    transaction counts if the next marker of its producer in the same log partition is a commit."""
    from pyspark.sql import functions as f

    plain = commits.where("producer_id is null")
    markers = group_log.where("kind = 'marker'").select(
        f.col("log_partition").alias("p"),
        f.col("producer_id").alias("id"),
        "committed",
        f.col("log_offset").alias("at"),
    )
    pending = commits.where("producer_id is not null")
    c = f.col
    ended = pending.join(
        markers, (c("log_partition") == c("p")) & (c("producer_id") == c("id")) & (c("at") > c("log_offset"))
    )
    verdict = f.min_by("committed", "at").alias("counts")
    decided = ended.groupBy("log_partition", "log_offset").agg(verdict).where("counts").drop("counts")
    return plain.unionByName(pending.join(decided, ["log_partition", "log_offset"], "left_semi"))


KEYS = ["group", "topic", "partition"]


# One row per partition of a group: CADENCE, and its stalls as arrays of the same length.
PROGRESS = (
    "group string, topic string, partition int, commits bigint, first_ms bigint, last_ms bigint, mean_interval_ms double, "
    "median_interval_ms double, p95_interval_ms double, longest_interval_ms bigint, first_offset bigint, "
    "last_offset bigint, records_per_s double, stall_from_ms array<bigint>, stall_until_ms array<bigint>, "
    "stall_offset array<bigint>, stall_moved array<bigint>"
)


def progress(commits: DataFrame) -> DataFrame:
    """COMMITS -> PROGRESS. A group's commits all stand in one log partition, so that the log's offset alone is their order.
    A partition's commits come to one task together, 24 bytes each; grouped by a number in place of three strings, which is
    what most of the time would go to."""
    from pyspark.sql import functions as f

    made = commits.where("not deleted").select(*KEYS, "offset", "commit_ms", "log_offset")
    # Numbered here and not by Spark: its numbers are not the same when they are computed again, and a cached frame is found
    # again by its path, whatever has been added there since.
    known = [(*row, key) for key, row in enumerate(made.select(*KEYS).distinct().collect())]
    numbered = made.sparkSession.createDataFrame(known, "group string, topic string, partition int, key bigint")
    rows = made.join(f.broadcast(numbered), KEYS).select("key", "offset", "commit_ms", "log_offset")
    keyed = "key bigint, " + PROGRESS.partition("partition int, ")[2]

    def run(key: Any, table: Any) -> Any:
        ordered = table.sort_by("log_offset")
        measures = _progress(numbers_of(ordered["commit_ms"]), numbers_of(ordered["offset"]))
        return table_of_rows([{"key": key[0].as_py(), **measures}], arrow_schema(keyed))

    return (
        rows.groupBy("key").applyInArrow(run, keyed).join(f.broadcast(numbered), "key").select(*column_names(PROGRESS))
    )


def _progress(commit_ms: Any, offset: Any) -> dict[str, Any]:
    """One partition's commits in the order of the log."""
    import numpy as np

    pauses: Any = np.diff(commit_ms)
    seconds = float(commit_ms.max() - commit_ms.min()) / 1000
    median, p95 = np.percentile(pauses, [50, 95]).tolist() if pauses.size else (None, None)
    # Commits of one unchanged offset are one pause.
    steps: Any = np.concatenate(([0], np.nonzero(np.diff(offset))[0] + 1))
    stalled_ms = np.diff(commit_ms[steps])
    long = np.nonzero((stalled_ms >= STALL_AT_LEAST_MS) & (stalled_ms >= STALL_FACTOR * (median or 0)))[0]
    return {
        "commits": len(offset),
        "first_ms": int(commit_ms.min()),
        "last_ms": int(commit_ms.max()),
        "mean_interval_ms": float(pauses.mean()) if pauses.size else None,
        "median_interval_ms": median,
        "p95_interval_ms": p95,
        "longest_interval_ms": int(pauses.max()) if pauses.size else None,
        "first_offset": int(offset[0]),
        "last_offset": int(offset[-1]),
        "records_per_s": float(offset[-1] - offset[0]) / seconds if seconds else None,
        "stall_from_ms": commit_ms[steps[long]].tolist(),
        "stall_until_ms": commit_ms[steps[long + 1]].tolist(),
        "stall_offset": offset[steps[long]].tolist(),
        "stall_moved": (offset[steps[long + 1]] - offset[steps[long]]).tolist(),
    }


def cadence(progress: DataFrame) -> DataFrame:
    """PROGRESS -> CADENCE."""
    return progress.select(*column_names(CADENCE))


def stalls(progress: DataFrame) -> DataFrame:
    """PROGRESS -> STALLS: pauses of at least half a minute and ten times the partition's median."""
    from pyspark.sql import functions as f

    zipped = f.arrays_zip("stall_from_ms", "stall_until_ms", "stall_offset", "stall_moved")
    each = progress.select(*KEYS, "median_interval_ms", f.explode(zipped).alias("s"))
    pause = (f.col("s.stall_until_ms") - f.col("s.stall_from_ms")).alias("pause_ms")
    bounds = [f.col("s.stall_from_ms").alias("from_ms"), f.col("s.stall_until_ms").alias("until_ms"), pause]
    more = [f.col("s.stall_offset").alias("offset"), f.col("s.stall_moved").alias("moved")]
    return each.select(*KEYS, *bounds, "median_interval_ms", *more)


@dataclass(frozen=True, slots=True)
class Grid:
    """Times at equal distances, the last at or after the last commit."""

    first_ms: int
    step_ms: int
    count: int

    def times_ms(self) -> list[int]:
        """The points in time, ascending."""
        return [self.first_ms + n * self.step_ms for n in range(self.count)]


def committed_by_time(commits: DataFrame, grid: Grid) -> DataFrame:
    """COMMITS -> group, topic, partition, time_ms, committed: the newest offset at each time of the grid; null once it was
    deleted; no row before the first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    late = f.greatest(f.col("commit_ms") - grid.first_ms, f.lit(0))
    step = f.ceil(late / grid.step_ms).cast("int")  # a commit counts from the first time at or after it
    newest_values = [f.max_by("offset", "log_offset").alias("offset"), f.max("log_offset").alias("log_offset")]
    newest = commits.groupBy(*KEYS, step.alias("step")).agg(*newest_values)
    steps = f.explode(f.sequence(f.lit(0), f.lit(grid.count - 1))).alias("step")
    every = newest.select(*KEYS).distinct().select(*KEYS, steps)
    in_order = Window.partitionBy(*KEYS).orderBy("step")
    # Not null where the newest record is a deletion.
    offset = f.when(f.col("log_offset").isNotNull(), f.struct("offset"))
    filled = every.join(newest, [*KEYS, "step"], "left").withColumn(
        "newest", f.last(offset, ignorenulls=True).over(in_order)
    )
    time_ms = (f.lit(grid.first_ms) + f.col("step").cast("long") * grid.step_ms).alias("time_ms")
    return filled.where("newest is not null").select(*KEYS, time_ms, f.col("newest.offset").alias("committed"))


def lag(committed: DataFrame, ends: DataFrame) -> DataFrame:
    """The result of `committed_by_time`, ends (topic, partition, time_ms, end_offset) -> LAG."""
    from pyspark.sql import functions as f

    behind = f.greatest(f.col("end_offset") - f.col("committed"), f.lit(0)).alias("lag")
    return committed.join(ends, ["topic", "partition", "time_ms"], "left").select(
        "group", "topic", "partition", "time_ms", "committed", "end_offset", behind
    )
