"""`coterie lab`: groups in virtual time."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from coterie.assignors import ASSIGNORS
from coterie.cli.commands import CommandGroup
from coterie.cli.cores import GC_THRESHOLD, over_cores
from coterie.cli.invocation import done, json_option, progress_bar, show
from coterie.cli.lab_figures import ALL, NOUNS, SHARES, STORIES
from coterie.cli.ranges import IntegerRange, NumberRange
from coterie.cli.seed_results import Result, SeedResults
from coterie.cli.spark import check_master
from coterie.cli.study import study
from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity

FAILURES_SHRUNK = 3


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie lab fuzz --seeds 200
  coterie lab fuzz --first 4711 --seeds 1
  coterie lab fuzz --of clusters --seeds 20
  coterie lab fuzz --seeds 10000 --spark 'local[*]'
  coterie lab handover
  coterie lab migration
  coterie lab study --seeds 3 --largest 300
""",
)
def lab() -> None:
    """Run groups in virtual time, under faults."""


lab.add_command(study)


@lab.command()
@click.option(
    "--of",
    "story",
    type=click.Choice(list(STORIES)),
    default="members",
    show_default=True,
    help="What runs under faults.",
)
@click.option("--seeds", "-n", type=IntegerRange(1), default=100, show_default=True, help="How many seeds, a run each.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--minutes", type=NumberRange(0), default=10.0, show_default=True, help="Virtual minutes of faults per seed."
)
@click.option(
    "--spark",
    metavar="MASTER",
    callback=check_master,
    help="Run the seeds on this Spark master instead of this machine's cores.",
)
@click.option("--processes", type=IntegerRange(1), help="How many processes share the seeds; one per core by default.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep each seed's result in this file; the same command then resumes an interrupted run.",
)
@json_option
def fuzz(
    story: str,
    seeds: int,
    first: int,
    minutes: float,
    spark: str | None,
    processes: int | None,
    results: Path | None,
    as_json: bool,
) -> None:
    """Run groups, clusters or whole programs under random faults.

    With --of: members of groups of either protocol, transactional producers, producers at brokers whose leaders move (senders),
    writers and readers of records, or whole clients, each with a broker; programs: the production brokers and clients, with
    nothing replaced but time, network and disks; or clusters of several brokers. Exits 1 where a seed breaks a rule. A failure
    is printed at once, with its seed and the commit; those of members at the end also with their stories in the language of
    tests/spec, shrunk.
    """
    if spark and (results or processes):
        raise click.UsageError("--results and --processes are of this machine's cores; leave them out with --spark")
    started, failed = time.monotonic(), list[int]()
    kept = None if results is None else SeedResults(results, story, minutes)
    reports = {} if kept is None else {seed: r for seed, r in kept.passed.items() if first <= seed < first + seeds}
    wanted = [seed for seed in range(first, first + seeds) if seed not in reports]
    ran = _on_spark(story, wanted, minutes, spark) if spark else _on_cores(story, wanted, minutes, processes)
    commit = _commit()
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
                write_lines(f"{failure} (commit {commit}, --minutes {minutes:g})".split("\n"), color="red", err=True)
            else:
                reports[seed] = report
    for seed in failed[:FAILURES_SHRUNK] if story == "members" else ():
        _write_story(seed, minutes)
    seconds = time.monotonic() - started
    figures = {
        "seeds": seeds,
        "failed": len(failed),
        **{name: sum(r.get(name, 0) for r in reports.values()) for name in STORIES[story]},
        "seconds": round(seconds, 1),
        "seeds_per_hour": round(3600 * len(wanted) / seconds),
    }
    done(_sentence(figures), as_json, **figures)
    raise SystemExit(1 if failed else 0)


def _sentence(figures: dict[str, Any]) -> str:
    counts = [quantity(figures[name], noun, plural) for name, (noun, plural) in NOUNS.items() if name in figures]
    shares = [
        f"{100 * figures[name] / figures['seeds']:.1f} % {text}" for name, text in SHARES.items() if name in figures
    ]
    failed, seconds, rate = figures["failed"], figures["seconds"], quantity(figures["seeds_per_hour"], "seed")
    return f"{', '.join(counts + shares)}, {failed} failed, {seconds} s, {rate} per hour"


@lab.command()
@click.option(
    "--members",
    type=IntegerRange(1, 1000),
    default=19,
    show_default=True,
    help="The members before the one that joins.",
)
@click.option(
    "--partitions", type=IntegerRange(1, 10_000), default=20, show_default=True, help="The partitions of its topic."
)
@click.option(
    "--listener-ms",
    type=IntegerRange(0),
    default=100,
    show_default=True,
    help="How long a listener takes to release its partitions.",
)
@json_option
def handover(members: int, partitions: int, listener_ms: int, as_json: bool) -> None:
    """Measure what one more member costs a group.

    Eager beside cooperative. UNOWNED TIME is the time without an owner, summed over the partitions; LONGEST is that of one
    partition.
    """
    from coterie.laboratory.experiments import handover as run_handover

    costs = [run_handover(name, members, partitions, listener_ms) for name in ASSIGNORS]
    rows = [
        (
            c.assignor,
            c.protocol,
            f"{c.paused} of {members}",
            f"{c.unowned} of {partitions}",
            f"{c.unowned_ms / 1000:.1f} s",
            f"{c.longest_ms / 1000:.1f} s",
            c.moved,
            c.rebalances,
        )
        for c in costs
    ]
    headers = ("ASSIGNOR", "PROTOCOL", "MEMBERS PAUSED", "UNOWNED", "UNOWNED TIME", "LONGEST", "MOVED", "REBALANCES")
    show([asdict(c) for c in costs], as_json, headers, rows)


@lab.command()
@click.option("--members", type=IntegerRange(1, 100), default=3, show_default=True, help="The members of the group.")
@click.option(
    "--partitions", type=IntegerRange(1, 10_000), default=12, show_default=True, help="The partitions of its topic."
)
@click.option(
    "--bounces",
    type=IntegerRange(1, 2),
    default=2,
    show_default=True,
    help="Rolling restarts; 1 shows why two are needed.",
)
@json_option
def migration(members: int, partitions: int, bounces: int, as_json: bool) -> None:
    """Move a group from eager to cooperative, member by member.

    From range to cooperative-sticky, one member restarted after the other.
    """
    from coterie.laboratory.experiments import migration as run_migration

    steps = list(run_migration(members, partitions, bounces=bounces))
    rows = [
        (s.what, s.assignor, s.protocol, s.members, s.rebalances, s.refused, "yes" if s.complete else "NO")
        for s in steps
    ]
    headers = ("STEP", "ASSIGNOR", "PROTOCOL", "MEMBERS", "REBALANCES", "REFUSED", "EVERY PARTITION OWNED")
    show([asdict(s) for s in steps], as_json, headers, rows)


def _on_cores(story: str, seeds: Sequence[int], minutes: float, processes: int | None) -> Iterator[Result]:
    yield from over_cores(partial(_one, story, minutes=minutes), seeds, processes, chunk=4)


def _one(story: str, seed: int, minutes: float) -> Result:
    from coterie.laboratory.cluster.seeds import run_seed_of_clusters
    from coterie.laboratory.consumer_group_fuzz import run_consumer_seed
    from coterie.laboratory.fuzz import FuzzFailure, run_seed
    from coterie.laboratory.node.seeds import run_clients_seed
    from coterie.laboratory.node.story import run_records_seed
    from coterie.laboratory.produce_fuzz import run_produce_seed
    from coterie.laboratory.transaction_fuzz import run_transaction_seed
    from coterie.stories.story import run_story_seed

    runs: dict[str, Callable[[int, float], Any]] = {
        "members": run_seed,
        "consumer-groups": run_consumer_seed,
        "producers": run_transaction_seed,
        "senders": run_produce_seed,
        "records": run_records_seed,
        "clients": run_clients_seed,
        "programs": run_story_seed,
        "clusters": run_seed_of_clusters,
    }
    subject = list(runs)[seed % len(runs)] if story == ALL else story
    try:
        report = asdict(runs[subject](seed, minutes))
        return seed, {name: report[name] for name in STORIES[subject]} | {subject: 1}, ""
    except FuzzFailure as failure:
        return seed, {}, str(failure)


def _on_spark(story: str, seeds: Sequence[int], minutes: float, master: str) -> Iterator[Result]:
    """The same seeds give the same reports, whatever the partitioning."""
    from tempfile import TemporaryDirectory

    from coterie.pipeline.session import make_session

    def run_all(batches: Iterator[Any]) -> Iterator[Any]:
        import pandas

        gc.set_threshold(GC_THRESHOLD)
        for batch in batches:
            for seed in batch["id"]:
                number, report, failure = _one(story, int(seed), minutes)
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


def _write_story(seed: int, minutes: float) -> None:
    from coterie.laboratory.fuzz import shrunk_scenario

    lines, breaks_there = shrunk_scenario(seed, minutes)
    if breaks_there:
        write_lines([f"== seed-{seed}", *lines], err=True)
        return
    name = f"seed-{seed}.txt"
    Path(name).write_text(f"== seed-{seed}\n" + "\n".join(lines) + "\n")
    write_line(
        f"the broker's part alone breaks no rule; its story ({quantity(len(lines), 'step')}) is in {name}", err=True
    )


def _commit() -> str:
    """The commit of this source tree, or the version of an installed package."""
    here = Path(__file__).parent
    finished = subprocess.run(["git", "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if finished.returncode == 0:
        return finished.stdout.strip()
    from importlib.metadata import version

    return f"of coterie {version('coterie')}"
