"""Load on a cluster whose topics have three replicas: acks=all to every leader at once, and a coordinator that dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from coterie.client import Admin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, KafkaTimeoutError
from coterie.records.encoding import encode_batch
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie_conformance.bench.loads import load
from coterie_conformance.cluster.mixed import MixedCluster, in_turn, wait_until

Address = tuple[str, int]
PRODUCE_VERSION = 8  # of Apache Kafka 2.6 the newest
IN_FLIGHT = 2  # Produce requests of a megabyte, to each leader
COORDINATOR_VERSION, COMMIT_VERSION = 3, 8
PATIENCE_S, LOOK_EVERY_S = 60.0, 0.01


def create_topic(cluster: MixedCluster, name: str) -> list[Address]:
    """A topic in which each broker leads a partition, all replicas in sync; returns the leaders' addresses, by partition.
    Raises KafkaError, NotInTime."""
    brokers = cluster.running()

    async def create() -> None:
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            with suppress(KafkaTimeoutError):  # the controller goes on: a first topic takes a JVM its time
                await admin.create_topic(name, assignments=in_turn(brokers, len(brokers)))
        await wait_until(lambda: cluster.are_in_sync(name), f"{name} has its replicas")

    asyncio.run(create())
    return [cluster.brokers[broker_id].process.address for broker_id in brokers]


def ends(cluster: MixedCluster, topic: str) -> int:
    """The sum of the high watermarks: what all in-sync replicas have. Raises KafkaError."""

    async def look_up() -> int:
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            partitions = await admin.partitions([topic])
            return sum((await admin.list_offsets(dict.fromkeys(partitions, -1))).values())

    return asyncio.run(look_up())


def produced(cluster: MixedCluster, topic: str, leaders: Sequence[Address], record_bytes: int, seconds: float) -> float:
    """Acknowledged records/s, in batches of a megabyte, over a connection to each leader. Raises KafkaError."""
    batch, count = load.batch_of(record_bytes)
    before = ends(cluster, topic)

    def work(partition: int) -> float:
        frame = load.produce_frame(topic, partition, batch, PRODUCE_VERSION)
        return load.produce_ahead(leaders[partition], frame, seconds, IN_FLIGHT)

    with ThreadPoolExecutor(len(leaders)) as pool:
        rate = sum(pool.map(work, range(len(leaders)))) * count
    _check(cluster, topic, before, rate * seconds)
    return rate


def produced_singles(
    cluster: MixedCluster, topic: str, leaders: Sequence[Address], connections: int, seconds: float
) -> float:
    """Acknowledged records/s in requests of one record each, over so many connections. Raises KafkaError."""
    batch, before = encode_batch([(1_700_000_000_000, None, load.SMALL_RECORD, ())]), ends(cluster, topic)
    targets = []
    for number in range(connections):
        partition = number % len(leaders)
        targets.append((leaders[partition], load.produce_frame(topic, partition, batch, PRODUCE_VERSION)))
    rate = load.closed_loops(targets, seconds)
    _check(cluster, topic, before, rate * seconds)
    return rate


def _check(cluster: MixedCluster, topic: str, before: int, acknowledged: float) -> None:
    """A broker that refuses what it is sent answers fast: each acknowledged record must be below the high watermark."""
    grown = ends(cluster, topic) - before
    assert grown >= int(acknowledged * 0.99), f"{grown} records of {acknowledged:.0f} are in {topic}"


# -- a coordinator that dies ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outage:
    """From kill -9 of a group's coordinator to the first commit that another broker accepts; ``after_expiry_ms``: from the end
    of the dead broker's session with ZooKeeper."""

    total_ms: float
    after_expiry_ms: float


def outage(cluster: MixedCluster) -> Outage:
    """Kills the coordinator of a group, another broker than the controller. Raises NotInTime."""
    group, broker_id = _coordinated_elsewhere(cluster)
    cluster.kill(broker_id)
    killed_s = time.perf_counter()
    expired_s, end_s = 0.0, killed_s + PATIENCE_S
    while not expired_s or _commit(cluster, group) is None:
        now_s = time.perf_counter()
        assert now_s < end_s, f"{group} has no coordinator after {PATIENCE_S:g} s"
        if not expired_s and not cluster.is_registered(broker_id):
            expired_s = now_s
        time.sleep(LOOK_EVERY_S)
    now_s = time.perf_counter()
    return Outage((now_s - killed_s) * 1000, (now_s - expired_s) * 1000)


def _coordinated_elsewhere(cluster: MixedCluster) -> tuple[str, int]:
    """A group whose offsets have been committed, and its coordinator, which is not the controller."""
    end_s = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < end_s:
        for number in range(20):
            coordinator = _commit(cluster, f"group-{number}")
            if coordinator not in (None, cluster.controller()):
                assert coordinator is not None
                return f"group-{number}", coordinator
        time.sleep(LOOK_EVERY_S)
    raise AssertionError("no group has a coordinator beside the controller")


def _commit(cluster: MixedCluster, group: str) -> int | None:
    """The broker that has accepted a commit of the group's; None where there is none yet."""
    partition = OffsetCommitRequestPartition(0, 1, -1, committed_metadata="")
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(load.TOPIC, partitions=[partition])])
    running = [cluster.brokers[broker_id].process.address for broker_id in cluster.running()]
    try:
        requested = BrokerSocket(*running[0])
        try:
            where = requested.request(FindCoordinatorRequest(key=group), highest=COORDINATOR_VERSION)
        finally:
            requested.close()
        if where.error_code or (where.host, where.port) not in running:
            return None
        coordinator = BrokerSocket(where.host, where.port)
        try:
            response = coordinator.request(request, highest=COMMIT_VERSION)
        finally:
            coordinator.close()
    except KafkaError:
        return None
    return None if response.topics[0].partitions[0].error_code else int(where.node_id)
