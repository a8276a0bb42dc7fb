"""`coterie console`: the groups of any Kafka in a browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import broker_option, journal_option, run_until_stopped
from coterie.cli.parts.listening import address_of, bind_trouble, resolves_to_loopback
from coterie.console.terminal import write_line
from coterie.runtime.extras import require
from coterie.text.addresses import format_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.coordinator.journal.line import JournalLine

DEFAULT_LISTEN = "127.0.0.1:8080"


@click.command(
    epilog="""\b
Examples:
  coterie console
  coterie console -b kafka:9092 --listen 127.0.0.1:8081
"""
)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the pages, of loopback; port 0: any free one.",
)
@click.option(
    "--schema-registry", metavar="URL", help="A schema registry, whose schemas read Avro and Protobuf records."
)
@journal_option
@broker_option
def console(listen: str, schema_registry: str | None, journal: str | None, client: dict[str, str]) -> None:
    """Show the groups in a browser, live, until Ctrl-C or SIGTERM.

    Works on any Kafka: who owns which partition, why it changed hands, and what a group waits for.
    """
    require("http", "coterie console")
    if schema_registry is not None:
        require("schemas", "--schema-registry")
    address = address_of(listen, "--listen")

    async def go(stop: asyncio.Event) -> None:
        await _refuse_exposure(*address)
        await _serve(stop, address, await _earlier(journal, client), client, schema_registry)

    run_until_stopped(go)


async def _refuse_exposure(host: str, port: int) -> None:
    """Raises ClickException for an address that others than this machine reach."""
    if not await resolves_to_loopback(host, port):
        where = format_address(host, port)
        raise click.ClickException(
            f"{where} is beyond loopback, and the pages have no TLS; listen on 127.0.0.1 instead"
        )


async def _earlier(journal: str | None, client: dict[str, str]) -> Sequence[JournalLine]:
    """The lines of --journal."""
    if journal is None:
        return ()
    from coterie.cli.groups.journal_reading import journal_lines

    lines, unread = await journal_lines(None, client, journal)
    for sentence in unread:
        write_line(sentence, err=True)
    return lines


async def _serve(
    stop: asyncio.Event,
    address: tuple[str, int],
    earlier: Sequence[JournalLine],
    client: dict[str, str],
    schema_registry: str | None,
) -> None:
    from coterie.web.observed_feed import ObservedFeed
    from coterie.web.schema_registry import SchemaRegistry
    from coterie.web.server import ConsoleServer

    feed = ObservedFeed(client, lambda sentence: write_line(sentence, err=True), earlier)
    registry = None if schema_registry is None else SchemaRegistry(schema_registry)
    async with ConsoleServer(feed, registry=registry) as server:
        try:
            host, port = await server.start(*address)
        except OSError as error:
            where = format_address(*address)
            raise click.ClickException(
                f"cannot listen on {where}: {bind_trouble(error)}; choose another --listen"
            ) from error
        write_line(f"console on http://{format_address(host, port)}/console")
        await feed.run(stop)
