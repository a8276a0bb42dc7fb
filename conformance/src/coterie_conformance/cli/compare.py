"""`coterie-conformance compare`: the real Apache Kafka as the judge."""

from __future__ import annotations

import fnmatch
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from coterie.certify.question import API_BY_NAME
from coterie.cli.parts.invocation import json_option, was_given
from coterie.cli.parts.option_values import IntegerRange, NumberRange
from coterie.console.terminal import write_json, write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.cluster import CLIENT_NAMES
from coterie_conformance.cli.parts.options import PartOptions
from coterie_conformance.cli.parts.order import in_order, rows, runs
from coterie_conformance.cli.parts.table import KAFKA_PARTS, NIGHTLY_QUESTIONS, OTHER_PARTS
from coterie_conformance.servers.kafka import EVERY_VERSION, CannotRun

PARTS = tuple(in_order((*KAFKA_PARTS, *OTHER_PARTS)))
PARTS_OF_OPTION: dict[str, tuple[str, ...]] = {
    "steps": ("requests",),
    "questions": ("everything", "acls"),
    "nightly": ("everything",),
    "apis": ("everything",),
    "replay": ("everything",),
    "record": ("certify",),
    "strikes": ("cluster",),
    "minutes": ("cluster-clients",),
    "clients": ("cluster-clients",),
    "is_alone": ("cluster-clients", "hostile"),
    "results": ("certify-client",),
    "brokers": ("requests", "consumer-groups", "everything", "tools", "clients", "members"),
}
CANNOT_RUN_EXIT = 3
REQUESTED_APIS = (*sorted(API_BY_NAME), "settings")


def _versions_of() -> dict[str, tuple[str, ...]]:
    return {name: part.versions for name, part in KAFKA_PARTS.items()}


def _list_parts(context: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
    """What --list prints: the parts in their order."""
    if is_wanted:
        table = [("PART", "KAFKA", "MINUTES", "BROKEN BY A CHANGE OF"), *rows(_versions_of())]
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        for row in table:
            write_line("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
        context.exit(0)


def _named_apis(_context: click.Context, _param: click.Parameter, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The APIs that ``patterns`` name. Raises BadParameter for a pattern that names none."""
    for pattern in patterns:
        if not fnmatch.filter(REQUESTED_APIS, pattern):
            raise click.BadParameter(f"{pattern!r} names no API; the APIs are {', '.join(REQUESTED_APIS)}")
    return tuple(api for api in REQUESTED_APIS if any(fnmatch.fnmatchcase(api, pattern) for pattern in patterns))


@click.command(
    epilog="""\b
Examples:
  coterie-conformance compare
  coterie-conformance compare --list
  coterie-conformance compare --kafka 4.4.0 --steps 2000
  coterie-conformance compare --part requests --seed 4711 --steps 1
  coterie-conformance compare --part assignors --part client --kafka 4.3.0
  coterie-conformance compare --part everything --kafka 3.9.1 --questions 5000
  coterie-conformance compare --part everything --kafka 4.4.0 --api '*Share*' --api 'Streams*' --questions 20000
  coterie-conformance compare --part cli --kafka 0.11.0.3
  coterie-conformance compare --part zookeeper --part rocketmq
  coterie-conformance compare --part hostile --alone
  coterie-conformance compare --part cluster --strikes 10
  coterie-conformance compare --part cluster-clients --minutes 5
  coterie-conformance compare --part requests --part everything --brokers 3

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
    "--api",
    "apis",
    multiple=True,
    metavar="API",
    callback=_named_apis,
    help="Of the part everything: only questions about this API, * for any characters, or settings; may be given again.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Of the part everything: only the story in this file, as --json prints it.",
)
@click.option("--record", is_flag=True, help="Of the part certify: first record the answers of each Kafka again.")
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
@click.option("--alone", "is_alone", is_flag=True, help="Of cluster-clients and hostile: without Apache Kafka.")
@click.option(
    "--brokers",
    type=IntegerRange(1, 3),
    default=1,
    show_default=True,
    help=f"Of ours, beside one of Kafka's, in the parts {', '.join(PARTS_OF_OPTION['brokers'])}.",
)
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Of the part certify-client: keep each client's row in this file; the same command then resumes an interrupted run.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_parts,
    help="Print the parts in their order, with the minutes that they take, and end.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first story's seed.")
@json_option
def compare(versions: tuple[str, ...], parts: tuple[str, ...], as_json: bool, nightly: bool, **asked_for: Any) -> None:
    """Compare coterie with Apache Kafka: every response, and each other's files."""
    results, exit_code = list[dict[str, Any]](), 0
    wanted = parts or PARTS
    if nightly:
        asked_for["questions"] = NIGHTLY_QUESTIONS
    _check_runs_something(wanted, versions)
    _check_options_have_an_effect(wanted)
    with tempfile.TemporaryDirectory(prefix="coterie-conformance-") as folder:
        by_version = {version: VersionFigures() for version in versions or EVERY_VERSION}
        for name, version in runs(wanted, _versions_of()):
            options = PartOptions(Path(folder) / version, version, as_json=as_json, **asked_for)
            if not version:
                exit_code = OTHER_PARTS[name](options, results) or exit_code
            elif version in by_version and not by_version[version].skipped:
                exit_code = _run_part(name, options, by_version[version]) or exit_code
    results[:0] = [row for version, figures in by_version.items() if (row := figures.result(version))]
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


@dataclass(slots=True)
class VersionFigures:
    """Of the parts that ran beside one version of Kafka; ``skipped``: why it could not be run."""

    figures: dict[str, Any] = field(default_factory=dict)
    failed: int = 0
    skipped: str = ""

    def result(self, version: str) -> dict[str, Any]:
        """As --json prints it; empty where no part ran."""
        if self.skipped:
            return {"kafka": version, "skipped": self.skipped}
        return {"kafka": version, "failed": self.failed, **self.figures} if self.figures else {}


def _run_part(name: str, options: PartOptions, so_far: VersionFigures) -> int:
    """Runs the part against one version of Kafka; the exit code that it calls for."""
    began_s = time.monotonic()
    try:
        result = KAFKA_PARTS[name].run(options)
    except CannotRun as reason:
        write_line(f"SKIPPED Apache Kafka {options.version}: {reason}", color="red", bold=True, err=True)
        so_far.skipped = str(reason)
        return CANNOT_RUN_EXIT
    failed = result.pop("failed")
    so_far.failed += failed
    so_far.figures |= result
    if not options.as_json:
        write_lines([f"Apache Kafka {options.version}:", *KAFKA_PARTS[name].sentences(result)])
    write_line(f"{name} took {(time.monotonic() - began_s) / 60:.1f} min", err=True)
    return 1 if failed else 0
