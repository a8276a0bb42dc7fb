"""`coterie observe`: why groups rebalance, on any Kafka, while it happens."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.completion import complete_groups
from coterie.cli.parts.invocation import broker_option, json_option, run_until_stopped
from coterie.cli.parts.ranges import NumberRange
from coterie.console.terminal import write_json, write_line

if TYPE_CHECKING:
    from coterie.coordinator.journal.line import JournalLine


@click.command(
    epilog="""\b
Examples:
  coterie observe -b kafka:9092
  coterie observe -b kafka:9092 --group crew --journal ./journal
  coterie observe -b kafka:9092 --server-log /var/log/kafka/server.log
  coterie groups history crew --journal ./journal
"""
)
@click.option(
    "--group", "-g", "names", multiple=True, shell_complete=complete_groups, help="Only this group; may be given again."
)
@click.option(
    "--journal",
    metavar="DIR|TOPIC",
    help="Write the lines into a file in this folder, or to this topic, for `groups history --journal`.",
)
@click.option(
    "--server-log",
    "server_logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Follow this log file of a broker, which states causes; may be given again.",
)
@click.option("--from-beginning", is_flag=True, help="Read __consumer_offsets and the log files from their start.")
@click.option(
    "--requests",
    "requests_per_s",
    type=NumberRange(0.1),
    default=5.0,
    show_default=True,
    help="Descriptions, at most, in a second over the whole cluster; each has up to 100 groups.",
)
@click.option("--for", "seconds", type=NumberRange(0.1), help="Stop after so many seconds.")
@broker_option
@json_option
def observe(
    names: tuple[str, ...],
    journal: str | None,
    server_logs: tuple[Path, ...],
    from_beginning: bool,
    requests_per_s: float,
    seconds: float | None,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Explain why groups rebalance, on any Kafka, until Ctrl-C or SIGTERM.

    Reads __consumer_offsets, describes the groups where something moves, and writes the lines of coterie's journal. A cause
    that no record, description or log line states is marked as inferred, with its rule, or as unknown.
    """
    from coterie.observer.journal_sinks import FolderJournal, JournalSink, TopicJournal, journal_folder
    from coterie.observer.observation import ClusterObservation

    async def go(stop: asyncio.Event) -> None:
        sink: JournalSink | None = None
        if journal is not None:
            folder = journal_folder(journal)
            sink = TopicJournal(journal, client) if folder is None else _opened(folder)

        def write(line: JournalLine) -> None:
            if sink is not None:
                sink.write(line)
            _show(line, as_json)

        settings: dict[str, Any] = {
            "groups": names,
            "server_logs": server_logs,
            "from_beginning": from_beginning,
            "requests_per_s": requests_per_s,
        }
        observation = ClusterObservation(client, write, lambda sentence: write_line(sentence, err=True), **settings)
        async with contextlib.nullcontext() if sink is None else sink:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await observation.run(stop)

    def _opened(folder: Path) -> FolderJournal:
        try:
            return FolderJournal(folder)
        except OSError as error:
            raise click.ClickException(f"{folder} cannot be written: {error.strerror}; name another folder") from None

    run_until_stopped(go)


def _show(line: JournalLine, as_json: bool) -> None:
    from coterie.cli.groups.journal_reading import event_of, time_text

    if as_json:
        write_json(event_of(line))
        return
    at = time_text(line.time_ms)
    generation = f" generation {line.generation}" if line.generation >= 0 else ""
    why = f": {line.why()}" if line.why() else ""
    write_line(f"{at} {line.group}{generation} {line.event}{why}")
