"""Groups that live in ZooKeeper, as a tool sees them: members, owners, offsets; and taking the offsets to Kafka.

Reads Kafka 0.8's paths, coterie's and Kafka's own. Ends of logs and `__consumer_offsets` are requested from the brokers that
are registered there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from coterie.client.admin.admin import Admin
from coterie.client.errors import KafkaError
from coterie.client.types import TopicPartition
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.text.addresses import format_address
from coterie.text.quantity import quantity
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import List, Operation, Read, ReadEach, Znode, ZooKeeperError

TIMEOUT_MS = 6_000
_UNKNOWN = -1


@dataclass(slots=True)
class GroupInZooKeeper:
    """``members``: consumer id -> (topic -> threads); ``owners``: the thread that owns a partition."""

    group_id: str
    members: dict[str, Mapping[str, int]] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    partitions: list[TopicPartition] = field(default_factory=list)  # of the topics that the members read

    @property
    def state(self) -> str:
        """In the words for groups of today: while a partition has no owner the group is between two shares."""
        if not self.members:
            return "Empty"
        return "Stable" if all(tp in self.owners for tp in self.partitions) else "PreparingRebalance"


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result for one partition's offset. ``after`` is read back from the coordinator; ``note`` says why nothing was
    done where nothing was."""

    topic: str
    partition: int
    in_zookeeper: int
    before: int | None
    after: int | None
    note: str


class ZooKeeperGroups:
    """Use as a context manager. Raises KafkaError where ZooKeeper does not respond or holds data that cannot be read."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> ZooKeeperGroups:
        try:
            client = connect(self._address, TIMEOUT_MS, TIMEOUT_MS)
        except ZooKeeperError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        self._session = ZooKeeperSession(client, lambda _: None, lambda _: None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._session.close()

    def bootstrap_servers(self) -> str:
        """The brokers that are registered. Raises KafkaError where there is none."""
        nodes = self._each([f"{paths.BROKERS}/{name}" for name in self._names(paths.BROKERS)])
        addresses = [paths.address_of(node) for node in nodes.values()]
        if not addresses:
            text = f"no broker is registered in ZooKeeper at {self._address}; start one with zookeeper.connect set"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
        return ",".join(format_address(host, port) for host, port in addresses)

    def names(self) -> list[str]:
        """The ids of all groups that ZooKeeper has a node of."""
        return self._names(paths.CONSUMERS)

    def read(self, group_id: str) -> GroupInZooKeeper:
        """Raises KafkaError GROUP_ID_NOT_FOUND, and UNKNOWN_SERVER_ERROR for a node that cannot be read."""
        try:
            return self._read(group_id)
        except ZooKeeperError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} in ZooKeeper: {error}") from error

    def _read(self, group_id: str) -> GroupInZooKeeper:
        if group_id not in self.names():
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id} in ZooKeeper")
        group = GroupInZooKeeper(group_id)
        members = paths.members(group_id)
        for path, node in self._each([f"{members}/{name}" for name in self._names(members)]).items():
            group.members[path.rpartition("/")[2]] = paths.subscription_of(node)
        base = f"{paths.CONSUMERS}/{group_id}"
        group.owners = self._by_partition(f"{base}/owners")
        group.offsets = {
            tp: paths.offset_of(node) for tp, node in self._by_partition(f"{base}/offsets").items() if node
        }
        for topic in sorted({topic for threads in group.members.values() for topic in threads}):
            described = self._perform(Read(paths.topic(topic)))
            if isinstance(described, Znode):
                group.partitions += [
                    TopicPartition(topic, partition) for partition in paths.partitions_of(described.data)
                ]
        return group

    def _by_partition(self, base: str) -> dict[TopicPartition, str]:
        """What the nodes TOPIC/PARTITION below a path hold."""
        nodes: dict[TopicPartition, str] = {}
        for topic in self._names(base):
            for path, node in self._each([f"{base}/{topic}/{p}" for p in self._names(f"{base}/{topic}")]).items():
                nodes[TopicPartition(topic, int(path.rpartition("/")[2]))] = node
        return nodes

    def _names(self, path: str) -> list[str]:
        names = self._perform(List(path))
        assert isinstance(names, list)
        return names

    def _each(self, wanted: list[str]) -> dict[str, str]:
        """The nodes that still exist, with their text, by path."""
        nodes = self._perform(ReadEach(tuple(wanted)))
        assert isinstance(nodes, list)
        return {path: node for path, node in zip(wanted, nodes, strict=True) if node is not None}

    def _perform(self, operation: Operation) -> object:
        try:
            return self._session.apply(operation)
        except ZooKeeperError as error:
            text = f"ZooKeeper at {self._address}: {error or type(error).__name__}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from error


async def migrate(
    group: GroupInZooKeeper, client: Mapping[str, str], *, overwrite: bool = False, dry_run: bool = False
) -> list[Migrated]:
    """Commits the group's offsets to `__consumer_offsets`. An offset that the coordinator has further on already stays,
    unless ``overwrite``. Raises KafkaError, also where the group has members on either side."""
    if group.members:
        members = quantity(len(group.members), "member")
        text = f"{group.group_id} has {members} in ZooKeeper; stop every member first, or it reads on"
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text)
    async with Admin(client) as admin:
        there = set(await admin.partitions({topic for topic, _ in group.offsets}))
        before = await admin.list_consumer_group_offsets(group.group_id)
        wanted = {
            tp: offset
            for tp, offset in group.offsets.items()
            if tp in there and (overwrite or before.get(tp, _UNKNOWN) < offset)
        }
        if wanted and not dry_run:
            await admin.alter_consumer_group_offsets(group.group_id, wanted)
        after = before if dry_run else await admin.list_consumer_group_offsets(group.group_id)
    return [
        Migrated(
            *tp,
            offset,
            _known(before.get(tp)),
            _known(after.get(tp)),
            _note(tp in there, tp in wanted, dry_run=dry_run),
        )
        for tp, offset in sorted(group.offsets.items())
    ]


def _known(offset: int | None) -> int | None:
    return None if offset == _UNKNOWN else offset


def _note(there: bool, wanted: bool, *, dry_run: bool) -> str:
    if not there:
        return "left: no broker has this partition"
    if not wanted:
        return "left: the coordinator has it as far or further"
    return "would be committed" if dry_run else "committed"
