"""`coterie proxy`: runs until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging

import click

from coterie.cli.broker import bind_trouble, warn_of_exposure
from coterie.cli.parts.invocation import client_options, run_until_stopped, settings_option
from coterie.console.terminal import VisibleFormatter, write_line
from coterie.text.addresses import format_address, parse_address

_LOG_LINE = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"


@click.command(
    epilog="""\b
Examples:
  coterie proxy --upstream kafka-1:9092 --listen 127.0.0.1:19092
  coterie proxy --upstream kafka-1:9093 --command-config tls.properties
  coterie proxy --upstream kafka-1:9093 --set security.protocol=SASL_SSL --set sasl.username=u --set sasl.password=p
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
@settings_option("--set", "settings", help_text="A setting towards the cluster, by the name that clients have for it")
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def proxy(client: dict[str, str], listen: str, settings: dict[str, str], verbose: bool) -> None:
    """Run a proxy before any Kafka.

    Prints "listening on HOST:PORT" when it is ready: the bootstrap server for clients. Every broker that the cluster names has
    a port here, and responses have its address; everything else passes byte for byte. Towards clients there is no TLS; with
    credentials in the settings the proxy logs in by them, else a client's own login passes.
    """
    if "bootstrap.servers" not in client | settings:
        raise click.UsageError("--upstream is missing: HOST:PORT of a broker of the cluster.")
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen takes HOST:PORT, such as 127.0.0.1:0, not {listen!r}.") from error
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(_LOG_LINE, "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    run_until_stopped(lambda stop: _serve(stop, client | settings, host or "127.0.0.1", port))


async def _serve(stop: asyncio.Event, settings: dict[str, str], host: str, port: int) -> None:
    from coterie.client.settings.settings import client_settings
    from coterie.proxy.proxy import Proxy

    read = client_settings(settings)
    one = Proxy(read.bootstrap(), read.security())
    try:
        bound_host, bound_port = await one.start(host, port)
    except OSError as error:
        where = format_address(host, port)
        raise click.ClickException(
            f"cannot listen on {where}: {bind_trouble(error)}; choose another --listen"
        ) from error
    warn_of_exposure("--listen", bound_host, bound_port, "has the cluster as if it were the proxy")
    write_line(f"listening on {format_address(bound_host, bound_port)}")
    await stop.wait()
    await one.stop()
