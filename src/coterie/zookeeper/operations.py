"""The effects that the machine requests from its driver, and ZooKeeper's errors."""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]
ANY_VERSION = -1
INVALID_OFFSET = -1  # no offset is kept: the fetcher starts by auto.offset.reset


class ZooKeeperError(Exception):
    """ZooKeeper's response is no."""


class NodeExists(ZooKeeperError):
    """The node to create exists."""


class NoNode(ZooKeeperError):
    """The node does not exist; of a create, its parent."""


class NotEmpty(ZooKeeperError):
    """It has children."""


class BadVersion(ZooKeeperError):
    """Somebody has written since."""


class ConnectionLost(ZooKeeperError):
    """Whether it was done is not known; the session may live on."""


class SessionExpired(ZooKeeperError):
    """The session is over, and its ephemeral nodes with it."""


class MultiRefused(ZooKeeperError):
    """Nothing of a `Multi` was done. ``index``: the first operation that was refused, with its ``error``."""

    def __init__(self, index: int, error: ZooKeeperError) -> None:
        super().__init__(f"operation {index}: {type(error).__name__}")
        self.index, self.error = index, error


class Corrupt(ZooKeeperError):
    """A node holds what no version of Kafka wrote."""


@dataclass(frozen=True, slots=True)
class Znode:
    """The result of `Read`. ``mine``: ephemeral, and of this very session. ``created``: the id of the transaction that created
    the node (czxid), ``created_ms`` when."""

    data: str
    mine: bool = False
    version: int = 0
    created: int = 0
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """Makes a node and the persistent ones above it, which a `Multi` does not make. Refused with NodeExists. ``sequential``:
    ten digits that rise follow the path."""

    path: str
    data: str
    ephemeral: bool = True
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Sets a persistent node, made first where it is missing. With a ``version`` only if that is the node's, else
    refused with BadVersion."""

    path: str
    data: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Refused with NoNode or NotEmpty."""

    path: str


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """In a `Multi`: refused with BadVersion or NoNode unless the node has that version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Multi:
    """All of them, in one transaction, or none. Refused with MultiRefused."""

    operations: tuple[Create | Write | Delete | CheckVersion, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """-> Znode, or None where there is none. ``watch``: one event when it is made, changed or deleted."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadEach:
    """-> what each node holds, or None where there is none, as a list: as many reads as paths, sent together."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class List:
    """-> the names of a node's children; [] where there is no such node. ``watch``: one event when one comes or goes.
    A missing node is made first when it is to be watched."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition of this consumer: the fetcher's target, the thread whose queue it fills, where to begin."""

    topic: str
    partition: int
    thread_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class StopFetchers:
    """Stops all fetchers and clears all queues. -> the consumed offset of each partition, as dict[TopicPartition, int].
    From here on no stream delivers a record fetched before."""


@dataclass(frozen=True, slots=True)
class ConsumedOffsets:
    """-> the consumed offset of each partition, as dict[TopicPartition, int]."""


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """The topic registry of the new share: read these from there on, and nothing else."""

    infos: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An error for the user: all attempts of a rebalance failed. The machine continues at the next change."""

    message: str


Operation = Create | Write | Delete | Multi | Read | ReadEach | List
Effect = Create | Write | Delete | Read | ReadEach | List | StopFetchers | ConsumedOffsets | StartFetchers | GiveUp
