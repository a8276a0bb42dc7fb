"""A grid of settings under which a churn trace is replayed in the laboratory, many seeds each, spread over Spark.

A run is a function of its row, and rows are sorted in the end: the same seeds give the same table, however it is
partitioned.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.configuration import SettingError, unknown_setting, with_values
from coterie.laboratory.churn import MembershipChange
from coterie.laboratory.members.reading_member import Workload
from coterie.laboratory.what_if import GRID_SETTINGS, Costs, WhatIfSetting, run
from coterie.pipeline.tables.files import rows_of
from coterie.pipeline.tables.frame import arrow_schema, column_names
from coterie.records.arrow_arrays import batch_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# One row per setting and seed; `setting` counts the settings, the first is what the others are compared with.
RUNS = (
    "setting int, seed bigint, assignor string, static boolean, session_timeout_ms bigint, heartbeat_interval_ms bigint, "
    "initial_delay_ms bigint, max_poll_interval_ms bigint, removal string, members bigint, rebalances bigint, "
    "unowned_ms bigint, longest_unowned_ms bigint, moved bigint, duplicates bigint, kills bigint, detected bigint, "
    "detection_ms bigint, longest_detection_ms bigint, false_alarms bigint, requests bigint, duration_ms bigint"
)

# The columns that identify a row's setting.
SETTINGS = ("setting", *(f.name for f in fields(WhatIfSetting)))


class GridError(ValueError):
    """A grid that cannot be run; the message has the change to make."""


def grid(wanted: Mapping[str, Sequence[str]]) -> list[WhatIfSetting]:
    """Every combination of the values, in the order given; a combination that no group can run under is left out. Raises
    GridError."""
    try:
        axes = [[(name, GRID_SETTINGS[name].parse(text)) for text in texts] for name, texts in _known(wanted)]
    except SettingError as error:
        raise GridError(str(error)) from None
    every = [with_values(WhatIfSetting, dict(point)) for point in itertools.product(*axes)]
    possible = [setting for setting in every if setting.problem() is None]
    if not possible:
        raise GridError(every[0].problem() or "the grid is empty")
    return possible


def _known(wanted: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, Sequence[str]]]:
    """The same. Raises SettingError for a name that is no setting of a grid."""
    for name in wanted:
        if name not in GRID_SETTINGS:
            raise unknown_setting("setting", name, GRID_SETTINGS)
    return wanted.items()


def run_grid(
    spark: SparkSession,
    changes: Sequence[MembershipChange],
    load: Workload,
    settings: Sequence[WhatIfSetting],
    seeds: Sequence[int],
    slices: int,
) -> DataFrame:
    """-> RUNS, in any order: sorting here would run everything twice, to sample it."""
    jobs = [(index, json.dumps(asdict(s)), seed) for index, s in enumerate(settings) for seed in seeds]
    # Long runs beside short ones: seeds of a setting are far apart, so that no task gets all of the slow ones.
    jobs.sort(key=lambda job: (job[2], job[0]))
    frame = spark.createDataFrame(jobs, "index int, setting string, seed bigint").repartition(slices)
    trace = list(changes)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        schema = arrow_schema(RUNS)
        for batch in batches:
            for job in batch.to_pylist():
                row = run_row(trace, load, job["index"], WhatIfSetting(**json.loads(job["setting"])), job["seed"])
                yield batch_of_rows([row], schema)

    return frame.mapInArrow(work, RUNS)


def run_row(
    changes: Sequence[MembershipChange], load: Workload, index: int, setting: WhatIfSetting, seed: int
) -> dict[str, Any]:
    """One row of RUNS."""
    costs: Costs = run(changes, load, setting, seed)
    return {"setting": index, "seed": seed, **asdict(setting), **asdict(costs)}


MEASURES = ("rebalances", "unowned_ms", "moved", "duplicates", "mean_detection_ms", "false_alarms", "requests")


def by_setting(runs: DataFrame) -> DataFrame:
    """RUNS -> one row per setting: mean, low and high of each measure over the seeds, and `rebalances_avoided`, how many
    fewer than under the first setting (mean of the differences, seed by seed)."""
    from pyspark.sql import functions as f

    measured = runs.withColumn("mean_detection_ms", f.try_divide("detection_ms", "detected"))
    first = runs.where("setting = 0").select("seed", f.col("rebalances").alias("before"))
    compared = measured.join(first, "seed", "left").withColumn("avoided", f.col("before") - f.col("rebalances"))
    totals = [f.avg("avoided").alias("rebalances_avoided"), f.count("*").alias("seeds")]
    for name in MEASURES:
        totals += [f.avg(name).alias(name), f.min(name).alias(f"{name}_low"), f.max(name).alias(f"{name}_high")]
    return compared.groupBy(*SETTINGS).agg(*totals).orderBy("setting")


def changes_of_history(out: Path, group: str) -> list[MembershipChange]:
    """A group's churn from the table `tenures` of a history: who came and who went. Needs no Spark. Raises GridError."""
    if not (out / "tenures").exists():
        raise GridError(f"there is no history in {out}; make one with `coterie pipeline history --out {out}`")
    changes: list[MembershipChange] = []
    for row in rows_of(out / "tenures", group):
        # A static member that comes back under a new id is the same member.
        name = row["group_instance_id"] or row["member_id"]
        changes.append(MembershipChange(row["from_ms"], True, name))
        if row["until_ms"] is not None:
            changes.append(MembershipChange(row["until_ms"], False, name))
    if not changes:
        raise GridError(f"the history in {out} knows no members of group {group}")
    begin_ms = min(change.time_ms for change in changes)
    ordered = sorted(changes, key=lambda c: (c.time_ms, c.joins))
    return [MembershipChange(c.time_ms - begin_ms, c.joins, c.member) for c in ordered]


def run_what_if(
    spark: SparkSession,
    changes: Sequence[MembershipChange],
    load: Workload,
    settings: Sequence[WhatIfSetting],
    seeds: Sequence[int],
    out: Path,
    slices: int,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Writes OUT/runs and OUT/settings; returns the rows of both."""
    runs = run_grid(spark, changes, load, settings, seeds, slices)
    runs.write.mode("overwrite").parquet(str(out / "runs.part"))
    done = spark.read.parquet(str(out / "runs.part")).orderBy("setting", "seed")
    done.coalesce(1).write.mode("overwrite").parquet(str(out / "runs"))
    shutil.rmtree(out / "runs.part")
    kept = spark.read.parquet(str(out / "runs"))
    by_setting(kept).coalesce(1).write.mode("overwrite").parquet(str(out / "settings"))
    ordered = spark.read.parquet(str(out / "settings")).orderBy("setting")
    every = kept.orderBy("setting", "seed").select(*column_names(RUNS))
    return [row.asDict() for row in every.collect()], [row.asDict() for row in ordered.collect()]
