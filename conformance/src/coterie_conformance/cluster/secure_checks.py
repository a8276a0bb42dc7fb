"""A secured cluster of coterie's brokers and Apache Kafka's: one set of ACLs, which both obey and either may change."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from coterie.controller import nodes
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Delete, Operation, Read, Write, ZooKeeperError
from coterie_conformance.cluster.mixed import VERSION, wait_until
from coterie_conformance.cluster.secure_cluster import COTERIE, KAFKA, SecureCluster
from coterie_conformance.servers.kafka import java

TOPIC, GROUP, USER, PASSWORD = "orders", "crew", "alice", "alices-secret"
PARTITIONS = 4
_LOGIN = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
_SESSION_MS = 10_000
TOOL_S = 120.0
EVERY = [*COTERIE, KAFKA]


def _user(cluster: SecureCluster, *, at_kafka: bool) -> dict[str, str]:
    """Settings of the user, who begins at one kind of broker."""
    times = {"request.timeout.ms": "10000", "delivery.timeout.ms": "30000", "enable.idempotence": "false"}
    settings = cluster.administrator | {"sasl.jaas.config": _LOGIN} | times
    return settings | ({"bootstrap.servers": cluster.kafka_address} if at_kafka else {})


def _written(settings: Mapping[str, str]) -> ErrorCode:
    """By which error a record to each partition is refused."""
    try:
        with BlockingProducer({**settings, "acks": "all"}) as producer:
            for delivery in [producer.send(TOPIC, b"v", partition=number) for number in range(PARTITIONS)]:
                delivery.result()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _is_result(settings: Mapping[str, str], expected: ErrorCode) -> bool:
    return _written(settings) == expected


def _read(settings: Mapping[str, str], count: int, patience_s: float = 60.0) -> int:
    """How many records a member of the group reads, at most ``count``. Raises KafkaError."""
    seen = set[tuple[int, int]]()
    with BlockingConsumer({**settings, "group.id": GROUP, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([TOPIC])
        for _ in range(int(patience_s * 2)):
            if len(seen) >= count:
                break
            for records in consumer.poll(500).values():
                seen |= {(record.partition, record.offset) for record in records}
        consumer.commit()
    return len(seen)


async def joins(cluster: SecureCluster) -> str:
    """Kafka's broker starts, and its metadata has all brokers. Raises NotInTime, CannotRun."""
    await asyncio.to_thread(cluster.kafka.start)

    def ids() -> list[int]:
        try:
            with BlockingAdmin({**cluster.administrator, "bootstrap.servers": cluster.kafka_address}) as admin:
                return sorted(node.id for node in admin.describe_cluster().nodes)
        except KafkaError:
            return []

    await _until(lambda: ids() == EVERY, "Kafka's metadata over SASL_SSL has all brokers")
    return ""


async def replicates(cluster: SecureCluster) -> str:
    """A topic of a partition for each broker is in sync at all of them. Raises NotInTime, CannotRun."""
    words = ("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", str(len(EVERY)))
    await asyncio.to_thread(cluster.coterie, *words)
    await _until(lambda: _in_sync(cluster, EVERY), "all brokers are in each ISR")
    leaders = sorted(leader or 0 for leader, _ in cluster.replicas_in_sync(TOPIC).values())
    return "" if leaders == EVERY else f"the leaders are {leaders}"


async def refuses(cluster: SecureCluster) -> str:
    """A user without an ACL, at both. Raises NotInTime, CannotRun."""
    await asyncio.to_thread(cluster.coterie, "users", "add", USER, typed=f"{PASSWORD}\n")
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for at_kafka in (False, True):
        is_refused = partial(_is_result, _user(cluster, at_kafka=at_kafka), refused)
        await _until(is_refused, f"{USER} is refused ({at_kafka=})")
    return ""


async def obeys_coteries_acl(cluster: SecureCluster) -> str:
    """An ACL that coterie wrote lets the user write to all leaders. Raises NotInTime, CannotRun."""
    words = ("acls", "add", "--principal", f"User:{USER}", "--operation", "write", "--topic", TOPIC)
    await asyncio.to_thread(cluster.coterie, *words)
    settings = _user(cluster, at_kafka=True)
    await _until(partial(_is_result, settings, ErrorCode.NONE), f"{USER} may write at every leader")
    return ""


async def obeys_kafkas_acl(cluster: SecureCluster) -> str:
    """ACLs that kafka-acls wrote at Kafka let the user read as a group through coterie. Raises NotInTime."""
    properties = cluster.folder / "tool.properties"
    kept = {name: value for name, value in cluster.administrator.items() if not name.startswith(("ssl.", "bootstrap."))}
    properties.write_text("".join(f"{name}={value}\n" for name, value in (kept | cluster.trust).items()))
    for resource in (("--topic", TOPIC), ("--group", GROUP)):
        words = ("--bootstrap-server", cluster.kafka_address, "--command-config", str(properties), "--add")
        added = ("--allow-principal", f"User:{USER}", "--operation", "Read", *resource)
        command = java(VERSION, "kafka.admin.AclCommand", *words, *added, heap="128m")
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=TOOL_S)
        if done.returncode:
            return f"kafka-acls ended with {done.returncode}: {done.stderr[-300:]}"
    settings, count = _user(cluster, at_kafka=False), PARTITIONS

    def reads() -> bool:
        try:
            return _read(settings, count) == count
        except KafkaError:
            return False

    await _until(reads, f"{USER} reads as the group {GROUP}")
    return ""


async def comes_back(cluster: SecureCluster) -> str:
    """Kafka's broker is killed: the others go on, and it is in sync again after its start. Raises NotInTime, CannotRun."""
    await asyncio.to_thread(cluster.kafka.kill)
    await _until(lambda: _in_sync(cluster, [*COTERIE]), "the killed broker is in no ISR")
    settings = _user(cluster, at_kafka=False)
    await _until(partial(_is_result, settings, ErrorCode.NONE), f"{USER} writes while Kafka is down")
    await asyncio.to_thread(cluster.kafka.start)
    await _until(lambda: _in_sync(cluster, EVERY), "it is in each ISR again")
    return ""


async def keeps_strangers_out_of_zookeeper(cluster: SecureCluster) -> str:
    """A session without a login changes nothing, and reads no credentials."""
    attempts: tuple[Operation, ...] = (
        Delete(nodes.CONTROLLER),
        *(Delete(paths.broker(broker)) for broker in EVERY),
        Write(f"/kafka-acl/Topic/{TOPIC}", "{}"),
        Write(paths.partition_state(TOPIC, 0), "{}"),
        Read(f"/config/users/{USER}"),
    )
    return await asyncio.to_thread(_done_by_a_stranger, cluster.kafka.zookeeper_address, attempts)


def _done_by_a_stranger(zookeeper: str, attempts: tuple[Operation, ...]) -> str:
    session = ZooKeeperSession(connect(zookeeper, _SESSION_MS, _SESSION_MS), lambda _: None, lambda _: None)
    done = []
    try:
        for attempt in attempts:
            try:
                session.apply(attempt)
            except ZooKeeperError as error:
                if "NoAuth" in str(error):
                    continue
                done.append(f"{attempt}: {error}")
            else:
                done.append(f"{attempt} is done")
    finally:
        session.close()
    return "; ".join(done)


async def logs_nothing_unexpected(cluster: SecureCluster) -> str:
    """No traceback in a log of coterie's."""
    return "; ".join(f"{name} has a traceback" for name, text in cluster.logs().items() if "Traceback" in text)


SECURE_CHECKS: Mapping[str, Callable[[SecureCluster], Awaitable[str]]] = {
    "secured: Kafka joins over SASL_SSL": joins,
    "secured: a topic is in sync at all brokers, each of which leads": replicates,
    "secured: a user without an ACL is refused by both": refuses,
    "secured: Kafka obeys an ACL of coterie's": obeys_coteries_acl,
    "secured: coterie obeys ACLs of Kafka's tool": obeys_kafkas_acl,
    "secured: Kafka is killed and comes back": comes_back,
    "secured: ZooKeeper lets no stranger change or read": keeps_strangers_out_of_zookeeper,
    "secured: no traceback in a log": logs_nothing_unexpected,
}


def _in_sync(cluster: SecureCluster, brokers: list[int]) -> bool:
    try:
        return all(isr == brokers and leader in brokers for leader, isr in cluster.replicas_in_sync(TOPIC).values())
    except KafkaError:
        return False


async def _until(done: Callable[[], bool], description: str) -> None:
    """Raises NotInTime."""
    await wait_until(lambda: asyncio.to_thread(done), description)
