"""Brokers of one process for the tests of the cluster's drivers: real sockets and handlers, logs in memory."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from coterie.broker.broker import Broker
from coterie.broker.cluster.member import ClusterMember
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.cluster.zookeeper.session import ClusterSession, SessionEvents
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.replicas import AppendToken, Decided
from coterie.controller import nodes
from coterie.log.leader_epochs import LeaderEpochCache
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replica
from coterie.replication.states import (
    NO_BYTE_LIMIT,
    PartitionState,
    ReplicaError,
    ReplicaLog,
    ReplicaRefusal,
    ReplicationConfig,
    TopicPartition,
)
from coterie.testing.cluster_brokers import Interconnect
from coterie.testing.in_process_zookeeper import InProcessZooKeeper
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, Operation, Read, Znode
from tests.awaiting import until

SESSION_TIMEOUT_MS = 300
CONFIG = ClusterConfig(
    0,
    replication=ReplicationConfig(min_insync_replicas=2, replica_lag_time_max_ms=600, replica_fetch_backoff_ms=50),
    controlled_shutdown_retry_backoff_ms=50,
    replica_high_watermark_checkpoint_interval_ms=100,
)
ORDERS: TopicPartition = ("orders", 0)
_HEADER = struct.Struct(">qii")  # offset, epoch, size of the value
Stored = tuple[int, int, bytes]


class EncodedLog:
    """A `ReplicaLog` of batches in bytes, each of one value."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.epochs = LeaderEpochCache()
        self.high_watermark = 0
        self.gap_offset: int | None = None

    @property
    def start_offset(self) -> int:
        return 0

    @property
    def end_offset(self) -> int:
        return len(self.batches)

    @property
    def values(self) -> list[bytes]:
        return [value for _, _, value in self.batches]

    def begin_epoch(self, leader_epoch: int) -> None:
        self.epochs.assign(leader_epoch, self.end_offset)

    def append_as_leader(self, batch: bytes, leader_epoch: int) -> int:
        offset = self.end_offset
        self._append((offset, leader_epoch, batch))
        return offset

    def _append(self, batch: Stored) -> None:
        assert batch[0] == self.end_offset, "a gap"
        self.epochs.assign(batch[1], batch[0])
        self.batches.append(batch)

    def append_as_follower(self, batches: Sequence[bytes]) -> None:
        data, at = b"".join(batches), 0
        while at < len(data):
            offset, epoch, size = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            self._append((offset, epoch, data[at : at + size]))
            at += size

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[bytes]:
        read: list[bytes] = []
        for number, epoch, value in self.batches[offset:end_offset]:
            max_bytes -= _HEADER.size + len(value)
            if max_bytes < 0 and (read or max_bytes <= -_HEADER.size - len(value)):
                break
            read.append(_HEADER.pack(number, epoch, len(value)) + value)
        return read

    def truncate_to(self, end_offset: int) -> None:
        del self.batches[end_offset:]
        self.epochs.truncate_from_end(end_offset)

    def start_anew_at(self, offset: int) -> None:
        raise AssertionError("no record is ever removed from the start of a log here")

    def advance_start(self, offset: int) -> None:
        assert offset == 0, "no record is ever removed from the start of a log here"


@dataclass
class MemoryStorage:
    """A `ReplicaStorage`: the disk of one broker, which outlives its processes."""

    logs: dict[TopicPartition, EncodedLog] = field(default_factory=dict)
    visible: dict[TopicPartition, int] = field(default_factory=dict)
    checkpointed: dict[TopicPartition, int] = field(default_factory=dict)

    def open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        return self.logs.setdefault(partition, EncodedLog()), self.checkpointed.get(partition, 0)

    def roles_changed(self, replicas: Sequence[Replica]) -> None:
        assert all(replica.role is None or replica.partition in self.logs for replica in replicas)

    def high_watermark_moved(self, partition: TopicPartition, high_watermark: int) -> None:
        self.visible[partition] = high_watermark

    def after_sync(self, partition: TopicPartition, then: Callable[[], None]) -> bool:
        return False

    def remove_log(self, partition: TopicPartition) -> None:
        self.logs.pop(partition, None)

    def save_high_watermarks(self) -> None:
        self.checkpointed = {partition: log.high_watermark for partition, log in self.logs.items()}


def append(
    manager: ReplicaManager,
    partition: TopicPartition,
    batch: bytes,
    decided: Decided,
    *,
    acks_all: bool = True,
) -> None:
    """As the leader. ``decided`` is called once, with None when the append is acknowledged. Raises ReplicaRefusal."""
    leader = manager.replicas.leader(partition)
    manager.act(leader.append(batch, AppendToken(decided), manager.now_ms(), acks_all=acks_all))
    manager.notify(partition)


class RunningBroker:
    """One broker of the cluster; ``storage`` is its disk."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number, self.storage = cluster, number, MemoryStorage()
        self.is_running = False

    async def start(self, *, lost_power: bool = False) -> None:
        cluster, self.broker = self.cluster, Broker(BrokerSettings({"node.id": str(self.number)}))
        host, port = await self.broker.start("127.0.0.1", 0)
        cluster.network.broker_ids[port] = self.number
        self.broker.cluster.is_alone, self.broker.cluster.controller_id = False, -1
        now_ms = self.broker.clock.now_ms
        self.member = self.broker.member = ClusterMember(
            replace(cluster.config, broker_id=self.number, lost_power=lost_power),
            nodes.broker(host, port, f"rack-{self.number}", now_ms()),
            self.broker.cluster,
            self.storage,
            self.broker.fetch_sessions,
            now_ms,
            lambda host, port: cluster.network.dial(self.number, host, port),
        )
        self.is_running = True
        await self.member.start(self._open_session)

    async def _open_session(self, events: SessionEvents) -> ClusterSession:
        assert isinstance(self.cluster.zookeeper, InProcessZooKeeper)
        self.session = await self.cluster.zookeeper.open_session(SESSION_TIMEOUT_MS, events)
        return self.session

    async def _die(self) -> None:
        self.session.die()

    async def kill(self) -> None:
        self.is_running = False
        await self._die()
        await self.member.abandon()
        self.broker.member = None
        await self.broker.stop()

    async def stop(self) -> None:
        self.is_running = False
        await self.broker.stop()

    def role(self, partition: TopicPartition = ORDERS) -> Leader | Follower | None:
        replica = self.member.manager.replicas.partitions.get(partition)
        return None if replica is None else replica.role

    def leads(self, partition: TopicPartition = ORDERS) -> bool:
        return self.is_running and isinstance(self.role(partition), Leader)

    def log(self, partition: TopicPartition = ORDERS) -> EncodedLog:
        return self.storage.logs[partition]

    async def append(self, value: bytes, partition: TopicPartition = ORDERS, *, acks_all: bool = True) -> None:
        """Returns once it is acknowledged. Raises ReplicaRefusal."""
        done: asyncio.Future[ReplicaError | None] = asyncio.get_running_loop().create_future()
        append(self.member.manager, partition, value, done.set_result, acks_all=acks_all)
        if (error := await done) is not None:
            raise ReplicaRefusal(error)


class ZooKeeper(Protocol):
    """For what a test reads and writes itself."""

    def apply(self, operation: Operation) -> object: ...


class Cluster:
    """Use `running`."""

    def __init__(self, config: ClusterConfig, zookeeper: ZooKeeper) -> None:
        self.config, self.zookeeper, self.network = config, zookeeper, Interconnect()
        self.brokers: dict[int, RunningBroker] = {}

    def live(self) -> list[RunningBroker]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    def create_topic(self, replicas: Mapping[int, Sequence[int]], name: str = "orders") -> None:
        self.zookeeper.apply(Create(paths.topic(name), nodes.topic(replicas), ephemeral=False))

    def state(self, partition: TopicPartition = ORDERS) -> PartitionState | None:
        """As ZooKeeper has it."""
        node = self.zookeeper.apply(Read(paths.partition_state(*partition)))
        return nodes.state_of(node, ()) if isinstance(node, Znode) else None

    def isr(self, partition: TopicPartition = ORDERS) -> set[int]:
        state = self.state(partition)
        return set() if state is None else set(state.isr)

    async def leader(self, partition: TopicPartition = ORDERS, *, not_of: int = 0) -> RunningBroker:
        """Once there is one, and it is another than ``not_of``."""
        leaders: list[RunningBroker] = []

        def led() -> bool:
            leaders[:] = [b for b in self.live() if b.leads(partition) and b.number != not_of]
            return len(leaders) == 1

        await until(led, "a leader")
        return leaders[0]

    async def controller(self, *, not_of: int = 0) -> RunningBroker:
        def elected() -> list[RunningBroker]:
            return [b for b in self.live() if b.member.driver.is_controller and b.number != not_of]

        await until(elected, "a controller")
        (controller,) = elected()
        return controller

    async def until_equal(self, *numbers: int, partition: TopicPartition = ORDERS) -> None:
        """The replicas' logs and high watermarks, and the view of each broker."""

        def equal() -> bool:
            brokers = [self.brokers[number] for number in numbers]
            logs = [broker.log(partition).batches for broker in brokers]
            ends = {broker.storage.visible.get(partition) for broker in brokers}
            return all(log == logs[0] for log in logs) and ends == {len(logs[0])}

        await until(equal, "equal replicas")


@asynccontextmanager
async def running(
    config: ClusterConfig = CONFIG,
    kind: type[RunningBroker] = RunningBroker,
    zookeeper: ZooKeeper | None = None,
    brokers: int = 3,
) -> AsyncIterator[Cluster]:
    """A cluster of so many brokers, all registered and in each other's view."""
    cluster = Cluster(config, zookeeper or InProcessZooKeeper())
    cluster.brokers = {number: kind(cluster, number) for number in range(1, brokers + 1)}
    try:
        for broker in cluster.brokers.values():
            await broker.start()
        await until(lambda: all(len(b.broker.cluster.live) == brokers for b in cluster.live()), "views of the cluster")
        yield cluster
    finally:
        for broker in cluster.live():
            await broker.kill()
