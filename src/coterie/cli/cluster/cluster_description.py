"""A cluster as `coterie cluster describe` shows it, counted from its metadata."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, cast

from coterie.cli.parts.json_figures import ClusterBrokerRow, ClusterFigures
from coterie.text.addresses import format_address

KNOWN_S, LOOK_S = 30.0, 0.05
SESSION_MS = 10_000

if TYPE_CHECKING:
    from coterie.cli.cluster.cluster_processes import LocalCluster
    from coterie.client import KafkaError
    from coterie.client.admin_types import Node


async def describe_cluster(
    client: dict[str, str], local: LocalCluster | None
) -> tuple[ClusterFigures, list[KafkaError]]:
    """``local``: the processes of a folder, beside what the brokers report. With the errors of the topics that are not
    described, which no figure counts. Raises KafkaError."""
    from coterie.client import Admin
    from coterie.client.errors import error_about

    async with Admin(client) as admin:
        described = await admin.describe_cluster()
        topics = (await admin.describe_topics()).values()
    partitions = [partition for topic in topics for partition in topic.partitions]
    leads = Counter(p.leader.id for p in partitions if p.leader is not None)
    replicas = Counter(node.id for p in partitions for node in p.replicas)
    lagging = [{node.id for node in p.replicas} - {node.id for node in p.isr} for p in partitions]
    behind = Counter(broker for brokers in lagging for broker in brokers)
    live = {node.id: node for node in described.nodes}
    every = sorted(live.keys() | replicas.keys() | (set() if local is None else local.state.brokers.keys()))
    rows: list[ClusterBrokerRow] = []
    for broker in every:
        row: ClusterBrokerRow = {
            "broker": broker,
            "address": _address(live.get(broker), broker, local),
            "rack": live[broker].rack if broker in live else None,
            "is_live": broker in live,
            "leads": leads[broker],
            "replicas": replicas[broker],
            "under_replicated": behind[broker],
        }
        if local is not None:
            row["pid"] = local.pid(broker) if broker in local.state.brokers else None
        rows.append(row)
    figures: ClusterFigures = {
        "cluster_id": described.cluster_id,
        "controller": None if described.controller is None else described.controller.id,
        "brokers": rows,
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": sum(map(bool, lagging)),
        "leaderless": sum(1 for p in partitions if p.leader is None),
    }
    if local is not None:
        figures["zookeeper"], figures["zookeeper_pid"] = local.zookeeper, local.zookeeper_pid()
    return figures, [error_about(topic.error, f"topic {topic.name}") for topic in topics if topic.error]


async def until_known(local: LocalCluster, stop: asyncio.Event) -> None:
    """Until each broker knows all of them and a controller, so that a topic can have its replicas on any, and every topic of
    the cluster: a new controller sends the brokers first (KafkaController.onControllerFailover), and until its second
    UpdateMetadata a broker responds that a topic does not exist. Or for `KNOWN_S`, or until ``stop``."""
    end_s = time.monotonic() + KNOWN_S
    topics = await asyncio.to_thread(existing_topics, local.zookeeper)
    for broker in sorted(local.state.brokers):
        while not stop.is_set() and time.monotonic() < end_s and not await knows_all(local, broker, topics):
            await asyncio.sleep(LOOK_S)


def existing_topics(zookeeper: str) -> set[str]:
    """The topics of a cluster by its ZooKeeper, at HOST:PORT, without those in deletion; none where it does not respond."""
    from coterie.controller.nodes import DELETED_TOPICS
    from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
    from coterie.zookeeper.operations import List, ZooKeeperError
    from coterie.zookeeper.paths import TOPICS

    try:
        session = ZooKeeperSession(connect(zookeeper, SESSION_MS, SESSION_MS), lambda _: None, lambda _: None)
        try:
            topics, deleted = (cast("list[str]", session.apply(List(path))) for path in (TOPICS, DELETED_TOPICS))
        finally:
            session.close()
    except ZooKeeperError:
        return set()
    return set(topics) - set(deleted)


async def knows_all(local: LocalCluster, broker: int, topics: set[str]) -> bool:
    """Whether a broker knows the cluster's brokers, a controller and these topics."""
    from coterie.client import Admin, KafkaError

    try:
        async with Admin(local.client_settings(broker)) as admin:
            described = await admin.describe_cluster()
            known = (await admin.describe_topics()).keys()
    except KafkaError:
        return False
    nodes = {node.id for node in described.nodes}
    return described.controller is not None and nodes >= local.state.brokers.keys() and known >= topics


def _address(node: Node | None, broker: int, local: LocalCluster | None) -> str | None:
    if node is not None:
        return format_address(node.host, node.port)
    return local.address(broker) if local is not None and broker in local.state.brokers else None
