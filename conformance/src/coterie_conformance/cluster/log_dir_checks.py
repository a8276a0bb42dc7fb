"""A log directory of Apache Kafka's broker fails: its replicas there give up leadership and leave the ISRs, the others stay,
every broker's metadata has the lost ones offline, also after the broker's next start, and they come back with the directory."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from coterie.client import Admin
from coterie.controller import nodes
from coterie_conformance.cluster.mixed import MixedBroker, MixedCluster, in_turn, wait_until
from coterie_conformance.cluster.replication_checks import fill, until_equal

PARTITIONS = 6


async def log_dir_fails(cluster: MixedCluster, broker_id: int, topic: str) -> str:
    """``broker_id``: of Apache Kafka's, which leads every third of the partitions. It notices the failure when it next writes
    the directory's checkpoint of high watermarks, within 5 s."""
    broker, others = cluster.brokers[broker_id], [b for b in cluster.running() if b != broker_id]
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.create_topic(topic, assignments=in_turn([broker_id, *others], PARTITIONS))
    await wait_until(lambda: cluster.are_in_sync(topic), f"all replicas of {topic} are in sync")
    await fill(cluster, topic, PARTITIONS)
    failing = broker.log_dirs[-1]
    lost = {number for number in range(PARTITIONS) if broker.log_folder(f"{topic}-{number}").parent == failing}
    if not lost or len(lost) == PARTITIONS:
        return f"{broker} has all of {topic} in one log directory: nothing was checked"
    before = {number: cluster.leader((topic, number)) for number in range(PARTITIONS)}
    try:
        _break(failing)
        await _until_lost(cluster, broker, topic, lost)
        await fill(cluster, topic, PARTITIONS)
        await _until_shown(cluster, broker, topic, lost)
        moved = {number for number, leader in before.items() if cluster.leader((topic, number)) != leader}
        await _restart(cluster, broker_id)  # with the directory that it has left
        await _until_lost(cluster, broker, topic, lost)
        await _until_shown(cluster, broker, topic, lost)
    finally:
        await _restart(cluster, broker_id, lambda: _mend(failing))
    await until_equal(cluster, topic)
    led = {number for number in lost if before[number] == broker_id}
    return "" if moved == led else f"the partitions {sorted(moved)} have other leaders, and {sorted(led)} should"


async def _restart(cluster: MixedCluster, broker_id: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    if cluster.brokers[broker_id].is_running:
        await asyncio.to_thread(cluster.stop, broker_id)
    meanwhile()
    await asyncio.to_thread(cluster.start, broker_id)


def _break(directory: Path) -> None:
    """No file can be created in it any more; open ones go on. (Permissions would not stop root.)"""
    shutil.rmtree(directory)
    directory.touch()


def _mend(directory: Path) -> None:
    if not directory.is_dir():
        directory.unlink()
        directory.mkdir()


async def _until_lost(cluster: MixedCluster, broker: MixedBroker, topic: str, lost: set[int]) -> None:
    """In ZooKeeper: another leader and an ISR without the broker of the lost replicas, whole ISRs of the others."""

    def wrong() -> str:
        for number in range(PARTITIONS):
            state = cluster.state((topic, number))
            if state is None or state.leader not in state.isr:
                return f"{topic}-{number} has no leader"
            out = {broker.broker_id} if number in lost else set()
            if set(state.isr) != set(state.replicas) - out:
                return f"{topic}-{number} has leader {state.leader} and ISR {state.isr}"
        return f"{nodes.LOG_DIR_EVENTS} has children" if cluster.names(nodes.LOG_DIR_EVENTS) else ""

    await wait_until(lambda: not wrong(), lambda: f"{broker} has lost {topic} {sorted(lost)}: {wrong()}")


async def _until_shown(cluster: MixedCluster, broker: MixedBroker, topic: str, lost: set[int]) -> None:
    """At each broker, also at the one whose directory has failed."""
    last = ""

    async def is_shown() -> bool:
        nonlocal last
        async for requested, topics in cluster.ask_each(Admin.describe_topics):
            for row in topics[topic].partitions:
                state = cluster.state((topic, row.partition))
                assert state is not None
                offline = [broker.broker_id] if row.partition in lost else []
                leader = None if row.leader is None else row.leader.id
                isr = {node.id for node in row.isr}
                last = f"{requested} shows {row}, and ZooKeeper has {state}"
                if (leader, isr, [node.id for node in row.offline_replicas]) != (state.leader, set(state.isr), offline):
                    return False
        return True

    await wait_until(is_shown, lambda: last)
