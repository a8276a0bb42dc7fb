"""`coterie broker`: runs until SIGTERM or SIGINT, then stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.broker_pages import HttpPages, http_pages, serve_http
from coterie.cli.parts.invocation import FILE, run_until_stopped, settings_option
from coterie.cli.parts.listening import (
    DEFAULT_LISTEN,
    PageAccess,
    address_of,
    bind_trouble,
    insecure_option,
    page_access_options,
    resolves_to_loopback,
)
from coterie.cli.parts.option_values import IntegerRange
from coterie.console.terminal import VisibleFormatter, write_line
from coterie.runtime.interruption import INTERRUPTED
from coterie.text.addresses import format_address
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.broker.broker import Broker
    from coterie.broker.settings import BrokerSettings
    from coterie.broker.settings.listeners import Listener

_LOG_LINE = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
START_ENDS_AFTER_S = 1.0
# What test modules (testcontainers) wait for in the output of Kafka's images, with the broker's id.
READY_LINES = (
    "[BrokerLifecycleManager id={}] Transitioning from RECOVERY to RUNNING.",
    "[KafkaServer id={}] started",
    "[KafkaRaftServer nodeId={}] Kafka Server started",
)
EPILOG = """\b
Examples:
  coterie broker --listen 127.0.0.1:9092 --data ./kafka-data
  coterie broker --memory --set group.initial.rebalance.delay.ms=0
  coterie broker --memory --http 127.0.0.1:8080
  coterie broker --memory --control 127.0.0.1:0
  coterie broker --properties server.properties
  coterie broker --data d --properties server.properties --fsync
  coterie broker --memory --set zookeeper.connect=127.0.0.1:2181
  coterie broker --data d --set broker.id=1 --set zookeeper.connect=zoo:2181
"""


@click.command(epilog=EPILOG)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"The address to listen on; port 0: any free one.  [default: listeners of the settings, or {DEFAULT_LISTEN}]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for logs and groups.  [default: log.dirs of the settings]",
)
@click.option("--memory", is_flag=True, help="Keep everything in memory instead.")
@settings_option("--set", "settings", help_text="A setting, by Kafka's name")
@click.option("--properties", type=FILE, help="Kafka's server.properties.")
@click.option(
    "--environment",
    is_flag=True,
    help="Take settings from KAFKA_* variables, as Kafka's container images do, and print their lines of a start.",
)
@click.option("--fsync", is_flag=True, help="Acknowledge only what is fsynced (log.flush.interval.messages=1).")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="The console, groups as JSON and Prometheus metrics over HTTP; port 0: any free one.",
)
@page_access_options(
    "http-",
    "--http",
    "The token that each request of --http must bear, of 16 characters or more; without the console then.",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="With --http: the console offers to reset offsets, delete groups and write records.",
)
@insecure_option
@click.option(
    "--control",
    metavar="HOST:PORT",
    help="Let tests in any language control a broker in memory over HTTP, with LocalBroker's settings; port 0: any free one.",
)
@click.option(
    "--control-token-file",
    type=FILE,
    help="The token that each request of --control must bear; also COTERIE_CONTROL_TOKEN.",
)
@click.option("--brokers", type=IntegerRange(1, 32), help="With --control: a cluster of so many, on free ports.")
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def broker(
    listen: str | None,
    data: Path | None,
    memory: bool,
    settings: dict[str, str],
    properties: Path | None,
    environment: bool,
    fsync: bool,
    http: str | None,
    access: PageAccess,
    allow_changes: bool,
    insecure: bool,
    control: str | None,
    control_token_file: Path | None,
    brokers: int | None,
    verbose: bool,
) -> None:
    """Run a Kafka-compatible broker.

    Prints "listening on HOST:PORT" when it is ready. SIGTERM and SIGINT stop it in order, with exit code 0. With
    zookeeper.connect and broker.id it is one of the brokers of that cluster.
    """
    from coterie.runtime.allocator import keep_freed_memory

    keep_freed_memory()
    from coterie.broker.settings import SettingError
    from coterie.runtime.extras import require

    _log(logging.INFO if verbose else logging.WARNING)
    try:
        checked = _settings(properties, os.environ if environment else {}, settings, fsync)
        folder = _data_folder(checked, data, memory)
        listeners = _listeners(checked, listen)
    except SettingError as error:
        raise click.UsageError(str(error)) from error
    controlled = None
    if control is not None:
        from coterie.cli import control as control_api

        if folder is not None or http is not None:
            raise click.UsageError("--control is for a broker with --memory, and without --http.")
        controlled = control_api.checked(control, control_token_file, brokers or 1, checked.given, listen)
    elif control_token_file or brokers:
        raise click.UsageError("--control-token-file and --brokers go with --control.")
    pages = http_pages(http, access, allow_changes)
    if checked.current.zookeeper_connect:
        require("zookeeper", "zookeeper.connect")

    async def serve(stop: asyncio.Event) -> int:
        if not insecure:
            await _refuse_exposed(checked, listeners)
            if pages is not None:
                await access.refuse_exposed("--http", pages.address)
        if controlled is not None:
            await controlled.refuse_exposed(insecure)
            return await controlled.serve(stop)
        return await _serve(stop, checked, folder, listeners, pages, environment)

    sys.exit(run_until_stopped(serve, patient=True))


def _log(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(_LOG_LINE, "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler])


def _properties_text(path: Path) -> str:
    """Raises SettingError for a file that is no text."""
    from coterie.configuration import SettingError
    from coterie.text.files import NotText, decode_properties

    try:
        return decode_properties(path.read_bytes())
    except NotText as error:
        raise SettingError(f"{path}: {error}") from None


def _settings(
    properties: Path | None, environment: Mapping[str, str], settings: Mapping[str, str], fsync: bool
) -> BrokerSettings:
    """The settings of the command line over those of the environment, over those of the file; a warning names the settings
    without effect. Raises SettingError."""
    from coterie.broker.settings import BrokerSettings, environment_properties, read_properties, server_properties

    given: dict[str, str] = {}
    # Java reads properties as Latin-1; other characters stand in them as \uXXXX.
    of_file = read_properties(_properties_text(properties)) if properties is not None else {}
    for source, named in ((properties, of_file), ("environment", environment_properties(environment))):
        sorted_out = server_properties(named)
        given |= sorted_out.given
        if sorted_out.warning():
            write_line(f"{source}: settings {sorted_out.warning()}", err=True)
    given |= {name: value.strip() for name, value in settings.items()}
    if fsync:
        given["log.flush.interval.messages"] = "1"
    checked = BrokerSettings(given)
    checked.coordinator()  # settings that conflict
    return checked


def _data_folder(settings: BrokerSettings, data: Path | None, memory: bool) -> Path | None:
    """--data, or the first of log.dirs; None with --memory."""
    folders_of = {"log.dirs": settings.current.log_dirs, "log.dir": settings.current.log_dir}
    named = [text for name, text in folders_of.items() if name in settings.given and text]
    if memory and data is not None:
        raise click.UsageError("Give either --data or --memory: the broker keeps data in a folder or keeps none.")
    if not (memory or data or named):
        raise click.UsageError("The broker needs a data folder: --data DIR, or --memory to keep no data.")
    if memory or data is not None:
        return data
    folders = [folder.strip() for folder in named[0].split(",")]
    if len(folders) > 1:
        write_line(
            f"log.dirs names {quantity(len(folders), 'folder')}; coterie keeps everything in {folders[0]}", err=True
        )
    return Path(folders[0])


def _listeners(settings: BrokerSettings, listen: str | None) -> list[Listener]:
    """--listen, or else listeners of the settings, or else a loopback address. Raises SettingError."""
    from coterie.broker.settings.listeners import advertised_addresses, client_listeners, listener_at

    if listen is None and "listeners" in settings.given:
        chosen = client_listeners(settings)
    else:
        chosen = [listener_at(settings, *address_of(listen or DEFAULT_LISTEN, "--listen"))]
    advertised_addresses(settings, chosen)
    return chosen


async def _refuse_exposed(settings: BrokerSettings, listeners: list[Listener]) -> None:
    """Raises UsageError for a listener beyond loopback that lets everybody in."""
    for one in listeners:
        certain = one.has_sasl or (one.has_tls and settings.security(one.name).ssl_client_auth == "required")
        host, port = one.address
        if certain or await resolves_to_loopback(host, port):
            continue
        prefix = f"listener.name.{one.name.lower()}."
        remedy = (
            f"set {prefix}ssl.client.auth=required with {prefix}ssl.truststore.location"
            if one.has_tls
            else f"set listeners=SASL_SSL://{format_address(host, port)} with sasl.enabled.mechanisms and ssl.keystore.location"
        )
        raise click.UsageError(
            f"{format_address(host, port)} is beyond loopback, and the listener {one.name} has no authentication: {remedy}, "
            "or give --insecure to let everybody in."
        )


async def _serve(
    stop: asyncio.Event,
    settings: BrokerSettings,
    data: Path | None,
    listeners: list[Listener],
    pages: HttpPages | None,
    as_kafka: bool,
) -> int:
    from coterie.broker.broker import Broker
    from coterie.broker.settings import SettingError
    from coterie.broker.storage.disk import raise_open_file_limit
    from coterie.runtime.allocator import freed_memory

    raise_open_file_limit()
    try:
        broker = Broker(settings, data)
    except SettingError as error:
        raise click.UsageError(str(error)) from error
    broker.freed_memory = freed_memory()
    starting = asyncio.create_task(broker.start_at(listeners))
    stopped = asyncio.create_task(stop.wait())
    awaited = {starting, stopped} if settings.joins_cluster else {starting}  # a registration may take its time
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        return INTERRUPTED
    try:
        bound_host, bound_port = starting.result()
    except Exception as error:
        sentence = _start_trouble(error, settings, data)
        if sentence is None:
            raise
        write_line(f"Error: {sentence}", err=True)
        return 1
    if pages is not None and not await serve_http(broker, pages):
        await broker.stop()
        return 1
    write_line(f"listening on {format_address(bound_host, bound_port)}")
    for other in broker.listeners[1:]:
        write_line(f"listening on {other.text}", err=True)
    for line in READY_LINES if as_kafka else ():
        write_line(line.format(broker.node_id))
    failed = asyncio.create_task(broker.failed.wait())
    ending = asyncio.create_task(_end_start(broker))
    await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    await broker.stop()
    return 1 if broker.failure is not None else 0


async def _end_start(broker: Broker) -> None:
    """A second after the broker listens, what the first requests need not wait for: the handlers are imported, a module each
    turn of the loop, so that requests pass between them. Once the groups are loaded, cycles are collected again."""
    from coterie.broker.handlers import import_all
    from coterie.runtime.allocator import collect_seldom

    await asyncio.sleep(START_ENDS_AFTER_S)
    try:
        with contextlib.suppress(OSError):  # no descriptor is left: the first request that needs it tries again
            for _ in import_all():
                await asyncio.sleep(0)
    finally:
        broker.groups.when_loaded(collect_seldom)


def _start_trouble(error: Exception, settings: BrokerSettings, data: Path | None) -> str | None:
    """The sentence for a start that failed; None for a bug."""
    from coterie.broker.broker import CannotListen
    from coterie.broker.settings import SettingError
    from coterie.broker.storage.disk import DataFolderInUse, folder_trouble
    from coterie.broker.storage.identity import FolderOfAnother
    from coterie.log.checked_files import UnreadableFile

    reported: tuple[type[Exception], ...] = (DataFolderInUse, FolderOfAnother, SettingError)
    if settings.current.zookeeper_connect:
        from coterie.runtime.zookeeper_session import Unreachable

        reported += (Unreachable,)
    if isinstance(error, reported):
        return str(error)
    if isinstance(error, UnreadableFile):
        return f"{data}/{error}"
    if isinstance(error, CannotListen):
        return f"cannot listen on {format_address(*error.address)}: {bind_trouble(error)}; choose another --listen"
    if isinstance(error, OSError) and data is not None:
        return folder_trouble(data, error)
    return None
