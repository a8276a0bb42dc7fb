"""`coterie broker`: runs until SIGTERM or SIGINT, then stops in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from coterie.broker.broker import Broker

EPILOG = """\b
Examples:
  coterie broker --listen 127.0.0.1:9092 --data ./kafka-data
  coterie broker --memory --set group.initial.rebalance.delay.ms=0
  coterie broker --memory --http 127.0.0.1:8080
  coterie broker --data d --properties server.properties --fsync
  coterie broker --memory --set zookeeper.connect=127.0.0.1:2181
"""


@click.command(epilog=EPILOG)
@click.option(
    "--listen", default="127.0.0.1:9092", show_default=True, metavar="HOST:PORT", help="Port 0: any free one."
)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder for logs and groups.")
@click.option("--memory", is_flag=True, help="Keep everything in memory instead.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, by Kafka's name.")
@click.option(
    "--properties", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Kafka's server.properties."
)
@click.option("--fsync", is_flag=True, help="Answer only what is on the disk (log.flush.interval.messages=1).")
@click.option(
    "--http", metavar="HOST:PORT", help="Groups as JSON and Prometheus metrics over HTTP; port 0: any free one."
)
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def broker(
    listen: str,
    data: Path | None,
    memory: bool,
    settings: tuple[str, ...],
    properties: Path | None,
    fsync: bool,
    http: str | None,
    verbose: bool,
) -> None:
    """Run a Kafka-compatible broker.

    Prints "listening on HOST:PORT" when it is ready. Stops in order on SIGTERM and SIGINT.
    """
    from coterie.broker.settings import BrokerSettings, SettingError, read_properties
    from coterie.extras import require

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    if memory == (data is not None):
        raise click.UsageError("Say where to keep the data: --data DIR, or --memory to keep none.")
    host, port = parse_address(listen)
    try:
        given = read_properties(properties.read_text()) if properties is not None else {}
        for item in settings:
            name, equals, value = item.partition("=")
            if not equals:
                raise SettingError(f"--set takes KEY=VALUE, not {item!r}")
            given[name.strip()] = value.strip()
        if fsync:
            given["log.flush.interval.messages"] = "1"
        checked = BrokerSettings(given)
    except SettingError as error:
        raise click.ClickException(str(error)) from error
    http_address = None if http is None else parse_address(http)
    if http is not None:
        require("http", "coterie broker --http")
    if checked["zookeeper.connect"]:
        require("zookeeper", "zookeeper.connect")
    sys.exit(asyncio.run(_serve(checked, data, (host, port), http_address)))


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise click.UsageError(f"{text!r} is not HOST:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(
    settings: object, data: Path | None, address: tuple[str, int], http_address: tuple[str, int] | None
) -> int:
    from coterie.broker.broker import Broker
    from coterie.broker.disk import DataFolderInUse, raise_open_file_limit
    from coterie.broker.settings import BrokerSettings
    from coterie.zookeeper_session import Unreachable

    assert isinstance(settings, BrokerSettings)
    raise_open_file_limit()
    host, port = address
    broker = Broker(settings, data)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        bound_host, bound_port = await broker.start(host, port)
    except DataFolderInUse as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    except OSError as error:
        click.echo(f"Error: cannot listen on {host}:{port}: {error.strerror}; choose another --listen", err=True)
        return 1
    except Unreachable as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    if http_address is not None and not await _serve_http(broker, http_address):
        await broker.stop()
        return 1
    click.echo(f"listening on {bound_host}:{bound_port}")
    sys.stdout.flush()
    failed = asyncio.create_task(broker.failed.wait())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await broker.stop()
    return 1 if broker.failure is not None else 0


async def _serve_http(broker: Broker, address: tuple[str, int]) -> bool:
    """Tells groups and metrics over HTTP too; False, with a sentence, where that cannot be."""
    from coterie.broker.http import HttpServer

    try:
        host, port = await broker.serve_http(HttpServer(broker), *address)
    except OSError as error:
        where = f"{address[0]}:{address[1]}"
        click.echo(f"Error: cannot listen on {where} for HTTP: {error.strerror}; choose another --http", err=True)
        return False
    click.echo(f"groups and metrics on http://{host}:{port}", err=True)
    return True
