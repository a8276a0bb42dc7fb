"""A cluster of brokers in this process for tests that stop, start and look into each of them: a topic of one partition, records
through a client, and what the brokers' logs and checkpoints hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from coterie.broker.cluster.peers.connections import PeerConnection
from coterie.broker.storage.checkpoints import HIGH_WATERMARKS
from coterie.client.producer.producer import Producer
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.testing.faults import Faults
from coterie.wire.declaration import Message
from tests.awaiting import until

TOPIC = "orders"
M = TypeVar("M", bound=Message)


@asynccontextmanager
async def clustered(
    brokers: int = 2, settings: Mapping[str, str] | None = None, kind: type[ClusterBrokers] = ClusterBrokers
) -> AsyncIterator[ClusterBrokers]:
    cluster = kind(settings or {}, brokers, (), Faults(), ())
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


async def create(
    cluster: ClusterBrokers,
    replicas: Sequence[int] = (1, 2),
    configs: Mapping[str, str] | None = None,
    name: str = TOPIC,
) -> None:
    """A topic of one partition."""
    await until(lambda: cluster.controller() is not None, "a controller")
    controller = cluster.controller()
    assert controller is not None
    changes = controller.broker.topic_changes
    assert changes is not None
    await changes.create(name, {0: tuple(replicas)}, configs or {})
    await until(lambda: cluster.leader(name, 0) is not None and cluster.all_know(name, 1), "a leader")


async def led_by(cluster: ClusterBrokers, broker_id: int, name: str = TOPIC) -> ClusteredBroker:
    """The leader, once it is this broker."""
    await until(lambda: (one := cluster.leader(name, 0)) is not None and one.broker_id == broker_id, "the leader")
    return cluster.brokers[broker_id]


async def all_in_sync(cluster: ClusterBrokers, *broker_ids: int) -> None:
    await until(lambda: cluster.in_sync(TOPIC, 0) == set(broker_ids), "all in sync")


def addresses(cluster: ClusterBrokers) -> dict[str, str]:
    """bootstrap.servers: all brokers, also those that do not run now."""
    return {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in cluster.brokers.values())}


async def produce(
    cluster: ClusterBrokers,
    *values: bytes,
    name: str = TOPIC,
    partition: int = 0,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Each value in a batch of its own, unless the settings have them wait for each other. Returns once all are
    acknowledged."""
    given = settings or {}
    async with Producer({**addresses(cluster), **given}) as producer:
        for value in values:
            delivery = await producer.send(name, value, partition=partition)
            if "linger.ms" not in given:
                await delivery


def log_of(broker: ClusteredBroker, name: str = TOPIC) -> PartitionLog:
    return broker.broker.topics.partition(name, 0).log


def headers(broker: ClusteredBroker, name: str = TOPIC) -> list[BatchHeader]:
    """Of all batches that the log holds, in order; with the CRC, equal headers are equal batches."""
    log = log_of(broker, name)
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return [header for _, header in batches(data)]


def epochs(broker: ClusteredBroker) -> list[tuple[int, int]]:
    """Each leader epoch that the log knows, with its start offset."""
    return [(entry.epoch, entry.start_offset) for entry in log_of(broker).epochs.cache.entries]


async def equal_logs(cluster: ClusterBrokers) -> None:
    """All running brokers hold the same batches, byte by byte."""

    def equal() -> bool:
        brokers = cluster.live()
        are_known = all(TOPIC in broker.broker.topics.by_name for broker in brokers)
        return are_known and len({tuple(headers(broker)) for broker in brokers}) == 1

    await until(equal, "equal logs")


async def bounce(broker: ClusteredBroker) -> None:
    await broker.stop()
    await broker.start()


def disk(broker: ClusteredBroker) -> MemoryFileSystem:
    """It outlives the broker's processes."""
    return broker._memory


def high_watermark(broker: ClusteredBroker) -> int:
    """As replication-offset-checkpoint on the broker's disk has it; 0 where it has none."""
    fs = disk(broker)
    rows = fs.read_file(HIGH_WATERMARKS).decode().split("\n")[2:] if fs.exists(HIGH_WATERMARKS) else []
    return next((int(row.split()[2]) for row in rows if row.startswith(f"{TOPIC} 0 ")), 0)


def cut_the_log(broker: ClusteredBroker, kept: float) -> None:
    """Of a stopped broker: its process ended out of order, and that part of the log was on the disk."""
    fs = disk(broker)
    fs.remove(".kafka_cleanshutdown")
    file = fs.open(f"{TOPIC}-0/{0:020}.log")
    file.truncate(int(file.size() * kept))


async def requested(broker: ClusteredBroker, request: Message, response: type[M], version: int) -> M:
    """The broker's response, as another broker gets it."""
    connection = PeerConnection("test", 5_000)
    try:
        return await connection.request((broker.host, broker.port), request, response, version)
    finally:
        connection.close()
