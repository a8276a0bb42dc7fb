"""`coterie lab study`: every protocol on the same workloads and churn, and the page of results."""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.cores import GC_THRESHOLD, as_completed_over_cores
from coterie.cli.parts.invocation import FILE, progress_bar
from coterie.cli.parts.option_values import IntegerRange
from coterie.cli.pipeline.spark import check_master
from coterie.console.terminal import write_line
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.console.study_page import RealPoint
    from coterie.laboratory.study.compared import StudyPoint
    from coterie.laboratory.study.questions import StudyRow
    from coterie.laboratory.study.spread import Study

# The rooms whose code a run's figures depend on.
ROOMS = (
    "assignors",
    "consuming",
    "coordinator",
    "laboratory",
    "log",
    "member",
    "records",
    "rocketmq",
    "wire",
    "zookeeper",
)
PACKAGE = Path(__file__).parents[2]
RESULTS = Path("results", "study.json")
REAL = Path("results", "study-real.json")
QUIET_MS = 180_000  # stretches without a change are cut to it: beyond every timeout here, nothing happens


def _code_digest(package: Path = PACKAGE) -> str:
    """A digest of the source of ROOMS: runs of one digest are comparable."""
    total = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()[:16]


class RowFile:
    """The first line has the digest of the code. Raises UsageError for a file of other code, or of something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[StudyRow] = list(self._read())

    def _read(self) -> Iterator[StudyRow]:
        from coterie.laboratory.study.questions import StudyRow

        head = {"code": _code_digest()}
        whole, _, torn = self.path.read_text("utf-8").rpartition("\n") if self.path.exists() else ("", "", "")
        try:
            first, *rows = map(json.loads, whole.splitlines() or [json.dumps(head)])
            if first != head:
                text = f"{self.path} holds runs of other code; name another file, or remove it."
                raise click.UsageError(text)
            yield from (StudyRow(**row) for row in rows)
        except (ValueError, TypeError) as error:
            raise click.UsageError(f"{self.path} does not hold the runs of a study; name another file.") from error
        if torn or not whole:  # the run before ended in the middle of a line
            self.path.write_text((whole or json.dumps(head)) + "\n", "utf-8")

    def keep(self, rows: Iterable[StudyRow]) -> Iterator[StudyRow]:
        """The same rows, each written as it passes."""
        with self.path.open("a", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                self.rows.append(row)
                yield row


@click.command(
    epilog="""\b
Examples:
  coterie lab study                   all of it: half an hour on two cores
  coterie lab study --seeds 3 --largest 300 --out mine   about two minutes
  coterie lab study --question 2 --question 4 --out my-study
  coterie lab study --rows rows.txt   the same; continued after an interrupt
  coterie lab study --churn g4dn.txt --out my-study
  coterie lab study --spark 'local[*]'
"""
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the page and its pictures.  [default: docs]",
)
@click.option("--seeds", type=IntegerRange(1, 1000), default=20, show_default=True, help="Runs of each point.")
@click.option(
    "--largest", type=IntegerRange(3), default=10_000, show_default=True, help="The largest group of question 5."
)
@click.option(
    "--question", "questions", multiple=True, type=IntegerRange(1, 6), help="Only this question; may be given again."
)
@click.option(
    "--churn",
    "churn",
    multiple=True,
    type=FILE,
    help="Also this trace: lines of time_ms,add|remove,member. May be given again.",
)
@click.option(
    "--rows",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep each run in this file; runs that it has already are not run again.",
)
@click.option("--processes", type=IntegerRange(1), help="How many runs at a time; by default one per core.")
@click.option(
    "--spark", metavar="MASTER", callback=check_master, help="Run on this Spark master instead of this machine's cores."
)
def study(
    out: Path | None,
    seeds: int,
    largest: int,
    questions: tuple[int, ...],
    churn: tuple[Path, ...],
    rows: Path | None,
    processes: int | None,
    spark: str | None,
) -> None:
    """Measure the ways to rebalance, in virtual time.

    Runs ZooKeeper's rebalance, Kafka's of three group protocols, and RocketMQ's on the same workloads, many seeds
    each, and writes OUT/study.md, its pictures in OUT/study and its figures in OUT/results.
    """
    from coterie.laboratory.study.spread import Study, ordered, summarise

    if questions and out is None:
        raise click.UsageError("A part of the study needs --out FOLDER, so that it does not replace the whole study.")
    if spark and processes:
        raise click.UsageError("--processes is of this machine's cores; leave it out with --spark.")
    out = out or Path("docs")
    wanted = Study(seeds, largest, questions, _traces(churn))
    kept = None if rows is None else RowFile(rows)
    done = wanted.of(kept.rows) if kept else []
    jobs = wanted.jobs(done)
    results = _on_spark(wanted, jobs, spark) if spark else _on_cores(wanted, jobs, processes)
    with progress_bar(len(jobs), "runs") as advance:
        for row in kept.keep(results) if kept else results:
            advance(1)
            done.append(row)
    cells = ordered(wanted, summarise(done))
    document = _head(seeds, largest) | {"cells": [cell.to_json() for cell in cells]}
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / RESULTS).write_text(_lines(document))
    _simulate_beside(out)
    page = write_page(out)
    write_line(f"{quantity(len(done), 'run')} of {quantity(len(wanted.points()), 'point')}; the page is {page}")


def _head(seeds: int, largest: int) -> dict[str, Any]:
    """What the figures depend on. The machine is no part of it: the same seeds give the same figures on every one."""
    return {
        "command": f"coterie lab study --seeds {seeds} --largest {largest}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "code": _code_digest(),
        "seeds": seeds,
        "largest": largest,
    }


def _lines(results: dict[str, Any]) -> str:
    """JSON with a line per cell, so that a difference can be read."""
    cells = ",\n".join(json.dumps(cell) for cell in results["cells"])
    head = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in results.items() if name != "cells")
    return f'{{{head}, "cells": [\n{cells}\n]}}\n'


def write_page(out: Path) -> Path:
    """OUT/study.md and its pictures, from OUT/results/study.json and, where it is, OUT/results/study-real.json."""
    from coterie.console.study_page import RealPoint, markdown, pictures
    from coterie.laboratory.study.spread import Cell

    results = json.loads((out / RESULTS).read_text())
    cells = [Cell.from_json(cell) for cell in results["cells"]]
    real = json.loads((out / REAL).read_text()) if (out / REAL).exists() else {"points": []}
    points = [RealPoint(**point) for point in real["points"]]
    (out / "study").mkdir(exist_ok=True)
    for name, picture in pictures(cells).items():
        (out / "study" / f"{name}.svg").write_text(picture + "\n")
    page = out / "study.md"
    page.write_text(markdown(cells, points, results["command"], "study", _conditions(real)))
    return page


def _conditions(real: dict[str, Any]) -> str:
    """When and where the points with real processes were measured."""
    if not real["points"]:
        return ""
    machine = real["machine"]
    on = f"{quantity(machine['cores'], 'core')}, {machine['system']}, Python {machine['python']}"
    return f"The processes were measured on {real['date']} ({on}). {real.get('note', '')}".rstrip()


def _traces(files: Iterable[Path]) -> tuple[Any, ...]:
    from coterie.laboratory.churn import TraceError, shortened, trace_of

    traces = []
    for file in files:
        try:
            changes = trace_of(file.read_bytes())
        except TraceError as error:
            raise click.UsageError(f"{file}: {error}") from error
        traces.append((file.stem, tuple(shortened(changes, QUIET_MS))))
    return tuple(traces)


def _on_cores(study: Study, jobs: list[tuple[int, int]], processes: int | None) -> Iterator[StudyRow]:
    from functools import partial

    from coterie.laboratory.study.spread import run_job

    yield from as_completed_over_cores(partial(run_job, study), jobs, processes)


def _on_spark(study: Study, jobs: list[tuple[int, int]], master: str) -> Iterator[StudyRow]:
    """The same rows, whatever the partitioning; in the order in which they are done."""
    from tempfile import TemporaryDirectory

    from coterie.laboratory.study.questions import StudyRow
    from coterie.laboratory.study.spread import run_job
    from coterie.pipeline.session import make_session

    def run_all(batches: Iterator[Any]) -> Iterator[Any]:
        import pandas

        gc.set_threshold(GC_THRESHOLD)
        for batch in batches:
            for number in batch["id"]:
                row = run_job(study, jobs[int(number)])
                yield pandas.DataFrame({"row": [json.dumps(asdict(row))]})

    with TemporaryDirectory(prefix="coterie-study-") as folder:
        session = make_session(master, "coterie-study", Path(folder))
        try:
            slices = min(len(jobs), session.sparkContext.defaultParallelism * 16)
            frame = session.range(0, len(jobs), numPartitions=slices)
            for result in frame.mapInPandas(run_all, "row string").toLocalIterator():
                yield StudyRow(**json.loads(result.row))
        finally:
            session.stop()


def _simulate_beside(out: Path) -> None:
    """The laboratory's side of OUT/results/study-real.json, of the same code as the rest of the page."""
    if not (out / REAL).exists():
        return
    from coterie.console.study_page import RealPoint

    document = json.loads((out / REAL).read_text())
    points = simulated_again(RealPoint(**point) for point in document["points"])
    write_real(out, document | {"points": [asdict(point) for point in points]})


def simulated_again(points: Iterable[RealPoint]) -> list[RealPoint]:
    """The same points with the laboratory's figures of this code; one that `QUESTIONS` does not have keeps its own."""
    from coterie.laboratory.study.compared import QUESTIONS

    by_name = {(q.setting.name, q.what): q for q in QUESTIONS}
    return [_beside(point, by_name.get((point.protocol, point.what))) for point in points]


def _beside(point: RealPoint, question: StudyPoint | None) -> RealPoint:
    from coterie.laboratory.study.compared import simulated, spread

    if question is None:
        return point
    mean, low, high = spread(simulated(question))
    return replace(point, simulated=mean, simulated_low=low, simulated_high=high)


def write_real(out: Path, document: dict[str, Any]) -> None:
    """OUT/results/study-real.json, which `coterie-conformance study` measures."""
    (out / REAL).write_text(json.dumps(document, indent=1) + "\n")
