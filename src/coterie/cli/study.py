"""`coterie lab study`: every protocol on the same workloads and churn, and the page of results."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.cores import GC_THRESHOLD, over_cores
from coterie.cli.invocation import progress_bar
from coterie.cli.ranges import IntegerRange
from coterie.console.terminal import write_line
from coterie.quantity import quantity

if TYPE_CHECKING:
    from coterie.laboratory.study.questions import StudyRow
    from coterie.laboratory.study.spread import Study


@click.command(
    epilog="""\b
Examples:
  coterie lab study                                  the whole study: half an hour on two cores
  coterie lab study --seeds 3 --largest 300 --out my-study     about two minutes
  coterie lab study --question 2 --question 4 --out my-study
  coterie lab study --churn g4dn.txt --out my-study
  coterie lab study --spark 'local[*]'
  coterie lab study --real                           one point of each protocol with real processes, beside the simulated
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
    "--question", "questions", multiple=True, type=IntegerRange(1, 5), help="Only this question; may be given again."
)
@click.option(
    "--churn",
    "churn",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also this trace: lines of time_ms,add|remove,member. May be given again.",
)
@click.option("--processes", type=IntegerRange(1), help="How many runs at a time; by default one per core.")
@click.option("--spark", metavar="MASTER", help="Run on this Spark master instead of this machine's cores.")
@click.option("--real", is_flag=True, help="Measure with real processes; needs Java, and Maven for RocketMQ.")
def study(
    out: Path | None,
    seeds: int,
    largest: int,
    questions: tuple[int, ...],
    churn: tuple[Path, ...],
    processes: int | None,
    spark: str | None,
    real: bool,
) -> None:
    """Measure the ways to rebalance, in virtual time.

    Runs ZooKeeper's, Kafka's eager, cooperative and static, and RocketMQ's rebalance on the same workloads, many seeds
    each, and writes OUT/study.md with its pictures and figures in OUT/study.
    """
    from coterie.laboratory.study.spread import Study, ordered, summarise

    if questions and out is None:
        raise click.UsageError("A part of the study needs --out FOLDER, so that it does not replace the whole study.")
    out = out or Path("docs")
    if real:
        _measure_real(out)
        return
    wanted = Study(seeds, largest, questions, _traces(churn))
    jobs = wanted.jobs()
    results = _on_spark(wanted, jobs, spark) if spark else _on_cores(wanted, jobs, processes)
    with progress_bar(len(jobs), "runs") as advance:
        rows = []
        for row in results:
            advance(1)
            rows.append(row)
    cells = ordered(wanted, summarise(rows))
    folder = out / "study"
    folder.mkdir(parents=True, exist_ok=True)
    document = {"seeds": seeds, "largest": largest, "cells": [cell.to_json() for cell in cells]}
    (folder / "results.json").write_text(_lines(document))
    page = write_page(out)
    write_line(f"{quantity(len(rows), 'run')} of {quantity(len(wanted.points()), 'point')}; the page is {page}")


def _lines(results: dict[str, Any]) -> str:
    """JSON with a line per cell, so that a difference can be read."""
    cells = ",\n".join(json.dumps(cell) for cell in results["cells"])
    head = ", ".join(f'"{name}": {value}' for name, value in results.items() if name != "cells")
    return f'{{{head}, "cells": [\n{cells}\n]}}\n'


def write_page(out: Path) -> Path:
    """OUT/study.md and its pictures, from OUT/study/results.json and, where it is, OUT/study/real.json."""
    from coterie.console.study_page import RealPoint, markdown, pictures
    from coterie.laboratory.study.spread import Cell

    folder = out / "study"
    results = json.loads((folder / "results.json").read_text())
    cells = [Cell.from_json(cell) for cell in results["cells"]]
    measured = folder / "real.json"
    real = [RealPoint(**point) for point in json.loads(measured.read_text())] if measured.exists() else []
    for name, picture in pictures(cells).items():
        (folder / f"{name}.svg").write_text(picture + "\n")
    command = f"coterie lab study --seeds {results['seeds']} --largest {results['largest']}"
    page = out / "study.md"
    page.write_text(markdown(cells, real, command, "study"))
    return page


def _traces(files: Iterable[Path]) -> tuple[Any, ...]:
    from coterie.laboratory.churn import TraceError, read_trace, shortened

    traces = []
    for file in files:
        try:
            changes = read_trace(file.read_text().splitlines())
        except TraceError as error:
            raise click.UsageError(f"{file}: {error}") from error
        traces.append((file.stem, tuple(shortened(changes, QUIET_MS))))
    return tuple(traces)


QUIET_MS = 180_000  # stretches without a change are cut to it: beyond every timeout here, nothing happens


def _on_cores(study: Study, jobs: list[tuple[int, int]], processes: int | None) -> Iterator[StudyRow]:
    from functools import partial

    from coterie.laboratory.study.spread import run_job

    yield from over_cores(partial(run_job, study), jobs, processes)


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


def _measure_real(out: Path) -> None:
    """OUT/study/real.json, and the page anew."""
    from coterie.bench.study import measure

    folder = out / "study"
    if not (folder / "results.json").exists():
        raise click.ClickException(f"there is no study in {out} to put it beside; run `coterie lab study` first.")
    points = measure(lambda text: write_line(text, err=True))
    (folder / "real.json").write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    write_line(f"{quantity(len(points), 'point')}; the page is {write_page(out)}")
