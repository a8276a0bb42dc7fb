"""`coterie console`: the groups of any Kafka in a browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.parts.invocation import broker_option, journal_option, run_until_stopped
from coterie.cli.parts.listening import PageAccess, address_of, bind_trouble, page_access_options
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
  coterie console --listen 127.0.0.1:8443 --tls-certificate c --tls-key k
"""
)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the pages; port 0: any free one. Beyond loopback with TLS and a token alone.",
)
@page_access_options("", "the pages", "The token that readers sign in with, of 16 characters or more.")
@click.option(
    "--schema-registry", metavar="URL", help="A schema registry, whose schemas read Avro and Protobuf records."
)
@click.option("--allow-changes", is_flag=True, help="Offer to reset offsets, delete groups and write records.")
@journal_option
@broker_option
def console(
    listen: str,
    access: PageAccess,
    schema_registry: str | None,
    allow_changes: bool,
    journal: str | None,
    client: dict[str, str],
) -> None:
    """Show the groups in a browser, live, until Ctrl-C or SIGTERM.

    Works on any Kafka: who owns which partition, why it changed hands, and what a group waits for. Nothing can be changed
    without --allow-changes.
    """
    require("http", "coterie console")
    if schema_registry is not None:
        require("schemas", "--schema-registry")
    address = address_of(listen, "--listen")
    settings = ConsoleSettings(access, schema_registry, allow_changes)

    async def go(stop: asyncio.Event) -> None:
        await access.refuse_exposed("--listen", address, "listen on 127.0.0.1")
        await _serve(stop, address, await _earlier(journal, client), client, settings)

    run_until_stopped(go)


class ConsoleSettings(NamedTuple):
    """What the options say of the pages."""

    access: PageAccess
    schema_registry: str | None
    allow_changes: bool


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
    settings: ConsoleSettings,
) -> None:
    from coterie.client import Admin
    from coterie.web.feeds.observed_feed import ObservedFeed
    from coterie.web.records.schema_registry import SchemaRegistry
    from coterie.web.server import ConsoleServer

    async with Admin(client) as admin:
        await admin.describe_cluster()  # before it listens: without a broker there is nothing to show
    feed = ObservedFeed(client, lambda sentence: write_line(sentence, err=True), earlier)
    registry = None if settings.schema_registry is None else SchemaRegistry(settings.schema_registry)
    server = ConsoleServer(
        feed,
        settings.access.names,
        token=settings.access.token,
        tls=settings.access.tls,
        registry=registry,
        allow_changes=settings.allow_changes,
    )
    async with server:
        try:
            host, port = await server.start(*address)
        except OSError as error:
            where = format_address(*address)
            raise click.ClickException(
                f"cannot listen on {where}: {bind_trouble(error)}; choose another --listen"
            ) from error
        write_line(f"console on {settings.access.scheme}://{format_address(host, port)}/console")
        await feed.run(stop)
