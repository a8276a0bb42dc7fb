"""`coterie proxy`: runs until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import click

from coterie.cli.observe import opened_journal
from coterie.cli.parts.invocation import client_options, run_until_stopped, settings_option
from coterie.cli.parts.listening import (
    address_of,
    bind_trouble,
    insecure_option,
    resolves_to_loopback,
    warn_of_exposure,
)
from coterie.console.terminal import VisibleFormatter, write_line
from coterie.text.addresses import format_address

_LOG_LINE = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"


@click.command(
    epilog="""\b
Examples:
  coterie proxy --upstream kafka-1:9092 --listen 127.0.0.1:19092
  coterie proxy --upstream kafka-1:9093 --command-config tls.properties
  coterie proxy --upstream kafka-1:9092 --journal ./journal
  coterie groups history crew --journal ./journal
  coterie proxy --upstream kafka-1:9093 --set security.protocol=SSL
"""
)
@client_options("A broker of the cluster, or several with commas.", names=("--upstream",))
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="The address that clients begin with; port 0: any free one. The other brokers have free ports beside it.",
)
@insecure_option
@click.option(
    "--journal",
    metavar="DIR|TOPIC",
    help="Write why the groups of the clients rebalance: into a file in this folder, or to this topic of the cluster, for "
    "`groups history --journal` and `groups why --journal`.",
)
@settings_option("--set", "settings", help_text="A setting towards the cluster, by the name that clients have for it")
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def proxy(
    client: dict[str, str],
    listen: str,
    insecure: bool,
    journal: str | None,
    settings: dict[str, str],
    verbose: bool,
) -> None:
    """Run a proxy before any Kafka.

    Prints "listening on HOST:PORT" when it is ready: the bootstrap server for clients. Every broker that the cluster names has
    a port here, and responses have its address; everything else passes byte for byte. Towards clients there is no TLS; with
    credentials in the settings the proxy logs in by them, else a client's own login passes. It looks at the requests of groups:
    `groups why --bootstrap-server` of its address explains a group by what has passed.
    """
    if "bootstrap.servers" not in client | settings:
        raise click.UsageError("--upstream is missing: HOST:PORT of a broker of the cluster.")
    address = address_of(listen, "--listen")
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(_LOG_LINE, "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])

    async def go(stop: asyncio.Event) -> None:
        if not (insecure or await resolves_to_loopback(*address)):
            raise click.UsageError(
                f"--listen {format_address(*address)} is beyond loopback, and the proxy has no TLS towards clients: listen on "
                "127.0.0.1 of the clients' machine, or give --insecure to let everybody in."
            )
        await _serve(stop, client | settings, *address, journal)

    run_until_stopped(go)


async def _serve(stop: asyncio.Event, settings: dict[str, str], host: str, port: int, journal: str | None) -> None:
    from coterie.client.settings.settings import client_settings
    from coterie.proxy.observation import PassageObservation
    from coterie.proxy.proxy import Proxy

    read = client_settings(settings)
    sink = None if journal is None else opened_journal(journal, settings)
    observation = PassageObservation(None if sink is None else sink.write)
    one = Proxy(read.bootstrap(), read.security(), watcher=observation)
    try:
        bound_host, bound_port = await one.start(host, port)
    except OSError as error:
        where = format_address(host, port)
        raise click.ClickException(
            f"cannot listen on {where}: {bind_trouble(error)}; choose another --listen"
        ) from error
    warn_of_exposure("--listen", bound_host, bound_port, "has the cluster as if it were the proxy")
    async with contextlib.nullcontext() if sink is None else sink:
        write_line(f"listening on {format_address(bound_host, bound_port)}")
        advancing = asyncio.create_task(observation.run())
        await stop.wait()
        advancing.cancel()
        await one.stop()
