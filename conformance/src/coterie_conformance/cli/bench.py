"""`coterie-conformance bench`: figures of this machine, as a table or JSON, and the page of the curves."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.broker.storage.disk import raise_open_file_limit
from coterie.cli.parts.invocation import json_option
from coterie.console.terminal import write_json, write_line
from coterie_conformance.bench.beside import KAFKA
from coterie_conformance.bench.curves.growth import APACHE, growth
from coterie_conformance.bench.curves.page import CostPoint, markdown, pictures
from coterie_conformance.bench.measure import machine
from coterie_conformance.bench.measurement import SECONDS
from coterie_conformance.servers.kafka import CannotRun, jars
from coterie_conformance.servers.programs import NAME as KFAKE
from coterie_conformance.servers.programs import kfake_program

if TYPE_CHECKING:
    from coterie_conformance.bench.measurement import Measurement

PART_NAMES = (
    "start",
    "records",
    "groups",
    "rebalance",
    "columnar",
    "spark",
    "memory",
    "assignors",
    "clients",
    "load",
    "observer",
    "proxy",
    "history",
    "churn",
    "command-line",
    "kafka",
    "consumer-groups",
    "share-groups",
    "streams-groups",
    "spark-connector",
    "secured",
    "cluster",
)
# The others take minutes; clients wants the peers (`./run setup`), the last eight java and mvn.
BY_DEFAULT = PART_NAMES[:-14]

ON_SPARK = frozenset({"columnar", "spark", "history", "spark-connector", "cluster"})  # the parts that need the extra
GROWTH = Path("results", "growth.json")
LARGEST, QUICK_LARGEST, QUICK_S = 10**6, 1_000, 0.5


@click.command(
    epilog="""\b
Examples:
  coterie-conformance bench
  coterie-conformance bench --part groups --json           with command, date and machine, as docs/results keeps them
  coterie-conformance bench --part clients                 our client beside aiokafka, kafka-python, confluent-kafka
  coterie-conformance bench --part clients --against ../old
                                               our client's CPU beside that of another checkout
  coterie-conformance bench --part load                    ten million records of __consumer_offsets
  coterie-conformance bench --part observer                an observer of 10,000 groups with 100,000 members
  coterie-conformance bench --part proxy                   what a proxy adds to a request, and the bytes that it passes on
  coterie-conformance bench --part history                 group history over 5 and 50 million commits
  coterie-conformance bench --part churn                   five minutes of clients that come and go: what is left open
  coterie-conformance bench --part command-line            produce and consume beside Kafka's console tools and kcat
  coterie-conformance bench --part kafka                   beside Apache Kafka, one core each
  coterie-conformance bench --part consumer-groups         the same for groups of the consumer protocol
  coterie-conformance bench --part share-groups            the same for share groups
  coterie-conformance bench --part streams-groups          the same for groups of Kafka Streams
  coterie-conformance bench --part spark-connector         our Spark source and sink beside Spark's own Kafka connector
  coterie-conformance bench --part secured                 heartbeats with ACLs, and over SASL_SSL, beside Apache Kafka
  coterie-conformance bench --part cluster                 three brokers beside three of Apache Kafka 2.6.3
  coterie-conformance bench --report                       cost as it grows, with pictures
  coterie-conformance bench --report --quick --out my-report
"""
)
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(PART_NAMES), help="Only this part; may be given again."
)
@click.option(
    "--against",
    metavar="CHECKOUT",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --part clients: our client's CPU by operation, beside that of the client in another checkout.",
)
@click.option(
    "--report", is_flag=True, help="Measure cost as it grows, beside Apache Kafka and kfake, and write the page."
)
@click.option("--quick", is_flag=True, help="With --report: sizes up to 1,000, and half a second of each load.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --report: the folder of the page.  [default: docs]",
)
@json_option
def bench(
    parts: tuple[str, ...], against: Path | None, report: bool, quick: bool, out: Path | None, as_json: bool
) -> None:
    """Measure start, memory, produce, fetch, heartbeats, commits, rebalances and Spark.

    Takes about a minute and a half. With --report the curves of OUT/performance.md instead, with their pictures in
    OUT/performance and their figures in OUT/results.
    """
    if report:
        if parts or against or as_json:
            raise click.UsageError("--report stands alone: it writes its figures to OUT/results/growth.json")
        if quick and out is None:
            raise click.UsageError("--report --quick needs --out FOLDER, so that it does not replace the whole report")

        write_report(out or Path("docs"), quick)
        return
    if quick or out is not None:
        raise click.UsageError("--quick and --out belong to --report")
    from coterie.runtime.extras import require
    from coterie_conformance.bench.measure import results_of, run_parts
    from coterie_conformance.servers.kafka import CannotRun

    sources = None if against is None else _sources(against, parts)
    on_spark = ON_SPARK & set(parts or BY_DEFAULT)
    if on_spark:
        require("spark", f"coterie-conformance bench --part {' --part '.join(sorted(on_spark))}")
    if "cluster" in parts:
        require("zookeeper", "coterie-conformance bench --part cluster")

    def write_result(row: Measurement) -> None:
        if not as_json:
            what = f"{row.peer}'s" if row.peer else "the aim of"
            ratio = "" if row.ratio is None else f"{row.ratio:6.2f} x {what} {row.aim:,.4g}"
            write_line(f"{row.name:42} {row.value:14,.2f} {row.unit:7} {ratio}")

    try:
        if sources is not None:
            rows = _compared(sources, write_result)
        else:
            rows = run_parts(list(parts) or list(BY_DEFAULT), write_result)
    except CannotRun as reason:
        write_line(f"SKIPPED the comparison: {reason}", color="red", bold=True, err=True)
        raise SystemExit(3) from reason
    if as_json:
        chosen = "".join(f"--part {part} " for part in parts)
        chosen += "" if against is None else f"--against {against} "
        write_json(results_of(rows, f"./run bench {chosen}--json"), indent=1)


def _sources(against: Path, parts: tuple[str, ...]) -> Path:
    """The modules of the checkout that our client is compared with."""
    from coterie_conformance.bench.client_cpu import sources_of

    if parts != ("clients",):
        raise click.UsageError("--against compares clients only; give --part clients with it, and no other part")
    try:
        return sources_of(against)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _compared(sources: Path, write_result: Callable[[Measurement], None]) -> list[Measurement]:
    from coterie_conformance.bench.client_cpu import client_cpu

    rows: list[Measurement] = []
    for row in client_cpu(sources):
        rows.append(row)
        write_result(row)
    return rows


def write_report(out: Path, quick: bool) -> None:
    """OUT/results/growth.json with every curve, and the page."""
    peers = []
    for peer, prepare in ((APACHE, partial(jars, KAFKA)), (KFAKE, kfake_program)):
        try:
            prepare()
            peers.append(peer)
        except CannotRun as reason:
            write_line(f"{peer} is left out: {reason}", color="red", bold=True, err=True)
    raise_open_file_limit()
    points, ends = [], []
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        limits = (QUICK_LARGEST, QUICK_S) if quick else (LARGEST, SECONDS)
        for result in growth(Path(folder), *limits, peers):
            if isinstance(result, CostPoint):
                points.append(asdict(result))
                costs = ", ".join(f"{name} {value:,.4g}" for name, value in result.costs.items())
                write_line(f"{result.broker:16} {result.size:9,} {result.axis:12} {costs}")
            else:
                ends.append(asdict(result))
                write_line(f"{result.broker:16} {result.size:9,} {result.axis:12} ends: {result.reason}")
    head = {
        "command": f"./run bench --report{' --quick' if quick else ''}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "load": [round(load, 1) for load in (began, os.getloadavg()[0])],
    }
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / GROWTH).write_text(json.dumps(head | {"points": points, "ends": ends}, indent=1) + "\n")
    write_line(f"the page is {write_growth_page(out)}")


def write_growth_page(out: Path) -> Path:
    """OUT/performance.md and its pictures, from OUT/results/growth.json."""
    results = json.loads((out / GROWTH).read_text())
    (out / "performance").mkdir(exist_ok=True)
    for name, picture in pictures([CostPoint(**point) for point in results["points"]]).items():
        (out / "performance" / f"{name}.svg").write_text(picture + "\n")
    page = out / "performance.md"
    page.write_text(markdown(results, "performance"))
    return page
