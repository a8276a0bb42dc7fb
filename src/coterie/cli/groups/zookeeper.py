"""Commands for groups in ZooKeeper: a consumer of such a group, its description, its offsets to Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.groups.group_description import lags_ms_of, partition_row
from coterie.cli.parts.invocation import LEADER_MS, client_options, json_option, run, sentences, show
from coterie.cli.parts.option_values import complete_groups
from coterie.console.terminal import write_line
from coterie.runtime.interruption import on_signal
from coterie.text.addresses import parse_address
from coterie.text.quantity import quantity, total_lag, total_lag_ms

if TYPE_CHECKING:
    from coterie.cli.parts.json_groups import DescribedPartition, GroupDocument, GroupRow, ZooKeeperMember
    from coterie.client import KafkaError, TopicPartition
    from coterie.client.zookeeper.zookeeper_groups import GroupInZooKeeper

UNKNOWN = "Unknown"  # Kafka's name of a state or type that is not known
LOOK_S = 0.02
F = TypeVar("F", bound=Callable[..., Any])


def zookeeper_option(help_text: str, *, required: bool = False) -> Callable[[F], F]:
    """--zookeeper of the commands that reach groups in ZooKeeper too; ``help_text`` begins its help."""
    return click.option(
        "--zookeeper",
        metavar="HOST:PORT",
        envvar="COTERIE_ZOOKEEPER",
        required=required,
        callback=_check_servers,
        help=f"{help_text}; also COTERIE_ZOOKEEPER.",
    )


def _check_servers(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """ZooKeeper's servers and path as given. Raises BadParameter for a server that is not HOST:PORT."""
    for server in () if value is None else value.partition("/")[0].split(","):
        try:
            host, _ = parse_address(server)
        except ValueError:
            host = ""
        if not host:
            raise click.BadParameter(f"must be HOST:PORT[,HOST:PORT...][/PATH], not {server!r}.")
    return value


def read_streams(
    settings: dict[str, Any], topic: str, streams: int, limit: int | None, write: Callable[[Any], None]
) -> None:
    """Reads a topic in so many threads until the limit, until nothing came for consumer.timeout.ms, or until SIGINT or
    SIGTERM. Raises KafkaError."""
    from coterie.client.zookeeper import ZooKeeperConsumer
    from coterie.client.zookeeper.settings import consumer_settings

    reading = _Reading(limit, consumer_settings(settings).consumer_timeout_ms, write)
    # Set from a thread: the signal may meet this one inside the event's own lock.
    stop = threading.Thread(target=reading.stop.set)
    with on_signal(stop.start), ZooKeeperConsumer(settings, {topic: streams}) as consumer:
        for stream in consumer.streams[topic]:
            threading.Thread(target=reading.read, args=(stream,), daemon=True).start()
        reading.stop.wait()
        with reading.lock:  # no message is taken any more, and every taken one is written
            pass
    if reading.failed is not None:
        raise reading.failed


class _Reading:
    """What the threads of one command share. Under the lock a message is taken and written, or neither: what is taken counts
    as consumed."""

    def __init__(self, limit: int | None, timeout_ms: int, write: Callable[[Any], None]) -> None:
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.failed: Exception | None = None
        self._limit, self._write, self._written = limit, write, 0
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._last_s = time.monotonic()

    def read(self, stream: Any) -> None:
        try:
            while not self.stop.is_set() and not stream.ended:
                if not self._read_one(stream):
                    time.sleep(LOOK_S)
        except Exception as error:
            self.failed = error
        self.stop.set()

    def _read_one(self, stream: Any) -> bool:
        with self.lock:
            message = None if self.stop.is_set() else stream.take(0)
            if message is not None:
                self._write(message)
                self._written += 1
                self._last_s = time.monotonic()
            silent_s = time.monotonic() - self._last_s
            if self._written == self._limit or (self._timeout_s is not None and silent_s >= self._timeout_s):
                self.stop.set()
            return message is not None


def describe_in_zookeeper(
    group_id: str, zookeeper: str, client: dict[str, str]
) -> tuple[GroupDocument, list[KafkaError]]:
    """As `group_description.describe_group`; the brokers are those in ZooKeeper."""
    from coterie.client.zookeeper.zookeeper_groups import ZooKeeperGroups

    with ZooKeeperGroups(zookeeper) as source:
        group = source.read(group_id)
        servers = source.bootstrap_servers()
    wanted = sorted({*group.partitions, *group.owners, *group.offsets})
    ends, lags_ms, errors = run(_ends(group, client | {"bootstrap.servers": servers}, wanted))
    partitions: list[DescribedPartition] = []
    for tp in wanted:
        committed, end = group.offsets.get(tp), ends.get(tp)
        partitions.append(partition_row(tp, committed, end, lags_ms.get(tp)) | {"owner": group.owners.get(tp)})
    members: list[ZooKeeperMember] = [
        {
            "member_id": member,
            "threads": dict(threads),
            "partitions": sum(owner.rpartition("-")[0] == member for owner in group.owners.values()),
        }
        for member, threads in sorted(group.members.items())
    ]
    document: GroupDocument = {
        "group": group_id,
        "state": group.state,
        "type": UNKNOWN,
        "protocol_type": "zookeeper",
        "protocol": "range",
        "coordinator": None,
        "members": members,
        "partitions": partitions,
        "lag": total_lag(partitions),
        "lag_ms": total_lag_ms(partitions),
    }
    return document, errors


async def _ends(
    group: GroupInZooKeeper, client: dict[str, str], wanted: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], list[KafkaError]]:
    """The end of each partition's log, the lags in ms, and why one is missing."""
    from coterie.client import Admin

    errors: dict[TopicPartition, KafkaError] = {}
    async with Admin(client) as admin:
        ends = await admin.list_offsets(dict.fromkeys(wanted, -1), errors=errors, timeout_ms=LEADER_MS)
        (lags_ms,) = await lags_ms_of(admin, [group.offsets], ends)
    return ends, lags_ms, [errors[tp] for tp in sorted(errors)]


def list_in_zookeeper(zookeeper: str) -> tuple[list[GroupRow], list[KafkaError], str]:
    """The groups in a ZooKeeper, why one of them cannot be read, and the brokers that are registered there."""
    from coterie.client import KafkaError
    from coterie.client.zookeeper.zookeeper_groups import ZooKeeperGroups

    rows: list[GroupRow] = []
    errors: list[KafkaError] = []
    with ZooKeeperGroups(zookeeper) as client:
        for name in client.names():
            row: GroupRow = {
                "group": name,
                "state": UNKNOWN,
                "type": UNKNOWN,
                "protocol_type": "zookeeper",
                "protocol": "range",
                "coordinator": None,
                "members": None,
                "lag": None,
                "lag_ms": None,
            }
            try:
                group = client.read(name)
            except KafkaError as error:
                errors.append(error)
                row["error"] = str(error)
            else:
                row |= {"state": group.state, "members": len(group.members)}
            rows.append(row)
        return rows, errors, client.bootstrap_servers()


@click.command()
@click.argument("group", shell_complete=complete_groups)
@zookeeper_option("The ZooKeeper of the group", required=True)
@client_options("The brokers to copy to; by default those in ZooKeeper.")
@click.option("--overwrite", is_flag=True, help="Replace committed offsets that are further on.")
@click.option("--dry-run", is_flag=True, help="Only show what would be committed.")
@json_option
def migrate(group: str, zookeeper: str, client: dict[str, str], overwrite: bool, dry_run: bool, as_json: bool) -> None:
    """Copy a group's offsets from ZooKeeper to __consumer_offsets.

    The group must have stopped on both sides. The offsets in ZooKeeper are unchanged.
    """
    from coterie.client.zookeeper.zookeeper_groups import ZooKeeperGroups
    from coterie.client.zookeeper.zookeeper_groups import migrate as take_over

    def look() -> Any:
        with ZooKeeperGroups(zookeeper) as source:
            if "bootstrap.servers" not in client:
                client["bootstrap.servers"] = source.bootstrap_servers()
            return source.read(group)

    moved = run(take_over(sentences(look), client, overwrite=overwrite, dry_run=dry_run))
    rows = [(m.topic, m.partition, m.in_zookeeper, m.before, m.after, m.note) for m in moved]
    headers = ["TOPIC", "PARTITION", "ZOOKEEPER", "BEFORE", "NOW", "RESULT"]
    if as_json:
        show([asdict(m) for m in moved], True, [], [])
        return
    show(None, False, headers, rows, f"{group} has no offsets in ZooKeeper")
    if dry_run:
        write_line("dry run: nothing was committed")
        return
    committed = sum(m.note == "committed" for m in moved)
    write_line(
        f"{committed} of {quantity(len(moved), 'offset')} of {group} committed; the offsets in ZooKeeper are unchanged"
    )
