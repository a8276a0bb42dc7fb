"""What commits say about progress: which count, how regular they are, where they paused, and the lag. DataFrame ->
DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STALL_FACTOR = 10  # a pause is a stall when it is so many times the median interval
STALL_AT_LEAST_MS = 30_000


def counting(commits: Any, group_log: Any) -> Any:
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


def intervals(commits: Any) -> Any:
    """COMMITS -> each commit with the one before it, and the time between them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy(*KEYS).orderBy("log_partition", "log_offset")
    made = commits.where("not deleted").select(*KEYS, "offset", "commit_ms", "log_partition", "log_offset")
    before = f.lag("commit_ms").over(in_order), f.lag("offset").over(in_order)
    return made.withColumns({"before_ms": before[0], "before_offset": before[1]}).withColumn(
        "interval_ms", f.col("commit_ms") - f.col("before_ms")
    )


def cadence(intervals: Any) -> Any:
    """What `intervals` makes -> CADENCE."""
    from pyspark.sql import functions as f

    seconds = (f.max("commit_ms") - f.min("commit_ms")) / 1000
    moved = f.max_by("offset", "log_offset") - f.min_by("offset", "log_offset")
    return intervals.groupBy(*KEYS).agg(
        f.count("*").alias("commits"),
        f.min("commit_ms").alias("first_ms"),
        f.max("commit_ms").alias("last_ms"),
        f.avg("interval_ms").alias("mean_interval_ms"),
        f.percentile_approx("interval_ms", 0.5).cast("double").alias("median_interval_ms"),
        f.percentile_approx("interval_ms", 0.95).cast("double").alias("p95_interval_ms"),
        f.max("interval_ms").alias("longest_interval_ms"),
        f.min_by("offset", "log_offset").alias("first_offset"),
        f.max_by("offset", "log_offset").alias("last_offset"),
        f.try_divide(moved, seconds).alias("records_per_s"),
    )


def stalls(intervals: Any, cadence: Any) -> Any:
    """What `intervals` makes, CADENCE -> STALLS: pauses of at least half a minute and ten times the partition's median. What
    did not move on is one pause, however often it was committed meanwhile."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy(*KEYS).orderBy("log_partition", "log_offset")
    steps = intervals.where("before_offset is null or offset <> before_offset")
    paused = steps.withColumn("from_ms", f.lag("commit_ms").over(in_order)).withColumn(
        "pause_ms", f.col("commit_ms") - f.col("from_ms")
    )
    usual = f.coalesce("median_interval_ms", f.lit(0.0))
    long = (f.col("pause_ms") >= STALL_AT_LEAST_MS) & (f.col("pause_ms") >= STALL_FACTOR * usual)
    moved = (f.col("offset") - f.col("before_offset")).alias("moved")
    said = [
        f.col("commit_ms").alias("until_ms"),
        "pause_ms",
        "median_interval_ms",
        f.col("before_offset").alias("offset"),
    ]
    found = paused.where(f.col("pause_ms") >= STALL_AT_LEAST_MS).join(cadence.select(*KEYS, "median_interval_ms"), KEYS)
    return found.where(long).select(*KEYS, "from_ms", *said, moved)


@dataclass(frozen=True, slots=True)
class Grid:
    """Times at equal distances, the last at or after the last commit."""

    first_ms: int
    step_ms: int
    count: int

    def times_ms(self) -> list[int]:
        return [self.first_ms + n * self.step_ms for n in range(self.count)]


def committed_by_time(commits: Any, grid: Grid) -> Any:
    """COMMITS -> group, topic, partition, time_ms, committed: the newest offset at each time of the grid; null once it was
    deleted; no row before the first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    late = f.greatest(f.col("commit_ms") - grid.first_ms, f.lit(0))
    place = f.ceil(late / grid.step_ms).cast("int")  # a commit counts from the first time at or after it
    said = f.max_by(f.struct("offset", "deleted"), f.struct("log_partition", "log_offset")).alias("said")
    newest = commits.groupBy(*KEYS, place.alias("place")).agg(said)
    places = f.explode(f.sequence(f.lit(0), f.lit(grid.count - 1))).alias("place")
    every = newest.select(*KEYS).distinct().select(*KEYS, places)
    in_order = Window.partitionBy(*KEYS).orderBy("place")
    filled = every.join(newest, [*KEYS, "place"], "left").withColumn(
        "said", f.last("said", ignorenulls=True).over(in_order)
    )
    time_ms = (f.lit(grid.first_ms) + f.col("place").cast("long") * grid.step_ms).alias("time_ms")
    return filled.where("said is not null").select(*KEYS, time_ms, f.col("said.offset").alias("committed"))


def lag(committed: Any, ends: Any) -> Any:
    """What `committed_by_time` makes, ends (topic, partition, time_ms, end_offset) -> LAG."""
    from pyspark.sql import functions as f

    behind = f.greatest(f.col("end_offset") - f.col("committed"), f.lit(0)).alias("lag")
    return committed.join(ends, ["topic", "partition", "time_ms"], "left").select(
        "group", "topic", "partition", "time_ms", "committed", "end_offset", behind
    )
