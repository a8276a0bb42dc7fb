"""The history job: facts are added to, everything else is made anew from them. No logic: each table has its function.

OUT/progress.json          how far the last whole run read; written last, so that a run that died is simply run again
OUT/commits/run=N          facts, by run
OUT/group_log/run=N
OUT/journal/run=N          lines of the journal, where there is one
OUT/consumer_groups        the rows of consumer groups in all other tables, made by one pass
OUT/TABLE                  the other tables
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.client.errors import KafkaError
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.pipeline.history import commits as c
from coterie.pipeline.history import (
    consumer_groups,
    ends,
    group_metadata,
    ownership,
    rebalances,
    record_sources,
    server_log,
    state,
    topic_ids,
)
from coterie.pipeline.history.decoding import CONSUMER_GROUP
from coterie.pipeline.history.tables import COMMITS, GROUP_LOG, LAG
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.tables.files import row_count
from coterie.wire.errors import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAG_TIMES = 100
JOURNAL = "value binary, offset bigint"


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs of a run; any of them. ``client``: settings of the broker's client; ``folders``: log folders instead."""

    client: Mapping[str, str] | None = field(default=None, repr=False)
    folders: tuple[Path, ...] = ()
    server_logs: tuple[Path, ...] = ()


@dataclass(slots=True)
class HistoryProgress:
    """Next offsets by log partition, the journal's, how many runs there were, and the names of all topics seen, by id."""

    runs: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    journal: int = 0
    topic_names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, out: Path) -> HistoryProgress:
        """That of the last run; a new one where there was none."""
        try:
            fields = json.loads((out / topic_ids.PROGRESS).read_text())
        except FileNotFoundError:
            return cls()
        offsets = {int(p): o for p, o in fields["offsets"].items()}
        return cls(fields["runs"], offsets, fields["journal"], fields.get("topic_names", {}))

    def save(self, out: Path) -> None:
        """In one step: a run that is killed leaves the former or the new one."""
        part = out / "progress.json.part"
        part.write_text(json.dumps(asdict(self)))
        os.replace(part, out / topic_ids.PROGRESS)


def run_history(spark: SparkSession, sources: Sources, out: Path) -> dict[str, int]:
    """Reads what is new since the last run and makes the tables anew; returns their row counts. Raises KafkaError,
    NothingToRead."""
    out.mkdir(parents=True, exist_ok=True)
    progress = HistoryProgress.load(out)
    _add_facts(spark, sources, out, progress)
    counts = _make_tables(spark, sources, out, progress.topic_names)
    progress.save(out)
    return counts


# -- facts --------------------------------------------------------------------------------------------------------------------


def _add_facts(spark: SparkSession, sources: Sources, out: Path, progress: HistoryProgress) -> None:
    run = f"run={progress.runs}"
    for name in ("commits", "group_log", "journal"):
        shutil.rmtree(out / name / run, ignore_errors=True)
    ranges = _ranges(sources, progress)
    if ranges:
        frame = record_sources.as_frame(spark, ranges)
        client = None if sources.folders else sources.client
        for name, table in (("commits", record_sources.commits), ("group_log", record_sources.group_log)):
            facts = table(frame, client)
            facts.write.parquet(str(out / name / run))
            _advance(spark.read.schema(facts.schema).parquet(str(out / name / run)), progress)
    if sources.client is not None:
        lines = _journal(spark, sources.client, progress.journal)
        if lines is not None:
            lines.write.parquet(str(out / "journal" / run))
            [[newest]] = spark.read.parquet(str(out / "journal" / run)).agg({"offset": "max"}).collect()
            progress.journal = progress.journal if newest is None else newest + 1
    progress.topic_names |= _topic_names(sources)
    progress.runs += 1


def _topic_names(sources: Sources) -> dict[str, str]:
    if sources.folders:
        return {i: name for folder in sources.folders for i, name in topic_ids.folder_topic_names(folder).items()}
    return {} if sources.client is None else topic_ids.broker_topic_names(sources.client)


def _ranges(sources: Sources, progress: HistoryProgress) -> list[record_sources.LogRange]:
    if sources.folders:
        return record_sources.log_ranges(sources.folders, progress.offsets)
    if sources.client is None:
        return []
    options = SourceOptions(dict(sources.client), subscribe=(record_sources.TOPIC,))
    try:
        return record_sources.broker_ranges(options, progress.offsets)
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []  # no group has ever been there
        raise


def _advance(facts: DataFrame, progress: HistoryProgress) -> None:
    for row in facts.groupBy("log_partition").max("log_offset").collect():
        progress.offsets[row[0]] = max(progress.offsets.get(row[0], 0), row[1] + 1)


def _journal(spark: SparkSession, client: Mapping[str, str], since: int) -> DataFrame | None:
    """JOURNAL; None where the broker keeps none (Apache Kafka does not)."""
    from coterie.pipeline.offsets import LATEST
    from coterie.pipeline.reading.topics import TopicReader

    reader = TopicReader(SourceOptions(dict(client), assign={JOURNAL_TOPIC: [0]}))
    try:
        end = reader.offsets_of({(JOURNAL_TOPIC, 0): LATEST})[JOURNAL_TOPIC, 0]
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    finally:
        reader.close()
    options = {f"kafka.{name}": value for name, value in client.items()}
    starting = json.dumps({JOURNAL_TOPIC: {"0": min(since, end)}})
    options |= {"assign": json.dumps({JOURNAL_TOPIC: [0]}), "startingOffsets": starting, "failOnDataLoss": "false"}
    return spark.read.format("coterie").options(**options).load().select("value", "offset")


# -- tables -------------------------------------------------------------------------------------------------------------------


def facts(spark: SparkSession, out: Path) -> tuple[DataFrame, DataFrame]:
    """COMMITS and GROUP_LOG of all runs so far."""
    return _read(spark, out / "commits", COMMITS), _read(spark, out / "group_log", GROUP_LOG)


def _read(spark: SparkSession, path: Path, schema: str) -> DataFrame:
    if not path.exists():
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(str(path))


def _make_tables(spark: SparkSession, sources: Sources, out: Path, topic_names: Mapping[str, str]) -> dict[str, int]:
    commits, group_log = facts(spark, out)
    counts = {name: row_count(out / name) for name in ("commits", "group_log")}

    def write(name: str, frame: DataFrame, files: int = 1) -> DataFrame:
        frame.coalesce(files).write.mode("overwrite").parquet(str(out / name))
        counts[name] = row_count(out / name)
        return spark.read.schema(frame.schema).parquet(str(out / name))  # without it, a job to find it out

    of_consumer_groups = _consumer_group_rows(spark, group_log, out, topic_names)

    def of_both_kinds(name: str, frame: DataFrame) -> DataFrame:
        return frame.unionByName(consumer_groups.rows_of_table(of_consumer_groups, name), allowMissingColumns=True)

    generations = write("generations", of_both_kinds("generations", group_metadata.generations(group_log)))
    members = write("members", of_both_kinds("members", group_metadata.members(group_log)))
    classic = group_metadata.assignments(group_log)
    write("assignments", of_both_kinds("assignments", classic))
    write("ownership", of_both_kinds("ownership", ownership.ownership(classic, generations)))
    tenures = write("tenures", ownership.tenures(members, generations))
    write("flapping", ownership.flapping(tenures))
    events = of_both_kinds("rebalances", _rebalances(spark, sources, out, group_log))
    write("rebalances", rebalances.from_best_source(events))
    write("epochs", consumer_groups.rows_of_table(of_consumer_groups, "epochs"))
    write("reconciliations", consumer_groups.rows_of_table(of_consumer_groups, "reconciliations"))
    write("groups", state.groups(state.entries(commits, group_log)))
    write("unreadable", group_metadata.unreadable(group_log))
    counting = c.counting(commits, group_log)
    progress = c.progress(counting).persist()
    try:
        cadence = write("cadence", c.cadence(progress), files=2)
        write("stalls", c.stalls(progress))
    finally:
        progress.unpersist()  # or the next run of this session would find it again, as old as it then is
    write("lag", _lag(spark, sources, counting, cadence))
    return counts


def _consumer_group_rows(
    spark: SparkSession, group_log: DataFrame, out: Path, topic_names: Mapping[str, str]
) -> DataFrame:
    """The rows of consumer groups in all tables, made once."""
    if group_log.where(f"kind = '{CONSUMER_GROUP}'").isEmpty():
        return spark.createDataFrame([], consumer_groups.ROWS)
    path = str(out / "consumer_groups")
    consumer_groups.rows_of_consumer_groups(group_log, topic_names).write.mode("overwrite").parquet(path)
    return spark.read.schema(consumer_groups.ROWS).parquet(path)


def _rebalances(spark: SparkSession, sources: Sources, out: Path, group_log: DataFrame) -> DataFrame:
    """REBALANCES of all sources."""
    lines = out / "server_lines"
    if sources.server_logs:
        frame = server_log.lines_of(spark, list(sources.server_logs))
        frame.write.mode("overwrite").parquet(str(lines))
    log_events = server_log.from_lines(_read(spark, lines, server_log.LINES))
    events = rebalances.from_generations(group_log, log_events)
    of_journal = rebalances.from_journal(_read(spark, out / "journal", JOURNAL))
    return events.unionByName(of_journal).unionByName(log_events.select(*events.columns))


def _lag(spark: SparkSession, sources: Sources, counting: DataFrame, cadence: DataFrame) -> DataFrame:
    [bounds] = cadence.agg({"first_ms": "min", "last_ms": "max"}).collect()
    first_ms, last_ms = bounds["min(first_ms)"], bounds["max(last_ms)"]
    if first_ms is None:
        return spark.createDataFrame([], LAG)
    grid = c.Grid(first_ms, max(1, -(-(last_ms - first_ms) // (LAG_TIMES - 1))), LAG_TIMES)
    partitions = sorted((r.topic, r.partition) for r in cadence.select("topic", "partition").distinct().collect())
    rows: list[ends.Row] = []
    if sources.client is not None and not sources.folders:
        rows = ends.broker_ends(sources.client, partitions, grid.times_ms())
    for folder in sources.folders:
        data = folder.parent if folder.name.startswith(record_sources.TOPIC) else folder
        rows += ends.folder_ends(data, partitions, grid.times_ms())
    return c.lag(c.committed_by_time(counting, grid), ends.as_frame(spark, rows))
