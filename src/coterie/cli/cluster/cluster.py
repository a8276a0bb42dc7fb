"""`coterie cluster`: brokers that replicate, each in a process of its own, on a ZooKeeper of this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.cluster.cluster_description import describe_cluster, until_known
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, json_option, run, run_until_stopped, settings_option, show
from coterie.cli.parts.option_values import IntegerRange
from coterie.console.terminal import write_line
from coterie.runtime.interruption import INTERRUPTED
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.cluster.cluster_processes import ClusterState, LocalCluster
    from coterie.cli.parts.json_figures import ClusterFigures

DEFAULT_BROKERS, MOST_BROKERS, DEFAULT_PORT = 3, 64, 9092
REPLICAS = 3
WATCHED_EVERY_S = 0.5
CANNOT_RUN = 3

_data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The cluster's folder: its logs, its ZooKeeper's data, its ports.",
)


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie cluster start --brokers 3 --data ./cluster
  coterie cluster start --data ./cluster --detach
  coterie cluster start --data ./safe --secure
  coterie cluster describe --data ./cluster
  coterie cluster stop --data ./cluster
""",
)
def cluster() -> None:
    """Start, describe and stop a cluster of brokers."""


@cluster.command()
@_data_option
@click.option(
    "--brokers",
    type=IntegerRange(1, MOST_BROKERS),
    help=f"The number of brokers; their ids are 1, 2, ...  [default: those of the folder, or {DEFAULT_BROKERS}]",
)
@click.option(
    "--port",
    type=IntegerRange(0, 65_535),
    help=f"The port of the first new broker; the next ones follow. 0: any free ports.  [default: {DEFAULT_PORT}]",
)
@click.option(
    "--zookeeper-port", type=IntegerRange(0, 65_535), default=0, help="ZooKeeper's port.  [default: any free one]"
)
@settings_option("--set", "settings", help_text="A setting of each broker, by Kafka's name")
@click.option(
    "--secure",
    is_flag=True,
    help="Certificates, users, TLS with SASL everywhere, ACLs, and a ZooKeeper that only the brokers change.",
)
@click.option("--detach", is_flag=True, help="Return once the cluster is up; it runs until `coterie cluster stop`.")
def start(
    data: Path,
    brokers: int | None,
    port: int | None,
    zookeeper_port: int,
    settings: dict[str, str],
    secure: bool,
    detach: bool,
) -> None:
    """Start ZooKeeper and brokers on loopback, and wait for them.

    Prints the addresses when every broker has joined. Ctrl-C stops the brokers in order, and then ZooKeeper. A later start
    with the same folder goes on with its data, ports and settings; brokers that still run are left alone. ZooKeeper comes
    with the extra `spark` and needs Java. With --secure it prints a file for --command-config, too, and needs the extra
    `testing`.
    """
    from coterie.cli.cluster.cluster_processes import ClusterTrouble, LocalCluster
    from coterie.pipeline.session import JavaMissing
    from coterie.runtime.extras import require

    require("zookeeper", "coterie cluster start")
    require("spark", "coterie cluster start")
    try:
        local = LocalCluster(data, _state(data, brokers, port, zookeeper_port, _settings(settings), secure=secure))
        if len(local.running()) == len(local.state.brokers) and local.zookeeper_pid() is not None:
            raise ClusterTrouble(
                f"the cluster in {data} runs already, at {local.bootstrap_servers}; "
                f"`coterie cluster stop --data {data}` stops it"
            )
        code = run_until_stopped(lambda stop: _serve(stop, local, data, detach=detach), patient=True)
    except JavaMissing as error:
        write_line(f"Error: {error}", err=True)
        code = CANNOT_RUN
    except ClusterTrouble as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """--set, checked. Raises UsageError."""
    from coterie.broker.settings import BrokerSettings, SettingError

    settings = {name: value.strip() for name, value in given.items()}
    own = {"broker.id", "node.id", "zookeeper.connect", "listeners", "log.dirs", "log.dir"} & settings.keys()
    if own:
        raise click.UsageError(f"--set {min(own)}: `coterie cluster start` gives each broker its own.")
    try:
        BrokerSettings(settings).coordinator()
    except SettingError as error:
        raise click.UsageError(f"--set: {error}") from error
    return settings


def _state(
    data: Path,
    brokers: int | None,
    port: int | None,
    zookeeper_port: int,
    settings: Mapping[str, str],
    *,
    secure: bool,
) -> ClusterState:
    """The folder's, with what is given over it. Raises ClusterTrouble."""
    from coterie.cli.cluster.cluster_processes import ClusterState, ClusterTrouble, free_ports, read_state

    kept = read_state(data)
    count = brokers or (len(kept.brokers) if kept is not None else DEFAULT_BROKERS)
    before = {} if kept is None else kept.brokers
    if count < len(before):
        raise ClusterTrouble(
            f"the cluster in {data} has {quantity(len(before), 'broker')}; a broker leaves it only by moving its partitions: "
            "see coterie topics reassign"
        )
    if kept is not None and zookeeper_port not in (0, kept.zookeeper_port):
        raise ClusterTrouble(
            f"ZooKeeper of the cluster in {data} has port {kept.zookeeper_port}; leave --zookeeper-port out"
        )
    if kept is not None and secure and not kept.is_secure:
        raise ClusterTrouble(
            f"the cluster in {data} was begun without --secure; choose another --data for a secure one"
        )
    first = DEFAULT_PORT if port is None else port
    new = range(len(before) + 1, count + 1)
    begin = first and max([first, *(taken + 1 for taken in before.values())])
    wanted = [begin and begin + index for index in range(len(new))]
    ports = free_ports([*wanted, *([] if kept else [zookeeper_port])])
    state = kept or ClusterState(ports.pop(), {}, _defaults(count), is_secure=secure)
    state.brokers |= dict(zip(new, ports, strict=True))
    state.settings |= settings
    return state


def _defaults(brokers: int) -> dict[str, str]:
    """What several brokers are for."""
    replicas = str(min(brokers, REPLICAS))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        # The last broker of a cluster that stops has no other broker to lead in its stead.
        "controlled.shutdown.retry.backoff.ms": "500",
    }


async def _serve(stop: asyncio.Event, local: LocalCluster, data: Path, *, detach: bool) -> int:
    from coterie.cli.cluster.cluster_processes import ClusterTrouble

    was_running = bool(local.running())
    try:
        await local.start(stop)
    except ClusterTrouble:
        if not was_running:
            await local.stop()
        raise
    await until_known(local, stop)
    if stop.is_set():
        await _stop(local)
        return INTERRUPTED
    write_line(f"bootstrap.servers={local.bootstrap_servers}")
    if local.secrets is not None:
        write_line(f"command-config={local.secrets.client_properties}")
    if detach:
        return 0
    write_line(f"{quantity(len(local.state.brokers), 'broker')} in {data}; Ctrl-C stops the cluster", err=True)
    while not stop.is_set() and local.running():
        for broker, code in local.ended():
            reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            write_line(f"broker {broker} has ended ({reason}); the others go on", err=True)
        try:
            async with asyncio.timeout(WATCHED_EVERY_S):
                await stop.wait()
        except TimeoutError:
            continue
    await _stop(local)
    return 0


async def _stop(local: LocalCluster) -> None:
    from coterie.cli.cluster.cluster_processes import ClusterTrouble
    from coterie.client import Admin, KafkaError

    controller = None
    if running := local.running():
        try:
            settings = {**local.client_settings(*running), "request.timeout.ms": "2000"}
            async with Admin(settings) as admin:
                node = (await admin.describe_cluster()).controller
                controller = None if node is None else node.id
        except (KafkaError, ClusterTrouble):
            pass  # then the order does not matter
    for complaint in await local.stop(controller):
        write_line(complaint, err=True)


@cluster.command()
@_data_option
def stop(data: Path) -> None:
    """Stop the brokers of a folder in order, and then its ZooKeeper."""
    local = _local(data)
    if not local.running() and local.zookeeper_pid() is None:
        raise click.ClickException(f"nothing of the cluster in {data} is running")
    run(_stop(local), patient=True)
    write_line(f"stopped the cluster in {data}")


def _local(data: Path) -> LocalCluster:
    """The cluster that was started in a folder. Raises ClickException."""
    from coterie.cli.cluster.cluster_processes import ClusterTrouble, LocalCluster, read_state

    try:
        state = read_state(data)
    except ClusterTrouble as error:
        raise click.ClickException(str(error)) from error
    if state is None:
        raise click.ClickException(
            f"no cluster was started in {data}; `coterie cluster start --data {data}` starts one"
        )
    return LocalCluster(data, state)


@cluster.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder of a cluster of this machine, in place of --bootstrap-server: also which of its processes run.",
)
@broker_option
@json_option
def describe(data: Path | None, client: dict[str, str], as_json: bool) -> None:
    """Show the brokers, the controller, and what is not replicated.

    Works on Apache Kafka too. UNDER-REPLICATED counts the replicas of a broker that are not in sync.
    """
    from coterie.cli.cluster.cluster_processes import ClusterTrouble

    local = None if data is None else _local(data)
    if local is not None:
        running = local.running()
        if not running:
            raise click.ClickException(
                f"no broker of the cluster in {data} is running; `coterie cluster start --data {data}` starts them"
            )
        try:
            client |= local.client_settings(*running)
        except ClusterTrouble as error:
            raise click.ClickException(str(error)) from error
    document: ClusterFigures
    document, errors = run(describe_cluster(client, local))
    headers = ["BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS", "UNDER-REPLICATED"]
    rows = [
        (
            row["broker"],
            row["address"],
            row["rack"],
            "controller" if row["broker"] == document["controller"] else "up" if row["is_live"] else "down",
            row["leads"],
            row["replicas"],
            row["under_replicated"],
        )
        for row in document["brokers"]
    ]
    if local is not None:
        headers.append("PID")
        rows = [(*cells, row.get("pid")) for cells, row in zip(rows, document["brokers"], strict=True)]  # type: ignore[misc]
    show(document, as_json, headers, rows)
    if not as_json:
        topics, partitions = quantity(document["topics"], "topic"), quantity(document["partitions"], "partition")
        write_line()
        write_line(
            f"cluster {document['cluster_id']}: {topics}, {partitions}; under-replicated: {document['under_replicated']}, "
            f"without a leader: {document['leaderless']}"
        )
    end_with(errors)
