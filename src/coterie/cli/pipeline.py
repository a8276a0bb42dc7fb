"""`coterie pipeline`: jobs on Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from coterie.cli.running import broker_option, busy, done, json_option


def spark_options(command: Any) -> Any:
    command = click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder.")(
        command
    )
    return click.option(
        "--master", default="local[*]", show_default=True, help="Any Spark master, such as spark://HOST:7077 or yarn."
    )(command)


@click.group(
    epilog="""\b
Examples:
  coterie pipeline table flights --group archive --out ./archive
  coterie pipeline delays flights --group delays --out ./delays --follow
  coterie pipeline history --out ./history
"""
)
def pipeline() -> None:
    """Turn topics into tables with Spark."""


def _session(master: str) -> Any:
    from coterie.pipeline.session import JavaMissing, make_session

    try:
        return make_session(master, short=True)
    except JavaMissing as error:
        raise click.ClickException(str(error)) from error


def _run(master: str, work: Callable[[Any], Any]) -> Any:
    """Runs a job; what a Python reader raised deep in Spark comes out as its own sentence."""
    with busy("starting Spark"):
        spark = _session(master)
    try:
        with busy("Spark is at work"):
            return work(spark)
    except Exception as error:
        for line in str(error).splitlines():
            for kind in ("KafkaError: ", "OptionError: ", "DataLossError: "):
                if kind in line:
                    raise click.ClickException(line.split(kind, 1)[1]) from error
        raise
    finally:
        spark.stop()


@pipeline.command()
@click.argument("topic")
@click.option("--group", "-g", required=True, help="The group that receives the commits.")
@spark_options
@broker_option
@json_option
def table(topic: str, group: str, master: str, out: Path, bootstrap_server: str, as_json: bool) -> None:
    """A topic's records as a Parquet table; a second run adds what is new."""
    from coterie.pipeline.jobs import run_table

    count = _run(master, lambda spark: run_table(spark, bootstrap_server, topic, group, out))
    done(f"{count} rows in {out / 'table'}", as_json, rows=count, table=str(out / "table"))


def _aggregate(
    name: str,
    topic: str,
    group: str,
    follow: bool,
    limit: int | None,
    master: str,
    out: Path,
    bootstrap_server: str,
    as_json: bool,
) -> None:
    from coterie.pipeline import jobs

    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: asked.append(n))

    def work(spark: Any) -> int:
        source = jobs.stream(spark, bootstrap_server, topic, group, limit=limit)
        aggregation = jobs.DELAYS if name == "delays" else jobs.KEYS
        stop = (lambda: bool(asked)) if follow else None
        return int(jobs.run_aggregation(spark, aggregation, source, out, stop).count())

    count = _run(master, work)
    done(f"{count} rows in {out / 'table'}", as_json, rows=count, table=str(out / "table"))


def aggregation_options(command: Any) -> Any:
    command = json_option(broker_option(spark_options(command)))
    limit = click.option("--max-offsets-per-trigger", "limit", type=click.IntRange(1), help="Records per micro-batch.")
    command = limit(command)
    command = click.option("--follow", is_flag=True, help="Go on until SIGTERM or Ctrl-C.")(command)
    command = click.option("--group", "-g", required=True, help="The group that receives the commits.")(command)
    return click.argument("topic")(command)


@pipeline.command()
@aggregation_options
def delays(**options: Any) -> None:
    """Flights and departure delays per carrier and hour."""
    _aggregate("delays", **options)


@pipeline.command()
@aggregation_options
def keys(**options: Any) -> None:
    """Records per key, of any topic."""
    _aggregate("keys", **options)


@pipeline.command()
@spark_options
@broker_option
@json_option
def history(master: str, out: Path, bootstrap_server: str, as_json: bool) -> None:
    """__consumer_offsets and the journal as tables: commits, generations, members, assignments, rebalances."""
    from coterie.pipeline.jobs import run_history

    counts = _run(master, lambda spark: run_history(spark, bootstrap_server, out))
    if as_json:
        click.echo(json.dumps(counts))
    else:
        for name, count in counts.items():
            click.echo(f"{count} rows in {out / name}")
