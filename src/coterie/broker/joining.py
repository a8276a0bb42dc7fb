"""A broker joins a cluster: its topics, coordinators and views are bound to its membership."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from coterie.broker.cluster.access_nodes import AclNodes, TokenNodes
from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.entity_settings import ClientEntities, EntitySettings
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.cluster.journal_sender import JournalSender
from coterie.broker.cluster.member import ClusterMember
from coterie.broker.cluster.peers.connections import Address, Dial, PeerRequests, open_stream
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.cluster.settings import AppliedSettings, ClusterConfig
from coterie.broker.cluster.topic_changes import TopicAdministration, ZooKeeperTopics
from coterie.broker.cluster.zookeeper.session import OpenSession
from coterie.broker.node import BrokerNode
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.broker.transactions.transaction_verification import TransactionVerification, VerifiedRequests
from coterie.controller import nodes
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.replication.states import TopicPartition


async def join(
    node: BrokerNode,
    address: tuple[str, int],
    config: ClusterConfig,
    cluster_id: str,
    open_session: OpenSession,
    dial: Dial = open_stream,
    failed: Callable[[Exception], None] = lambda error: None,
) -> ClusterMember:
    """Returns once the broker, which serves at ``address``, is registered. ``failed``: as of `ClusterMember`. Raises
    ZooKeeperError."""
    node.cluster_id, now_ms, view = cluster_id, node.clock.now_ms, node.cluster

    def known_of(topic: str) -> SettingsChanged | None:
        return applied.of_topic(topic)

    def topics_deleted(names: Iterable[str]) -> None:
        applied.topics_deleted(names)

    own = node.topics, node.flusher, node.settings, cluster_id, now_ms
    hosted = HostedTopics(
        *own,
        role_changed=node.role_changed,
        topics_deleted=topics_deleted,
        known_of=known_of,
        failed=failed,
    )
    registration = nodes.broker(*address, config.rack, now_ms(), (config.listener, config.security_protocol))
    member = ClusterMember(config, registration, view, hosted, node.fetch_sessions, now_ms, dial, failed)
    new_topic_id = None if node.lacks_topic_ids else lambda: uuid.uuid4().bytes
    changes = TopicAdministration(node.settings, node.topics, view, member.driver.apply, random.Random(), new_topic_id)

    def defaults_configured() -> None:
        defaults = node.settings.topic_defaults
        member.driver.configure_defaults(
            unclean_leader_election_enable=defaults.unclean_leader_election_enable,
            min_insync_replicas=defaults.min_insync_replicas,
        )

    applied = AppliedSettings(
        node, member.driver.read_settings, member.manager.replicas.topic_configured, defaults_configured
    )
    member.driver.settings_changed, member.control.with_settings = applied.changed, applied.with_settings
    member.manager.replicas.config_of = lambda partition: replace(
        config.replication, min_insync_replicas=hosted.min_insync_replicas(partition[0])
    )
    _bind_transactions(node, member, dial)

    _follow_view(view, hosted, member.manager, applied, changes, node.transactions)
    node.replica_effects.act, node.replica_effects.notify = member.manager.act, member.manager.notify
    node.member, node.topic_changes = member, changes
    node.share_persister.create_topic = lambda: changes.create_soon(SHARE_STATE_TOPIC)
    node.share.dead_letters.create_topic = changes.create_soon
    _follow_entities(node, member, applied)
    await member.start(open_session, node.serve)
    await member.driver.producer_ids()
    node.transactions.take_producer_id = member.driver.take_producer_id
    member.journal = _journal_sender(node, config, changes, member.driver.take_producer_id, dial)
    node.groups.journal.send = member.journal.add
    return member


def _follow_entities(node: BrokerNode, member: ClusterMember, applied: AppliedSettings) -> None:
    """The broker has the cluster's settings, users and quotas, with an authorizer its ACLs, and alters them there."""
    node.entity_settings = EntitySettings(member.driver.apply, applied.changed)
    node.client_entities = ClientEntities(node.entity_settings, node.clients, lacks_ips=node.lacks_topic_ids)
    applied.clients_changed = node.client_entities.changed
    if node.clients.acls is not None and node.settings.current.authorizer_class_name:
        node.acl_nodes = AclNodes(member.driver.apply, member.driver.acls_written)
        member.driver.acls_changed = node.clients.acls.replace
    tokens = node.clients.tokens
    if tokens.limits.secret:
        node.token_nodes = TokenNodes(member.driver.apply, tokens.put)
        member.driver.tokens_changed = lambda read: tokens.replace(read.tokens, is_all=read.is_all)


def _follow_view(
    view: ClusterView,
    hosted: HostedTopics,
    manager: ReplicaManager,
    applied: AppliedSettings,
    changes: TopicAdministration,
    transactions: TransactionCoordinator,
) -> None:
    def updated(partitions: Iterable[TopicPartition]) -> None:
        """Announced once their ids and settings are known; some may be deleted by then."""
        updates = list(partitions)

        def announce() -> None:
            hosted.announced([partition for partition in updates if partition in view.states])
            changes.view_changed()
            transactions.view_changed()

        applied.with_settings({topic for topic, _ in updates}, announce)

    def forgotten(partitions: Iterable[TopicPartition]) -> None:
        manager.forgotten(partitions)
        hosted.forgotten(partitions)
        changes.view_changed()
        transactions.view_changed()

    view.on_update, view.on_forget = updated, forgotten


def _bind_transactions(node: BrokerNode, member: ClusterMember, dial: Dial) -> None:
    """The broker's transaction coordinator gets what sends requests to those of others."""
    view, timeout_ms = node.cluster, member.config.replica_socket_timeout_ms

    def address(broker: int) -> Address | None:
        live = view.live.get(broker)
        return None if live is None else (live.host, live.port)

    markers, verifications = (
        PeerRequests(f"broker-{member.config.broker_id}-{what}", timeout_ms, address, dial)
        for what in ("txn-marker-sender", "txn-verification")
    )
    deleted_topics = ZooKeeperTopics(member.driver.apply)
    node.transactions.peers, node.transactions.deleted_topics = markers, deleted_topics
    verification = None
    if not node.lacks_topic_ids:
        verification = TransactionVerification(node.topics, view, node.transactions, verifications)
    node.verified_requests = VerifiedRequests(node.topics, verification)

    states = PeerRequests(f"broker-{member.config.broker_id}-share-state", timeout_ms, address, dial)
    node.share_persister.peers = node.share_ends.peers = states
    letters = PeerRequests(f"broker-{member.config.broker_id}-dead-letters", timeout_ms, address, dial)
    node.share.dead_letters.peers = letters

    async def close() -> None:
        node.transactions.close()
        for ending in (markers, verifications, deleted_topics, states, letters):
            await ending.close()

    member.at_end.append(close)


def _journal_sender(
    node: BrokerNode,
    config: ClusterConfig,
    changes: TopicAdministration,
    take_producer_id: Callable[[], int],
    dial: Dial,
) -> JournalSender:
    return JournalSender(
        config.controller_socket_timeout_ms,
        lambda: node.cluster.leader_address((JOURNAL_TOPIC, 0)),
        lambda: None if JOURNAL_TOPIC in node.topics.by_name else changes.create_soon(JOURNAL_TOPIC),
        take_producer_id,
        dial,
    )
