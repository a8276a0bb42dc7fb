"""The history job: facts are added to, everything else is made again from them. No logic: each table has its function.

OUT/progress.json          how far the last whole run read; written last, so that a run that died is simply run again
OUT/commits/run=N          facts, by run
OUT/group_log/run=N
OUT/journal/run=N          lines of the broker's journal, where there is one
OUT/observed/run=N         lines of an observer's journal
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

from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.pipeline.history import commits as c
from coterie.pipeline.history import consumer_groups, group_metadata, observations, ownership, rebalances, state
from coterie.pipeline.history.reading import record_sources, topic_lookups
from coterie.pipeline.history.reading.decoding import CONSUMER_GROUP
from coterie.pipeline.history.tables import COMMITS, GROUP_LOG, REBALANCES
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.tables.files import batches_of, row_count, rows_of
from coterie.pipeline.tables.frame import Frame, Frames
from coterie.records.arrow_arrays import flags_of, numbers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAG_TIMES = 100
FACTS = ("commits", "group_log", "journal", "observed")


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs of a run; any of them. ``client``: settings of the broker's client; ``folders``: log folders instead;
    ``observed``: a folder or topic of `coterie observe`, the topic of the broker of ``observed_client``."""

    client: Mapping[str, str] | None = field(default=None, repr=False)
    folders: tuple[Path, ...] = ()
    server_logs: tuple[Path, ...] = ()
    observed: str | None = None
    observed_client: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(slots=True)
class HistoryProgress:
    """Next offsets by log partition, the journal's, how many runs there were, the names of all topics seen, by id, and the next
    position in each observer's journal."""

    runs: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    journal: int = 0
    topic_names: dict[str, str] = field(default_factory=dict)
    observed: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, out: Path) -> HistoryProgress:
        """That of the last run; a new one where there was none."""
        try:
            fields = json.loads((out / topic_lookups.PROGRESS).read_text())
        except FileNotFoundError:
            return cls()
        offsets = {int(p): o for p, o in fields["offsets"].items()}
        return cls(
            fields["runs"], offsets, fields["journal"], fields.get("topic_names", {}), fields.get("observed", {})
        )

    def save(self, out: Path) -> None:
        """In one step: a run that is killed leaves the former or the new one."""
        part = out / "progress.json.part"
        part.write_text(json.dumps(asdict(self)))
        os.replace(part, out / topic_lookups.PROGRESS)


def run_history(spark: SparkSession | None, sources: Sources, out: Path) -> dict[str, int]:
    """Reads what is new since the last run and makes the tables again; returns their row counts. ``spark`` None: in this
    process. Raises KafkaError, NothingToRead."""
    out.mkdir(parents=True, exist_ok=True)
    progress = HistoryProgress.load(out)
    frames = frames_of(spark)
    _add_facts(frames, sources, out, progress)
    counts = _make_tables(frames, sources, out, progress.topic_names)
    progress.save(out)
    return counts


def frames_of(spark: SparkSession | None) -> Frames:
    """On Spark, or, for None, in this process."""
    if spark is None:
        from coterie.pipeline.tables.arrow_frame import ArrowFrames

        return ArrowFrames()
    from coterie.pipeline.tables.spark_frame import SparkFrames

    return SparkFrames(spark)


def input_bytes(sources: Sources, out: Path) -> int:
    """What a run works on: the new part of the logs, the log files, and the facts of earlier runs. It is an estimate, by the
    number of records, of what a broker or an earlier run has. Raises KafkaError, NothingToRead, OSError."""
    progress = HistoryProgress.load(out)
    ranges = _ranges(sources, progress)
    if sources.client is not None:
        ranges += _journal_ranges(sources.client, progress)
    ranges += _observed_ranges(sources, progress)
    kept = sum(row_count(out / name) for name in FACTS)
    files = sum(file.stat().st_size for file in sources.server_logs)
    return sum(r.size_bytes for r in ranges) + files + kept * record_sources.RECORD_BYTES


# -- facts --------------------------------------------------------------------------------------------------------------------


def _add_facts(frames: Frames, sources: Sources, out: Path, progress: HistoryProgress) -> None:
    run = f"run={progress.runs}"
    for name in FACTS:
        shutil.rmtree(out / name / run, ignore_errors=True)
    ranges = _ranges(sources, progress)
    if ranges:
        frame = record_sources.as_frame(frames, ranges)
        client = None if sources.folders else sources.client
        for name, table in (("commits", record_sources.commits), ("group_log", record_sources.group_log)):
            table(frame, client).write(out / name / run)
            _advance(out / name / run, progress)
    if sources.client is not None and (lines := _journal_ranges(sources.client, progress)):
        of_journal = record_sources.journal(record_sources.as_frame(frames, lines), sources.client)
        of_journal.write(out / "journal" / run)
        for batch in batches_of(out / "journal" / run, ["offset"]):
            progress.journal = max(progress.journal, *(numbers_of(batch.column("offset")) + 1).tolist())
    if sources.observed is not None and (lines := _observed_ranges(sources, progress)):
        frame = record_sources.as_frame(frames, lines)
        is_topic = lines[0].path is None
        read = record_sources.journal(frame, sources.observed_client or {}, sources.observed) if is_topic else None
        (read or observations.observed_lines(frame)).write(out / "observed" / run)
        observations.advanced(sources.observed, lines, progress.observed)
    progress.topic_names |= _topic_names(sources)
    progress.runs += 1


def _topic_names(sources: Sources) -> dict[str, str]:
    if sources.folders:
        return {i: name for folder in sources.folders for i, name in topic_lookups.folder_topic_names(folder).items()}
    return {} if sources.client is None else topic_lookups.broker_topic_names(sources.client)


def _ranges(sources: Sources, progress: HistoryProgress) -> list[record_sources.LogRange]:
    if sources.folders:
        return record_sources.log_ranges(sources.folders, progress.offsets)
    if sources.client is None:
        return []
    options = SourceOptions(dict(sources.client), subscribe=(record_sources.TOPIC,))
    return record_sources.broker_ranges(options, progress.offsets)


def _journal_ranges(client: Mapping[str, str], progress: HistoryProgress) -> list[record_sources.LogRange]:
    """Those of the journal; none where the broker keeps none (Apache Kafka does not)."""
    options = SourceOptions(dict(client), assign={JOURNAL_TOPIC: [0]})
    return record_sources.broker_ranges(options, {0: progress.journal})


def _observed_ranges(sources: Sources, progress: HistoryProgress) -> list[record_sources.LogRange]:
    if sources.observed is None:
        return []
    return observations.observed_ranges(sources.observed, sources.observed_client, progress.observed)


def _advance(facts: Path, progress: HistoryProgress) -> None:
    for batch in batches_of(facts, ["log_partition", "log_offset"]):
        partitions, offsets = numbers_of(batch.column("log_partition")), numbers_of(batch.column("log_offset"))
        for partition in set(partitions.tolist()):
            newest = int(offsets[partitions == partition].max())
            progress.offsets[partition] = max(progress.offsets.get(partition, 0), newest + 1)


# -- tables -------------------------------------------------------------------------------------------------------------------


def facts(frames: Frames, out: Path) -> tuple[Frame, Frame]:
    """COMMITS and GROUP_LOG of all runs so far."""
    return frames.read(out / "commits", COMMITS), frames.read(out / "group_log", GROUP_LOG)


def _make_tables(frames: Frames, sources: Sources, out: Path, topic_names: Mapping[str, str]) -> dict[str, int]:
    commits, group_log = facts(frames, out)
    counts = {name: row_count(out / name) for name in ("commits", "group_log")}

    def write(name: str, frame: Frame, files: int = 1) -> Frame:
        written = frame.write(out / name, files)
        counts[name] = row_count(out / name)
        return written

    of_consumer_groups = _consumer_group_rows(frames, group_log, out, topic_names)

    def of_both_kinds(name: str, frame: Frame) -> Frame:
        return frame.union(consumer_groups.rows_of_table(of_consumer_groups, name))

    generations = write("generations", of_both_kinds("generations", group_metadata.generations(group_log)))
    members = write("members", of_both_kinds("members", group_metadata.members(group_log)))
    classic = group_metadata.assignments(group_log)
    write("assignments", of_both_kinds("assignments", classic))
    write("ownership", of_both_kinds("ownership", ownership.ownership(classic, generations)))
    tenures = write("tenures", ownership.tenures(members, generations))
    write("flapping", ownership.flapping(tenures))
    events = of_both_kinds("rebalances", _rebalances(frames, sources, out, group_log))
    write("rebalances", rebalances.from_best_source(events))
    write("epochs", consumer_groups.rows_of_table(of_consumer_groups, "epochs"))
    write("reconciliations", consumer_groups.rows_of_table(of_consumer_groups, "reconciliations"))
    write("groups", state.groups(commits, group_log))
    write("unreadable", group_metadata.unreadable(group_log))
    grid = _grid(out)
    with c.progress(c.counting(commits, group_log), grid).kept() as progress:
        write("cadence", c.cadence(progress), files=2)
        write("stalls", c.stalls(progress))
        write("lag", c.lag(progress, {} if grid is None else _ends(sources, out, grid)))
    return counts


def _consumer_group_rows(frames: Frames, group_log: Frame, out: Path, topic_names: Mapping[str, str]) -> Frame:
    """The rows of consumer groups in all tables, made once."""
    kinds = (batch.column("kind").dictionary_encode().dictionary for batch in batches_of(out / "group_log", ["kind"]))
    if not any(CONSUMER_GROUP in kind.to_pylist() for kind in kinds):
        return frames.of_rows([], consumer_groups.ROWS)
    return consumer_groups.rows_of_consumer_groups(group_log, topic_names).write(out / "consumer_groups")


def _rebalances(frames: Frames, sources: Sources, out: Path, group_log: Frame) -> Frame:
    """REBALANCES of all sources."""
    lines = out / "server_lines"
    if sources.server_logs:
        observations.lines_of(frames, sources.server_logs).write(lines)
    log_events = observations.from_lines(frames.read(lines, observations.LINES))
    events = rebalances.from_generations(group_log, log_events)
    for name, source in (("journal", "journal"), ("observed", "observer")):
        events = events.union(rebalances.from_journal(frames.read(out / name, record_sources.JOURNAL), source))
    return events.union(log_events.select(REBALANCES))


def _grid(out: Path) -> c.Grid | None:
    """The times of LAG, from the first commit to the last; None where there is none."""
    first_ms, last_ms = None, 0
    for batch in batches_of(out / "commits", ["commit_ms", "deleted"]):
        made_ms = numbers_of(batch.column("commit_ms"))[~flags_of(batch.column("deleted"))]
        if made_ms.size:
            least_ms = int(made_ms.min())
            first_ms = least_ms if first_ms is None else min(first_ms, least_ms)
            last_ms = max(last_ms, int(made_ms.max()))
    return None if first_ms is None else c.Grid.over(first_ms, last_ms, LAG_TIMES)


def _ends(sources: Sources, out: Path, grid: c.Grid) -> c.EndOffsets:
    """The ends of the topics that were committed, from where their records are; of two replicas the further one."""
    cadence = rows_of(out / "cadence", columns=["topic", "partition"])
    partitions = sorted({(row["topic"], row["partition"]) for row in cadence})
    rows: list[topic_lookups.Row] = []
    if sources.client is not None and not sources.folders:
        rows = topic_lookups.broker_ends(sources.client, partitions, grid.times_ms())
    for folder in sources.folders:
        data = folder.parent if folder.name.startswith(record_sources.TOPIC) else folder
        rows += topic_lookups.folder_ends(data, partitions, grid.times_ms())
    known: dict[tuple[str, int, int], int] = {}
    for topic, partition, time_ms, end in rows:
        known[topic, partition, time_ms] = max(end, known.get((topic, partition, time_ms), 0))
    return known
