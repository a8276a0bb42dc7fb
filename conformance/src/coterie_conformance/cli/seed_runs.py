"""Seeds of stories run over cores or Spark: the options, the results as they come and in a file, and the figures at the end."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from coterie.cli.parts.cores import GC_THRESHOLD, over_cores
from coterie.cli.parts.invocation import done, json_option, progress_bar
from coterie.cli.parts.option_values import IntegerRange, NumberRange
from coterie.cli.pipeline.spark import check_master
from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.kept_lines import KeptLines, commit_of_source

Result = tuple[int, dict[str, Any], str]  # seed, report, failure
F = TypeVar("F", bound=Callable[..., Any])
# What is summed over the seeds' reports -> its noun, in singular and plural.
NOUNS = {
    "events": ("event", ""),
    "acknowledged": ("record acknowledged", "records acknowledged"),
    "delivered": ("record delivered", "records delivered"),
    "transactions": ("transaction", ""),
    "faults": ("fault", ""),
    "broker_crashes": ("broker crash", "broker crashes"),
}
_OPTIONS = (
    click.option(
        "--seeds", "-n", type=IntegerRange(1), default=100, show_default=True, help="How many seeds, a run each."
    ),
    click.option("--first", type=int, default=0, show_default=True, help="The first seed."),
    click.option(
        # Each rule of docs/contributing/rules-off.md that seeds see is seen by stories of a minute or less, with less CPU than
        # by longer ones.
        "--minutes",
        type=NumberRange(0),
        default=1.0,
        show_default=True,
        help="Virtual minutes of faults per seed.",
    ),
    click.option(
        "--spark",
        metavar="MASTER",
        callback=check_master,
        help="Run the seeds on this Spark master instead of this machine's cores.",
    ),
    click.option(
        "--processes", type=IntegerRange(1), help="How many processes share the seeds; one per core by default."
    ),
    click.option(
        "--results",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keep each seed's result in this file; the same command then resumes an interrupted run.",
    ),
    json_option,
)


class SeedResults:
    """``passed``: seed -> its report. A seed that failed is not among them, and so runs again. Raises as `KeptLines`."""

    def __init__(self, path: Path, story: str, minutes: float) -> None:
        self._lines = KeptLines(path, {"of": story, "minutes": minutes})
        try:
            kept = [(int(r["seed"]), dict(r["report"]), r["failure"]) for r in self._lines.results]
        except (ValueError, KeyError, TypeError) as error:
            raise self._lines.refused() from error
        self.passed: dict[int, dict[str, Any]] = {seed: report for seed, report, failure in kept if not failure}

    def add(self, result: Result, commit: str) -> None:
        """Appends a line; ``commit``: of the source that ran."""
        seed, report, failure = result
        self._lines.add({"seed": seed, "report": report, "failure": failure, "commit": commit})


def seed_options(command: F) -> F:
    """Gives a command the options of `SeedRun`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class SeedRun:
    """The options of a command. Raises UsageError for options that exclude each other."""

    seeds: int
    first: int
    minutes: float
    spark: str | None
    processes: int | None
    results: Path | None
    as_json: bool

    def __post_init__(self) -> None:
        if self.spark and (self.results or self.processes):
            raise click.UsageError("--results and --processes are of this machine's cores; leave them out with --spark")

    def run(self, story: str, one: Callable[[int], Result]) -> None:
        """Runs ``one`` for each seed and sums what `NOUNS` names over the reports; ``story`` names the stories in the file of
        results. Ends with SystemExit: 1 where a seed failed."""
        started, failed = time.monotonic(), list[int]()
        kept = None if self.results is None else SeedResults(self.results, story, self.minutes)
        wanted_seeds = range(self.first, self.first + self.seeds)
        reports = {} if kept is None else {s: r for s, r in kept.passed.items() if s in wanted_seeds}
        wanted = [seed for seed in wanted_seeds if seed not in reports]
        ran = _on_spark(one, wanted, self.spark) if self.spark else over_cores(one, wanted, self.processes, chunk=4)
        commit = commit_of_source()
        with progress_bar(len(wanted), "seeds") as advance:
            for result in ran:
                advance(1)
                seed, report, failure = result
                if kept is not None:
                    kept.add(result, commit)
                if failure:
                    failed.append(seed)
                    if sys.stderr is not None and sys.stderr.isatty():
                        write_line(err=True)  # below the bar
                    lines = f"{failure} (commit {commit}, --minutes {self.minutes:g})".split("\n")
                    write_lines(lines, color="red", err=True)
                else:
                    reports[seed] = report
        seconds = time.monotonic() - started
        figures = {
            "seeds": self.seeds,
            "failed": len(failed),
            **{name: sum(report[name] for report in reports.values()) for name in NOUNS},
            "seconds": round(seconds, 1),
            "seeds_per_hour": round(3600 * len(wanted) / seconds),
        }
        done(_sentence(figures), self.as_json, **figures)
        raise SystemExit(1 if failed else 0)


def _sentence(figures: dict[str, Any]) -> str:
    counts = [quantity(figures["seeds"], "seed")]
    counts += [quantity(figures[name], noun, plural) for name, (noun, plural) in NOUNS.items()]
    failed, seconds, rate = figures["failed"], figures["seconds"], quantity(figures["seeds_per_hour"], "seed")
    return f"{', '.join(counts)}, {failed} failed, {seconds} s, {rate} per hour"


def _on_spark(one: Callable[[int], Result], seeds: Sequence[int], master: str) -> Iterator[Result]:
    """The same seeds give the same reports, whatever the partitioning."""
    from tempfile import TemporaryDirectory

    from coterie.pipeline.session import make_session

    def run_all(batches: Iterator[Any]) -> Iterator[Any]:
        import pandas

        gc.set_threshold(GC_THRESHOLD)
        for batch in batches:
            for seed in batch["id"]:
                number, report, failure = one(int(seed))
                yield pandas.DataFrame({"seed": [number], "report": [json.dumps(report)], "failure": [failure]})

    with TemporaryDirectory(prefix="coterie-lab-") as folder:
        session = make_session(master, "coterie-lab", Path(folder))
        try:
            slices = min(len(seeds), session.sparkContext.defaultParallelism * 8)
            frame = session.range(seeds[0], seeds[-1] + 1, numPartitions=slices)
            results = frame.mapInPandas(run_all, "seed long, report string, failure string")
            for row in results.toLocalIterator():
                yield row.seed, json.loads(row.report), row.failure
        finally:
            session.stop()
