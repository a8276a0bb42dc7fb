"""`coterie pipeline`: jobs on Spark."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import (
    broker_option,
    done,
    history_option,
    journal_option,
    json_option,
    milliseconds,
    sentences,
    settings_option,
    show,
    was_given,
)
from coterie.cli.parts.option_values import IntegerRange
from coterie.cli.pipeline.history_pages import export, fleet, report, what_if
from coterie.cli.pipeline.spark import (
    INTERRUPTED,
    as_sentence,
    is_for_spark,
    reach,
    require_spark,
    run_on_spark,
    spark_above_option,
    spark_options,
)
from coterie.console.terminal import write_json, write_line
from coterie.runtime.extras import require
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_figures import GroupAsOf, MemberAsOf, OffsetAsOf
    from coterie.coordinator.replay import AnyGroup
    from coterie.pipeline.jobs import JobSource

SHORT_BYTES = 256 * 1024 * 1024  # an input up to which a JVM that starts fast is the better one

kafka_option = settings_option(
    "--kafka", help_text="A client setting by Kafka's name, such as security.protocol=SSL", form="NAME=VALUE"
)


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie pipeline table flights --group archive --out ./archive
  coterie pipeline delays flights --group delays --out ./delays --follow
  coterie pipeline table flights --group crew --member --follow --out ./mine
  coterie pipeline history --out ./history
  coterie pipeline history --server-log 'logs/*.gz' --out ./history
  coterie pipeline history --journal ./journal --out ./history
  coterie pipeline as-of crew --history ./history --time 2026-11-21T09:30
  coterie pipeline report crew --history ./history --out ./crew
  coterie pipeline fleet --history ./history
  coterie pipeline report --all --history ./history --out ./page
  coterie pipeline what-if --churn t.csv --set static=true,false --out ./out
""",
)
def pipeline() -> None:
    """Turn topics into tables with Spark."""


pipeline.add_command(what_if)
pipeline.add_command(report)
pipeline.add_command(fleet)
pipeline.add_command(export)


def _stream_job(
    name: str,
    topic: str,
    group: str,
    member: bool,
    follow: bool,
    limit: int | None,
    kafka: dict[str, str],
    master: str,
    out: Path,
    client: dict[str, str],
    as_json: bool,
) -> None:
    from coterie.pipeline import jobs

    require_spark()
    source = jobs.JobSource(client["bootstrap.servers"], topic, group, member, limit, client | kafka)
    _check(source, out)
    signals: list[int] = []
    report = (lambda line: write_line(line, err=True)) if follow else None
    control = jobs.Control(lambda: bool(signals), report, follow)
    count = run_on_spark(
        master,
        lambda spark: jobs.JOBS[name](spark, source, out, control),
        on_signal=lambda number, _: signals.append(number),
    )
    if signals and not follow:
        raise SystemExit(INTERRUPTED)
    done(f"{quantity(count, 'row')} in {out / 'table'}", as_json, rows=count, table=str(out / "table"))


def _check(source: JobSource, out: Path) -> None:
    """What can be known before Spark starts: options, the broker, the topic, the checkpoint."""
    from coterie.pipeline.jobs import checkpoint
    from coterie.pipeline.offsets import DataLossError
    from coterie.pipeline.options.types import OptionError
    from coterie.pipeline.queries import check_checkpoint
    from coterie.pipeline.reading.topics import TopicReader

    try:
        options = source.parsed()
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    try:
        check_checkpoint(checkpoint(out), options)
    except (OptionError, DataLossError) as error:
        raise click.ClickException(str(error)) from error
    reach({"bootstrap.servers": source.bootstrap_server, **source.client})
    reader = TopicReader(options)
    try:
        sentences(reader.check)
    finally:
        reader.close()


def stream_options(command: Any) -> Any:
    """What the commands that follow a topic share."""
    command = kafka_option(json_option(broker_option(spark_options(command))))
    limit = click.option("--max-offsets-per-trigger", "limit", type=IntegerRange(1), help="Records per micro-batch.")
    command = limit(command)
    command = click.option("--follow", is_flag=True, help="Run until SIGTERM or Ctrl-C, with a line per batch.")(
        command
    )
    command = click.option(
        "--member", is_flag=True, help="Join the group and share its partitions, instead of only committing to it."
    )(command)
    command = click.option("--group", "-g", required=True, help="The group that receives the commits.")(command)
    return click.argument("topic")(command)


@pipeline.command()
@stream_options
def table(**options: Any) -> None:
    """Write a topic's records into a Parquet table.

    A second run adds what is new."""
    _stream_job("table", **options)


@pipeline.command()
@stream_options
def delays(**options: Any) -> None:
    """Count flights and departure delays per carrier and hour."""
    _stream_job("delays", **options)


@pipeline.command()
@stream_options
def keys(**options: Any) -> None:
    """Count records per key, of any topic."""
    _stream_job("keys", **options)


def _check_folders(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    """Raises BadParameter for folders without records of __consumer_offsets."""
    if value:
        from coterie.pipeline.history.reading.record_sources import NothingToRead, offsets_folders

        try:
            offsets_folders(value)
        except NothingToRead as error:
            raise click.BadParameter(f"{error}.") from None
    return value


@pipeline.command()
@click.option(
    "--from-log",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    callback=_check_folders,
    help="A broker's data folder, or a folder __consumer_offsets-N, instead of a broker; may be given again.",
)
@click.option(
    "--server-log",
    "server_logs",
    multiple=True,
    metavar="GLOB",
    help="Log files of Apache Kafka brokers, plain or .gz, for causes and phases; alone, nothing else is read.",
)
@spark_above_option
@journal_option
@kafka_option
@spark_options
@broker_option
@json_option
def history(
    folders: tuple[Path, ...],
    server_logs: tuple[str, ...],
    journal: str | None,
    spark_above: int,
    kafka: dict[str, str],
    master: str,
    out: Path,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Make tables of what happened to groups.

    Commits, generations, members, assignments, ownership, rebalances, lag, cadence, stalls, flapping clients and the
    groups as they are; a second run into the same folder adds what is new. Of a folder of `coterie observe`, as --journal, the
    rebalances are made, with their evidence; alone it needs no broker. A small input is read by this process, which
    needs no Java; a larger one on Spark."""
    if was_given("master"):
        require_spark()
    require("history", "a history")
    from coterie.observer.journal_folders import journal_folder
    from coterie.pipeline.history.job import Sources, input_bytes, run_history

    files = _files(server_logs)
    _survey(files)
    is_alone = server_logs or (journal is not None and journal_folder(journal) is not None)
    reads_broker = not folders and (not is_alone or was_given("client") or was_given("command_config"))
    settings = client | kafka if reads_broker else None
    of_journal = client | kafka if journal is not None and journal_folder(journal) is None else None
    sources = Sources(settings, folders, files, journal, of_journal)
    for connection in (settings, of_journal):
        if connection is not None:
            reach(connection)
    size = as_sentence(lambda: input_bytes(sources, out))
    if is_for_spark(size, spark_above):
        counts = run_on_spark(master, lambda spark: run_history(spark, sources, out), short=size < SHORT_BYTES)
    else:
        counts = as_sentence(lambda: run_history(None, sources, out))
    if as_json:
        write_json(counts)
    else:
        for name, count in counts.items():
            if count:
                write_line(f"{quantity(count, 'row'):>17} in {out / name}")
        empty = [name for name, count in counts.items() if not count]
        if empty:
            write_line(f"{'no row':>17} in {', '.join(empty)}")
    _report_unreadable(out)


NAMED = 10


def _report_unreadable(out: Path) -> None:
    """Names what the tables lack of the log, and ends with 1 where there is any."""
    from coterie.pipeline.tables.files import rows_of

    rows = sorted(rows_of(out / "unreadable"), key=lambda row: (row["log_partition"], row["log_offset"]))
    for row in rows[:NAMED]:
        first, last = row["log_offset"], row["last_offset"]
        offsets = f"from {first} on" if last is None else f"{first} to {last}"
        where = f" ({row['path']}, byte {row['position']})" if row["path"] else ""
        text = f"__consumer_offsets-{row['log_partition']}{where}: offsets {offsets} cannot be read"
        write_line(f"{text}: {row['why']}", err=True)
    if rows:
        text = f"{quantity(len(rows), 'batch', 'batches')} skipped: commits and group states in them are missing in the tables"
        raise click.ClickException(f"{text}; {out / 'unreadable'} lists them all.")


def _survey(files: tuple[Path, ...]) -> None:
    """Says what each log file has. Raises UsageError where no line of them is understood."""
    from coterie.observer.logs.server_log import FILES_NAMED, NothingUnderstood, survey

    if not files:
        return
    try:
        surveys = survey(files)
    except NothingUnderstood as error:
        raise click.UsageError(f"--server-log: {error}.") from None
    except OSError as error:
        raise click.UsageError(f"--server-log: {error.filename} cannot be read: {error.strerror}.") from None
    for each in surveys[:FILES_NAMED]:
        write_line(str(each), err=True)
    if len(surveys) > FILES_NAMED:
        lines = sum(each.layouts.total() for each in surveys)
        understood = sum(each.understood for each in surveys)
        write_line(
            f"{quantity(len(surveys), 'file')}: {quantity(lines, 'line')}, {understood:,} of groups' rebalances",
            err=True,
        )


def _files(patterns: tuple[str, ...]) -> tuple[Path, ...]:
    files: list[Path] = []
    for pattern in patterns:
        matches = sorted(Path(name) for name in glob.glob(pattern, recursive=True))
        if not matches:
            raise click.UsageError(f"--server-log {pattern}: there is no such file.")
        files += matches
    return tuple(files)


@pipeline.command("as-of")
@click.argument("group")
@history_option(required=True)
@click.option(
    "--time", "time_text", metavar="ISO", help="A time, such as 2026-11-21T09:30; without a zone it is local."
)
@click.option("--offset", type=IntegerRange(0), help="An offset of the group's partition of __consumer_offsets.")
@json_option
def as_of(group: str, history: Path, time_text: str | None, offset: int | None, as_json: bool) -> None:
    """Show a group as it was: state, members, offsets."""
    from coterie.pipeline.history.state import Moment, group_from_tables

    moment = Moment(None if time_text is None else milliseconds(time_text, "--time"), offset)
    state = group_from_tables(history, group, moment)
    if state is None:
        raise click.ClickException(f"the history in {history} has no group {group} at that time.")
    _show_group(state, history, as_json)


def _show_group(group: AnyGroup, out: Path, as_json: bool) -> None:
    from coterie.pipeline.history.state import members_as_of

    described = members_as_of(out, group)
    members: list[MemberAsOf] = [
        {
            "member_id": m.member_id,
            "client_id": m.client_id,
            "group_instance_id": m.group_instance_id,
            "partitions": [f"{topic}-{partition}" for topic, partition in m.partitions],
        }
        for m in described
    ]
    protocol: str | None = getattr(group, "protocol", None)  # a consumer group's records do not have it
    offsets: list[OffsetAsOf] = [
        {"topic": t, "partition": p, "offset": o.offset} for (t, p), o in sorted(group.offsets.items())
    ]
    if as_json:
        document: GroupAsOf = {
            "group": group.group_id,
            "state": group.phase.value,
            "generation": group.generation,
            "protocol": protocol,
            "members": members,
            "offsets": offsets,
        }
        write_json(document, indent=2)
        return
    write_line(f"{group.group_id}: {group.phase.value}, generation {group.generation}, assignor {protocol or '-'}")
    rows = [(m["member_id"], m["client_id"], " ".join(m["partitions"])) for m in members]
    show(members, False, ["MEMBER", "CLIENT", "PARTITIONS"], rows, "no members")
    show(offsets, False, ["TOPIC", "PARTITION", "OFFSET"], [tuple(o.values()) for o in offsets], "no offsets")
