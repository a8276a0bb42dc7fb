"""`coterie conformance`: the real Apache Kafka as the judge."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from coterie.cli.conformance_cluster_clients import CLIENT_NAMES
from coterie.cli.conformance_options import PartOptions
from coterie.cli.conformance_parts import KAFKA_PARTS, NIGHTLY_QUESTIONS, OTHER_PARTS
from coterie.cli.invocation import json_option, was_given
from coterie.cli.ranges import IntegerRange, NumberRange
from coterie.conformance.kafka import EVERY_VERSION, CannotRun
from coterie.console.terminal import write_json, write_line, write_lines
from coterie.quantity import quantity

PARTS = (*KAFKA_PARTS, *OTHER_PARTS)
PARTS_OF_OPTION: dict[str, tuple[str, ...]] = {
    "steps": ("requests",),
    "questions": ("everything",),
    "nightly": ("everything",),
    "replay": ("everything",),
    "record": ("certify",),
    "strikes": ("cluster",),
    "minutes": ("cluster-clients",),
    "clients": ("cluster-clients",),
    "is_alone": ("cluster-clients",),
    "brokers": ("requests", "consumer-groups", "everything", "tools", "clients", "members"),
}
CANNOT_RUN_EXIT = 3


@click.command(
    epilog="""\b
Examples:
  coterie conformance
  coterie conformance --kafka 4.3.0 --steps 2000
  coterie conformance --part requests --seed 4711 --steps 1
  coterie conformance --part assignors --part client --kafka 4.3.0
  coterie conformance --part everything --kafka 3.9.1 --questions 5000
  coterie conformance --part cli --kafka 0.11.0.3
  coterie conformance --part zookeeper --part rocketmq
  coterie conformance --part hostile
  coterie conformance --part cluster --strikes 10
  coterie conformance --part cluster-clients --minutes 5
  coterie conformance --part requests --part everything --brokers 3

\b
Needs java (a JDK) and mvn on the PATH; the jars come from Maven Central, once. Exits 0 when nothing unexplained differed,
1 when something did, 3 when Apache Kafka could not be run.
"""
)
@click.option(
    "--kafka",
    "versions",
    multiple=True,
    type=click.Choice(EVERY_VERSION),
    help="Only this version; may be given again.",
)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part; may be given again.")
@click.option(
    "--steps", type=IntegerRange(1), default=20_000, show_default=True, help="Of the part requests, per version."
)
@click.option(
    "--questions",
    type=IntegerRange(1),
    default=100_000,
    show_default=True,
    help="Of the part everything, per version.",
)
@click.option(
    "--nightly", is_flag=True, help=f"Of the part everything: {quantity(NIGHTLY_QUESTIONS, 'question')} per version."
)
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Of the part everything: only the story in this file, as --json prints it.",
)
@click.option("--record", is_flag=True, help="Of the part certify: first record the answers of each Kafka anew.")
@click.option(
    "--strikes",
    type=IntegerRange(1),
    default=30,
    show_default=True,
    help="Of the part cluster: brokers killed or paused under load.",
)
@click.option(
    "--minutes",
    type=NumberRange(0, 60, min_open=True),
    default=5.0,
    show_default=True,
    help="Of the part cluster-clients: for how long a broker is killed every 20 s, on each side.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=click.Choice(CLIENT_NAMES),
    help="Of the part cluster-clients: only this client; may be given again.",
)
@click.option("--alone", "is_alone", is_flag=True, help="Of the part cluster-clients: without Apache Kafka beside.")
@click.option(
    "--brokers",
    type=IntegerRange(1, 3),
    default=1,
    show_default=True,
    help=f"Of ours, beside one of Kafka's, in the parts {', '.join(PARTS_OF_OPTION['brokers'])}.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first story's seed.")
@json_option
def conformance(
    versions: tuple[str, ...], parts: tuple[str, ...], as_json: bool, nightly: bool, **asked_for: Any
) -> None:
    """Compare coterie with Apache Kafka: every response, and each other's files."""
    results, exit_code = list[dict[str, Any]](), 0
    wanted = parts or PARTS
    if nightly:
        asked_for["questions"] = NIGHTLY_QUESTIONS
    _check_runs_something(wanted, versions)
    _check_options_have_an_effect(wanted)
    with tempfile.TemporaryDirectory(prefix="coterie-conformance-") as folder:
        for version in versions or EVERY_VERSION:
            names = [name for name in KAFKA_PARTS if name in wanted and version in KAFKA_PARTS[name].versions]
            if names:
                options = PartOptions(Path(folder) / version, version, as_json=as_json, **asked_for)
                exit_code = _one_version(names, options, results) or exit_code
        for name in OTHER_PARTS:
            if name in wanted:
                options = PartOptions(Path(folder), "", as_json=as_json, **asked_for)
                exit_code = OTHER_PARTS[name](options, results) or exit_code
    if as_json:
        write_json(results, indent=2)
    raise SystemExit(exit_code)


def _check_runs_something(wanted: Iterable[str], versions: tuple[str, ...]) -> None:
    """Raises UsageError for parts that none of the versions runs, which would end as if they had passed."""
    ranges = {name: KAFKA_PARTS[name].versions for name in wanted if name in KAFKA_PARTS}
    if versions and [*ranges] == [*wanted] and not any({*versions} & {*range_} for range_ in ranges.values()):
        served = "; ".join(f"{name} runs on {', '.join(range_)}" for name, range_ in ranges.items())
        raise click.UsageError(f"nothing to run with --kafka {' '.join(versions)}: {served}")


def _check_options_have_an_effect(wanted: Sequence[str]) -> None:
    """Raises UsageError for an option of a part that does not run, and for a --replay beside which other parts would."""
    for param in click.get_current_context().command.params:
        parts = PARTS_OF_OPTION.get(param.name or "", ())
        if parts and not {*parts} & {*wanted} and was_given(param.name or ""):
            raise click.UsageError(f"{param.opts[0]} goes with --part {', '.join(parts)}.")
    if was_given("replay") and [*wanted] != ["everything"]:
        raise click.UsageError("--replay goes with --part everything alone.")


def _one_version(names: list[str], options: PartOptions, results: list[dict[str, Any]]) -> int:
    """Runs these parts against one version of Kafka; the exit code that they call for."""
    one: dict[str, Any] = {"kafka": options.version, "failed": 0}
    lines = [f"Apache Kafka {options.version}:"]
    try:
        for name in names:
            result = KAFKA_PARTS[name].run(options)
            one["failed"] += result.pop("failed")
            one |= result
            lines += KAFKA_PARTS[name].sentences(result)
    except CannotRun as reason:
        write_line(f"SKIPPED Apache Kafka {options.version}: {reason}", color="red", bold=True, err=True)
        results.append({"kafka": options.version, "skipped": str(reason)})
        return CANNOT_RUN_EXIT
    results.append(one)
    if not options.as_json:
        write_lines(lines)
    return 1 if one["failed"] else 0
