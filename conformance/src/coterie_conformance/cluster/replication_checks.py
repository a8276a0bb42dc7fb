"""Replication between Apache Kafka's brokers and coterie's: the files of followers equal those of their leader byte by byte,
also after a leader has come back with records that no other replica has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from coterie.client import Admin, Consumer, Producer, TopicPartition
from coterie.client.errors import KafkaError
from coterie.log.leader_epochs import FILE
from coterie.records.batch import BatchError, batches
from coterie_conformance.cluster.java_load import JavaClients, JavaLoad
from coterie_conformance.cluster.mixed import MixedCluster, wait_until

PARTITIONS = 3
RECORDS = 200
TAIL = 40
JAVA_S = 3.0
_COMPRESSIONS = ("none", "gzip")


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    """``records``: the log's segments joined. ``epochs``: (epoch, start offset) of each leader that has appended."""

    records: bytes
    epochs: tuple[tuple[int, int], ...]
    end_offset: int

    @staticmethod
    def read(folder: Path) -> ReplicaFiles:
        """What one partition's folder holds. A batch that is cut short, because its broker writes it just now, is left
        out."""
        records = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        end_offset = size = 0
        try:
            for position, header in batches(records):
                end_offset, size = header.last_offset + 1, position + header.size
        except BatchError:
            pass
        return ReplicaFiles(records[:size], _epochs(folder / FILE, end_offset), end_offset)


def _epochs(file: Path, end_offset: int) -> tuple[tuple[int, int], ...]:
    """Without those in which nothing was appended: only their leader knows of them. A log of epoch 0 alone needs no file."""
    if not file.exists():
        return ((0, 0),) if end_offset else ()
    rows = [line.split() for line in file.read_text().splitlines()[2:] if line.strip()]
    return tuple((int(epoch), int(start)) for epoch, start in rows if int(start) < end_offset)


def difference(replicas: Mapping[int, ReplicaFiles]) -> str:
    """The first difference between two brokers' files, in a sentence; empty where all are equal."""
    (first, expected), *others = replicas.items()
    for broker_id, actual in others:
        names = f"brokers {first} and {broker_id}"
        if actual.records != expected.records:
            return f"{names} differ in their records {_first_batch(expected.records, actual.records)}"
        if actual.epochs != expected.epochs:
            return f"{names} have the leader epochs {expected.epochs} and {actual.epochs}"
    return ""


def _first_batch(expected: bytes, actual: bytes) -> str:
    pairs = zip_longest(_batches(expected), _batches(actual), fillvalue=(-1, b""))
    for (offset, one), (other_offset, other) in pairs:
        if one != other:
            ends = "where one log ends" if min(offset, other_offset) < 0 else ""
            return f"from offset {max(offset, other_offset)} on {ends}".rstrip()
    return "although all batches are equal"


def _batches(records: bytes) -> list[tuple[int, bytes]]:
    return [(header.base_offset, records[at : at + header.size]) for at, header in batches(records)]


async def create_topic(
    cluster: MixedCluster, topic: str, replicas: Sequence[int], partitions: int = PARTITIONS
) -> None:
    """Each partition on these brokers, the first as its leader. Raises NotInTime."""
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.create_topic(topic, assignments={number: list(replicas) for number in range(partitions)})
    numbers = range(partitions)
    await wait_until(
        lambda: (
            all(cluster.leader((topic, number)) == replicas[0] for number in numbers) and cluster.are_in_sync(topic)
        ),
        f"broker {replicas[0]} leads {topic}",
    )


async def fill(cluster: MixedCluster, topic: str, partitions: int = PARTITIONS) -> None:
    """Records of our producer, each compression in turn, with a large batch among them. Raises KafkaError."""
    for compression in _COMPRESSIONS:
        settings = {"bootstrap.servers": cluster.bootstrap, "compression.type": compression, "acks": "all"}
        async with Producer(settings) as producer:
            for number in range(RECORDS):
                value = b"%d" % number * (20_000 if number == 1 else 1)
                await producer.send(topic, value, key=b"%d" % (number % 7), partition=number % partitions)
            await producer.flush()


async def until_equal(cluster: MixedCluster, topic: str) -> None:
    """All replicas are in sync, their files equal, and consumers may read all of it. Raises NotInTime with the difference."""
    last = ""

    async def are_equal() -> bool:
        nonlocal last
        last = await _difference(cluster, topic)
        return not last

    await wait_until(are_equal, lambda: f"replicas of {topic} are equal: {last}")


async def _difference(cluster: MixedCluster, topic: str) -> str:
    if not cluster.are_in_sync(topic):
        return f"a replica of {topic} is not in the ISR"
    assignment = cluster.assignment(topic)
    async with Consumer({"bootstrap.servers": cluster.bootstrap, "request.timeout.ms": "5000"}) as consumer:
        try:
            ends = await consumer.end_offsets([(topic, number) for number in assignment])
        except KafkaError as error:
            return f"the end offsets of {topic} are unknown: {error}"
    for number, replicas in assignment.items():
        files = {r: ReplicaFiles.read(cluster.brokers[r].log_folder(f"{topic}-{number}")) for r in replicas}
        if text := difference(files):
            return f"{topic}-{number}: {text}"
        high_watermark, end_offset = ends[TopicPartition(topic, number)], files[replicas[0]].end_offset
        if high_watermark != end_offset:
            return f"{topic}-{number}: consumers may read up to {high_watermark}, and the logs end at {end_offset}"
    return ""


async def followers_equal(cluster: MixedCluster, leader: int, topic: str) -> str:
    """Records of our producer and of Java's, with ``leader`` leading."""
    others = [b for b in cluster.running() if b != leader]
    await create_topic(cluster, topic, [leader, *others])
    load = JavaLoad(cluster.bootstrap, topic, PARTITIONS, JavaClients(writers=5), cluster.folder / "java.log")
    try:
        await fill(cluster, topic)
        await wait_until(lambda: load.operations, "a record of Java's producer is acknowledged")
        await asyncio.sleep(JAVA_S)
        await asyncio.to_thread(load.stop)
    finally:
        load.kill()
    await until_equal(cluster, topic)
    return ""


async def old_leader_truncates(cluster: MixedCluster, leader: int, topic: str) -> str:
    """The leader gets records that no follower has, for they are paused: it acknowledges those with acks=1, none with acks=all,
    and is killed. Another leads; the old one comes back and removes what only it has."""
    followers = [b for b in cluster.running() if b != leader]
    await create_topic(cluster, topic, [leader, *followers], 1)
    await fill(cluster, topic, 1)
    acknowledged = await _write_alone(cluster, topic, leader, followers)
    await wait_until(lambda: cluster.leader((topic, 0)) in followers, f"another broker than {leader} leads {topic}")
    await fill(cluster, topic, 1)
    folder = f"{topic}-0"
    tail = ReplicaFiles.read(cluster.brokers[leader].log_folder(folder))
    new = ReplicaFiles.read(cluster.brokers[followers[0]].log_folder(folder))
    if new.records.startswith(tail.records):
        return "the old leader has no record of its own: nothing was checked"
    await asyncio.to_thread(cluster.start, leader)
    await until_equal(cluster, topic)
    lost = acknowledged - await _values(cluster, topic, new.end_offset)
    return f"acknowledged with acks=all and lost: {sorted(lost)}" if lost else ""


async def _write_alone(cluster: MixedCluster, topic: str, leader: int, followers: Sequence[int]) -> set[bytes]:
    """Kills the leader in the end; returns what it has acknowledged with acks=all while its followers were paused."""
    one = {"bootstrap.servers": cluster.bootstrap, "acks": "1", "enable.idempotence": "false"}
    every = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "delivery.timeout.ms": "2000"}
    every |= {"request.timeout.ms": "1500", "linger.ms": "0"}
    acknowledged = set[bytes]()
    async with Producer(one) as for_one, Producer(every) as for_all:
        await for_one.send_and_wait(topic, b"before", partition=0)
        await for_all.send_and_wait(topic, b"before", partition=0)
        for follower in followers:
            cluster.brokers[follower].process.pause()
        try:
            for number in range(TAIL):
                await for_one.send_and_wait(topic, b"tail-%d" % number, partition=0)
            value = b"for all"
            try:
                await for_all.send_and_wait(topic, value, partition=0)
                acknowledged.add(value)
            except KafkaError:
                pass  # as it should be
        finally:
            cluster.kill(leader)
            for follower in followers:
                cluster.brokers[follower].process.resume()
    return acknowledged


async def _values(cluster: MixedCluster, topic: str, end_offset: int) -> set[bytes]:
    """All values of partition 0 before ``end_offset``. Raises NotInTime."""
    values = set[bytes]()
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        await consumer.assign([(topic, 0)])

        async def is_read() -> bool:
            for records in (await consumer.poll(500)).values():
                values.update(record.value or b"" for record in records)
            return consumer.position((topic, 0)) >= end_offset

        await wait_until(is_read, f"{topic} is read up to {end_offset}")
    return values


async def restarted_follower_equal(cluster: MixedCluster, follower: int, topic: str) -> str:
    """A follower is killed, the others go on with min.insync.replicas, and it catches up."""
    others = [b for b in cluster.running() if b != follower]
    await create_topic(cluster, topic, [*others, follower])
    await fill(cluster, topic)
    cluster.kill(follower)
    await fill(cluster, topic)
    await asyncio.to_thread(cluster.start, follower)
    await fill(cluster, topic)
    await until_equal(cluster, topic)
    return ""


async def move_controller(cluster: MixedCluster, to: int) -> None:
    """The other brokers are stopped, each until the controller is another, in the order of the elections. Raises NotInTime."""
    while (controller := cluster.controller()) != to:
        if controller is None:
            await asyncio.sleep(0.2)
            continue
        await asyncio.to_thread(cluster.stop, controller)
        await wait_until(lambda old=controller: cluster.controller() not in (None, old), "a new controller")
        await asyncio.to_thread(cluster.start, controller)
