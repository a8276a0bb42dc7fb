"""A broker joins a cluster: its topics, coordinators and views are bound to its membership."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from coterie.broker.cluster.config import ClusterConfig
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.cluster.member import ClusterMember
from coterie.broker.cluster.peer_connection import Dial
from coterie.broker.cluster.producer_id_blocks import ProducerIdBlocks
from coterie.broker.cluster.topic_changes import TopicAdministration
from coterie.broker.cluster.zookeeper_session import OpenSession
from coterie.broker.node import BrokerNode
from coterie.controller import nodes
from coterie.replication.states import TopicPartition


async def join(
    node: BrokerNode,
    address: tuple[str, int],
    config: ClusterConfig,
    cluster_id: str,
    open_session: OpenSession,
    dial: Dial = asyncio.open_connection,
    failed: Callable[[Exception], None] = lambda error: None,
) -> ClusterMember:
    """Returns once the broker, which serves at ``address``, is registered. ``failed``: as of `ClusterMember`. Raises
    ZooKeeperError."""
    node.cluster_id, now_ms, view = cluster_id, node.clock.now_ms, node.cluster
    hosted = HostedTopics(node.topics, node.settings, cluster_id, now_ms, node.role_changed, node.groups.topics_deleted)
    registration = nodes.broker(*address, config.rack, now_ms())
    member = ClusterMember(config, registration, view, hosted, now_ms, dial, failed)
    changes = TopicAdministration(node.settings, node.topics, view, member.driver.apply, random.Random())

    def updated(partitions: Iterable[TopicPartition]) -> None:
        hosted.announced(partitions)
        changes.view_changed()

    def forgotten(partitions: Iterable[TopicPartition]) -> None:
        hosted.forgotten(partitions)
        changes.view_changed()

    view.on_update, view.on_forget = updated, forgotten
    node.replica_effects.act, node.replica_effects.notify = member.manager.act, member.manager.notify
    node.member, node.topic_changes = member, changes
    await member.start(open_session)
    producer_ids = ProducerIdBlocks(config.broker_id, member.driver.apply)
    await producer_ids.reserve()
    node.transactions.take_ids_from(producer_ids)
    return member
