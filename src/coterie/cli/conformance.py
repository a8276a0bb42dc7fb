"""`coterie conformance`: the real Apache Kafka as the judge."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.older_protocols import rocketmq_part, zookeeper_part
from coterie.cli.running import json_option
from coterie.conformance.assignors import JAVA_LIMIT_S
from coterie.conformance.kafka import VERSIONS, CannotRun

if TYPE_CHECKING:
    from coterie.conformance.format import Check
    from coterie.conformance.story import StoryResult

KAFKA_PARTS = ("format", "requests", "assignors", "client")
PARTS = (*KAFKA_PARTS, "spark", "zookeeper", "rocketmq")
NEWER_ONLY = frozenset({"assignors", "client"})  # 2.6 knows neither generations of claims nor what our client asks
ASSIGNOR_CASES = 5_000
CANNOT_RUN_EXIT = 3
TOLD_OF_A_STORY = 12


@click.command(
    epilog="""\b
Examples:
  coterie conformance
  coterie conformance --kafka 4.3.0 --steps 2000
  coterie conformance --part requests --seed 4711 --steps 1
  coterie conformance --part assignors --part client --kafka 4.3.0
  coterie conformance --part zookeeper --part rocketmq

\b
Needs java (a JDK) and mvn on the PATH; the jars come from Maven Central, once. Exits 0 when nothing unexplained differed,
1 when something did, 3 when Apache Kafka could not be run.
"""
)
@click.option(
    "--kafka", "versions", multiple=True, type=click.Choice(VERSIONS), help="Only this version; may be given again."
)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part; may be given again.")
@click.option("--steps", type=click.IntRange(1), default=20_000, show_default=True, help="Requests per version.")
@click.option("--seed", type=int, default=0, show_default=True, help="The first story's seed.")
@json_option
def conformance(versions: tuple[str, ...], parts: tuple[str, ...], steps: int, seed: int, as_json: bool) -> None:
    """Ask Apache Kafka and coterie the same, and compare: every answer, and each other's files."""
    said, exit_code = list[dict[str, Any]](), 0
    with tempfile.TemporaryDirectory(prefix="coterie-conformance-") as folder:
        wanted = parts or PARTS
        of_kafka = tuple(part for part in wanted if part in KAFKA_PARTS)
        for version in (versions or VERSIONS) if of_kafka else ():
            try:
                one = _one_version(version, of_kafka, steps, seed, Path(folder) / version)
            except CannotRun as reason:
                click.secho(f"SKIPPED Apache Kafka {version}: {reason}", fg="red", bold=True, err=True)
                said.append({"kafka": version, "skipped": str(reason)})
                exit_code = exit_code or CANNOT_RUN_EXIT
                continue
            said.append(one)
            exit_code = 1 if one["failed"] else exit_code
            if not as_json:
                click.echo(_sentence(one))
        if "spark" in wanted:
            exit_code = _spark(Path(folder), said, as_json) or exit_code
        if "zookeeper" in wanted:
            exit_code = zookeeper_part(Path(folder) / "zookeeper", said, as_json) or exit_code
        if "rocketmq" in wanted:
            exit_code = rocketmq_part(Path(folder), seed, said, as_json) or exit_code
    if as_json:
        click.echo(json.dumps(said, indent=2))
    raise SystemExit(exit_code)


def _one_version(version: str, parts: tuple[str, ...], steps: int, seed: int, folder: Path) -> dict[str, Any]:
    from coterie.conformance.accepted import ACCEPTED
    from coterie.conformance.differential import run_differential
    from coterie.conformance.format import check_format

    one: dict[str, Any] = {"kafka": version, "failed": 0}
    if "format" in parts:
        checks = check_format(version, folder / "format", _tell_check)
        one["format"] = {check.name: check.right for check in checks}
        one["failed"] += sum(not check.right for check in checks)
    if version.startswith("2."):
        parts = tuple(p for p in parts if p not in NEWER_ONLY)
    if "assignors" in parts:
        one |= _assignors(version, seed)
        one["failed"] += sum(a["failed"] for a in one["assignors"].values())
    if "client" in parts:
        from coterie.conformance.client import run_checks
        from coterie.conformance.kafka import running

        with running(version, folder / "client", {"group.initial.rebalance.delay.ms": "0"}) as (host, port):
            one["client"] = run_checks(f"{host}:{port}", _tell_client)
        one["failed"] += sum(not right for right in one["client"].values())
    if "requests" in parts:
        bar = click.progressbar(length=steps, label=f"Kafka {version}, steps", file=sys.stderr)
        with bar:

            def told(result: StoryResult) -> None:
                bar.update(result.steps)
                if result.difference:
                    _tell_difference(result)

            report = run_differential(version, steps, seed, folder / "requests", told)
        reasons = {name: reason for name, reason, _ in ACCEPTED}
        one |= {"steps": report.steps, "stories": report.stories, "unexplained": len(report.failed)}
        one["accepted"] = {name: {"stories": n, "reason": reasons[name]} for name, n in report.accepted.most_common()}
        one["failed"] += len(report.failed)
    return one


def _spark(folder: Path, said: list[dict[str, Any]], as_json: bool) -> int:
    """Spark's own connector on coterie; the exit code that this part calls for."""
    from coterie.bench.measure import broker, fill_topic
    from coterie.conformance.spark import run_spark

    try:
        with broker(folder / "spark-data") as (address, _):
            where = f"{address[0]}:{address[1]}"
            found = run_spark(where, lambda *wanted: fill_topic(where, *wanted), folder / "spark", _tell_named)
    except CannotRun as reason:
        click.secho(f"SKIPPED Spark's connector: {reason}", fg="red", bold=True, err=True)
        said.append({"connector": "spark", "skipped": str(reason)})
        return CANNOT_RUN_EXIT
    said.append({"connector": "spark", **found})
    if not as_json:
        click.echo(f"Spark's own connector ({found['peer']}) on coterie:")
        click.echo(f"  {sum(found['checks'].values())} of {len(found['checks'])} checks right")
        for r in found["rates"]:
            told = f"ours {r['ours']:,} rows/s, theirs {r['theirs']:,}: {r['ratio']:g} x"
            click.echo(f"  100-byte values to {r['sink']}: {told}")
    return 0 if all(found["checks"].values()) else 1


def _assignors(version: str, seed: int) -> dict[str, Any]:
    """Random groups, then the two large ones with the seconds each side took."""
    from coterie.assignors import ASSIGNORS
    from coterie.conformance.assignors import compare, large_cases, random_cases

    found: dict[str, Any] = {}
    for name in ASSIGNORS:
        c = compare(version, name, random_cases(name, ASSIGNOR_CASES, seed))
        for failure in c.failures[:3]:
            click.secho(f"{name}: {failure}", fg="red", err=True)
        said = {"cases": c.cases, "same": c.same, "better_balanced": c.better_balanced, "fewer_moves": c.fewer_moves}
        found[name] = said | {"theirs_invalid": c.theirs_invalid, "failed": len(c.failures)}
        click.echo(f"{'WRONG' if c.failures else 'right'}  assignor {name}: {said}", err=True)
    seconds = []
    for what, case in large_cases():
        c = compare(version, case.assignor, [case], settle=False)
        seconds.append({"what": what, "ours_s": round(c.our_ms / 1000, 2), "theirs_s": _seconds(c.their_ms)})
        click.echo(f"       {what}: {seconds[-1]['ours_s']} s, Java {seconds[-1]['theirs_s']} s", err=True)
    return {"assignors": found, "assignor_seconds": seconds}


def _seconds(ms: float) -> float | str:
    return f"more than {JAVA_LIMIT_S:g}" if ms == float("inf") else round(ms / 1000, 2)


def _tell_client(name: str, wrong: str) -> None:
    _tell_named(f"our client, {name}", wrong)


def _tell_named(name: str, wrong: str) -> None:
    click.echo(f"{'WRONG' if wrong else 'right'}  {name}{': ' + wrong if wrong else ''}", err=True)


def _tell_check(check: Check) -> None:
    click.echo(f"{'right' if check.right else 'WRONG'}  {check.name}: {check.text}", err=True)


def _tell_difference(result: StoryResult) -> None:
    click.echo(f"\nseed {result.seed} ({result.kind}), step {result.steps}, the steps before:", err=True)
    for line in result.told[-TOLD_OF_A_STORY:]:
        click.echo(f"  {line}", err=True)
    click.secho(result.difference, fg="red", err=True)


def _sentence(one: dict[str, Any]) -> str:
    lines = [f"Apache Kafka {one['kafka']}:"]
    if "format" in one:
        right = sum(one["format"].values())
        lines.append(f"  files: {right} of {len(one['format'])} checks right")
    if "assignors" in one:
        for name, a in one["assignors"].items():
            lines.append(
                f"  assignor {name}: {a['cases']} random groups, {a['same']} the same, {a['better_balanced']} better "
                f"balanced, {a['fewer_moves']} with fewer moves, {a['failed']} worse"
            )
        lines += [f"    {s['what']}: {s['ours_s']} s, Java {s['theirs_s']} s" for s in one["assignor_seconds"]]
    if "client" in one:
        lines.append(f"  our client: {sum(one['client'].values())} of {len(one['client'])} checks right")
    if "steps" in one:
        lines.append(
            f"  requests: {one['steps']} steps in {one['stories']} stories, {one['unexplained']} unexplained differences"
        )
        lines += [f"    {a['stories']:4} stories ended at a known one: {a['reason']}" for a in one["accepted"].values()]
    return "\n".join(lines)
