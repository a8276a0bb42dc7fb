"""`coterie observe`: why groups rebalance, on any Kafka, while it happens."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import FILE, broker_option, json_option, run_until_stopped
from coterie.cli.parts.listening import (
    PageAccess,
    address_of,
    bind_trouble,
    insecure_option,
    page_access_options,
    warn_of_exposure,
)
from coterie.cli.parts.option_values import NumberRange, complete_groups
from coterie.console.terminal import write_json, write_line
from coterie.runtime.extras import require
from coterie.text.addresses import format_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.coordinator.journal.line import JournalLine
    from coterie.observer.journal_sinks import JournalSink
    from coterie.observer.observation import ClusterObservation


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
    type=FILE,
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
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Prometheus metrics over HTTP; port 0: any free one. Beyond loopback with TLS and a token, or --insecure.",
)
@page_access_options("http-", "--http", "The token that each request of --http must bear, of 16 characters or more.")
@insecure_option
@click.option("--for", "seconds", type=NumberRange(0.1), help="Stop after so many seconds.")
@broker_option
@json_option
def observe(
    names: tuple[str, ...],
    journal: str | None,
    server_logs: tuple[Path, ...],
    from_beginning: bool,
    requests_per_s: float,
    http: str | None,
    access: PageAccess,
    insecure: bool,
    seconds: float | None,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Explain why groups rebalance, on any Kafka, until Ctrl-C or SIGTERM.

    Reads __consumer_offsets, describes the groups where something moves, and writes the lines of coterie's journal. A cause
    that no record, description or log line states is marked as inferred, with its rule, or as unknown.
    """
    from coterie.observer.observation import ClusterObservation

    address = None
    if http is None:
        access.refuse_without_pages()
    else:
        address = address_of(http, "--http")
        require("http", "coterie observe --http")

    async def go(stop: asyncio.Event) -> None:
        if address is not None and not insecure:
            await access.refuse_exposed("--http", address)
        takers: list[Callable[[JournalLine], None]] = [lambda line: _show(line, as_json)]
        observation = ClusterObservation(
            client,
            lambda line: _passed(line, takers),
            lambda sentence: write_line(sentence, err=True),
            groups=names,
            server_logs=server_logs,
            from_beginning=from_beginning,
            requests_per_s=requests_per_s,
        )
        async with contextlib.AsyncExitStack() as stack:
            if journal is not None:
                sink = await stack.enter_async_context(opened_journal(journal, client))
                takers.insert(0, sink.write)
            if address is not None:
                takers.append(await _served(stack, observation, client, address, access))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await observation.run(stop)

    run_until_stopped(go)


def _passed(line: JournalLine, takers: list[Callable[[JournalLine], None]]) -> None:
    for take in takers:
        take(line)


def opened_journal(journal: str, client: dict[str, str]) -> JournalSink:
    """The folder or topic that --journal names; a topic is of the cluster of those client settings."""
    from coterie.observer.journal_folders import journal_folder
    from coterie.observer.journal_sinks import FolderJournal, TopicJournal

    folder = journal_folder(journal)
    if folder is None:
        return TopicJournal(journal, client)
    try:
        return FolderJournal(folder)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be written: {error.strerror}; name another folder") from None


async def _served(
    stack: contextlib.AsyncExitStack,
    observation: ClusterObservation,
    client: dict[str, str],
    address: tuple[str, int],
    access: PageAccess,
) -> Callable[[JournalLine], None]:
    """Listens; returns what counts the lines."""
    from coterie.observer.lags import GroupLags
    from coterie.observer.metrics import MetricsServer, ObservedMetrics

    lags = GroupLags(client, observation.rate)
    metrics = ObservedMetrics(observation.machine, lags)
    server = await stack.enter_async_context(
        MetricsServer(metrics, lags, access.names, tls=access.tls, token=access.token)
    )
    observation.listeners.append(lags.see)
    try:
        host, port = await server.start(*address)
    except OSError as error:
        where = format_address(*address)
        raise click.ClickException(
            f"cannot listen on {where} for HTTP: {bind_trouble(error)}; choose another --http"
        ) from error
    if access.token is None:
        warn_of_exposure("--http", host, port, "can read every group")
    write_line(f"metrics on {access.scheme}://{format_address(host, port)}/metrics", err=True)
    return metrics.count


def _show(line: JournalLine, as_json: bool) -> None:
    from coterie.cli.groups.journal_reading import event_of, time_text

    if as_json:
        write_json(event_of(line))
        return
    at = time_text(line.time_ms)
    generation = f" generation {line.generation}" if line.generation >= 0 else ""
    why = f": {line.why()}" if line.why() else ""
    write_line(f"{at} {line.group}{generation} {line.event}{why}")
