"""Settings of a broker in a cluster: of its part there, by Kafka's names and with Kafka's defaults; and what was altered in
ZooKeeper, put in force at this broker (Kafka's TopicConfigHandler and BrokerConfigHandler)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from coterie.broker.requests.turns import finish
from coterie.broker.settings import TOPIC_SETTINGS, BrokerSettings, SettingError
from coterie.broker.settings.altered_settings import KeptConfigs, Resource, ResourceType, check_dynamic
from coterie.broker.settings.features import Features
from coterie.broker.settings.listeners import PLAINTEXT, client_listeners
from coterie.broker.settings.tables.resource_tables import check_group_settings, client_metrics_config
from coterie.broker.storage.topics import Topics
from coterie.controller import nodes
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.replication.states import ReplicationConfig
from coterie.wire.errors import Refusal

logger = logging.getLogger(__name__)

_KEPT_KINDS = {
    nodes.BROKERS_KIND: ResourceType.BROKER,
    nodes.GROUPS_KIND: ResourceType.GROUP,
    nodes.CLIENT_METRICS_KIND: ResourceType.CLIENT_METRICS,
}


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """``replication``: what the pure replicas use. unclean.leader.election.enable is the cluster's default for topics;
    ``lost_power`` as in `ControllerConfig`; ``has_authorizer``: ACLs say who may send what brokers send; ``listener``: the
    one by which brokers and clients reach this one, of that ``security_protocol``."""

    broker_id: int
    rack: str | None = None
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    unclean_leader_election_enable: bool = False
    lost_power: bool = False
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_socket_timeout_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    controller_socket_timeout_ms: int = 30_000
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: int = 5_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    has_authorizer: bool = False
    listener: str = PLAINTEXT
    security_protocol: str = PLAINTEXT
    inter_broker_addresses: tuple[str, ...] = ()


def cluster_config(settings: BrokerSettings, *, lost_power: bool = False) -> ClusterConfig:
    """A broker's settings as far as its part in the cluster goes."""
    own, topics = settings.current, settings.topic_defaults
    listener = client_listeners(settings)[0]
    return ClusterConfig(
        own.node_id,
        own.broker_rack,
        ReplicationConfig(topics.min_insync_replicas, own.replica_lag_time_max_ms, own.replica_fetch_backoff_ms),
        topics.unclean_leader_election_enable,
        lost_power,
        replica_fetch_max_bytes=own.replica_fetch_max_bytes,
        replica_fetch_min_bytes=own.replica_fetch_min_bytes,
        replica_fetch_response_max_bytes=own.replica_fetch_response_max_bytes,
        replica_fetch_wait_max_ms=own.replica_fetch_wait_max_ms,
        replica_socket_timeout_ms=own.replica_socket_timeout_ms,
        replica_high_watermark_checkpoint_interval_ms=own.replica_high_watermark_checkpoint_interval_ms,
        controller_socket_timeout_ms=own.controller_socket_timeout_ms,
        controlled_shutdown_enable=own.controlled_shutdown_enable,
        controlled_shutdown_max_retries=own.controlled_shutdown_max_retries,
        controlled_shutdown_retry_backoff_ms=own.controlled_shutdown_retry_backoff_ms,
        auto_leader_rebalance_enable=own.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=own.leader_imbalance_check_interval_seconds,
        leader_imbalance_per_broker_percentage=own.leader_imbalance_per_broker_percentage,
        has_authorizer=bool(own.authorizer_class_name),
        listener=listener.name,
        security_protocol=listener.security_protocol,
        inter_broker_addresses=own.coterie_inter_broker_addresses,
    )


class ConfiguredBroker(Protocol):
    """What applying settings uses of a broker."""

    topics: Topics
    settings: BrokerSettings
    kept_configs: KeptConfigs
    features: Features
    node_id: int

    def apply_kept_settings(self, altered: Collection[Resource]) -> Generator[None, None, None]:
        """Puts the settings of the altered resources in force, a topic or a group with each step. Raises SettingError."""


class _Wait(NamedTuple):
    """``then`` is to be called once the settings of all ``topics`` are known."""

    topics: frozenset[str]
    unread: set[str]
    then: Callable[[], None]


@contextmanager
def _logged(subject: str) -> Iterator[None]:
    try:
        yield
    except (Refusal, SettingError, OSError, ValueError) as error:
        logger.error("the settings of %s are not put in force: %s", subject, error)


class AppliedSettings:
    """``read`` requests the settings of a kind and name, which come to `changed`; ``topic_configured`` is called after a topic
    has other settings, ``defaults_configured`` after the broker has; ``clients_changed`` gets what users, client ids and
    addresses have. What is not valid here, a tool's mistake, is logged, and the settings before stay in force."""

    def __init__(
        self,
        broker: ConfiguredBroker,
        read: Callable[[str, str], None],
        topic_configured: Callable[[str], None],
        defaults_configured: Callable[[], None],
    ) -> None:
        self._broker, self._read = broker, read
        self._topic_configured, self._defaults_configured = topic_configured, defaults_configured
        self.clients_changed: Callable[[list[SettingsChanged]], None] = lambda changes: None
        # As far as they were read since the start, what is valid of it.
        self._of_topics: dict[str, SettingsChanged] = {}
        self._waiting: list[_Wait] = []

    def of_topic(self, name: str) -> SettingsChanged | None:
        """The valid settings and the id; None where they have not been read."""
        return self._of_topics.get(name)

    def with_settings(self, topics: Iterable[str], then: Callable[[], None]) -> None:
        """Calls ``then`` once the settings of the topics have been read."""
        topics = list(topics)
        unread = {topic for topic in topics if topic not in self._of_topics or not self._of_topics[topic].exists}
        if not unread:
            then()
            return
        self._waiting.append(_Wait(frozenset(topics), unread, then))
        for topic in sorted(unread):
            self._read(nodes.TOPICS_KIND, topic)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """A topic of such a name that is created later has settings of its own."""
        for name in names:
            self._of_topics.pop(name, None)

    def changed(self, changes: Iterable[SettingsChanged]) -> None:
        """As ZooKeeper has them now. What the broker keeps in its file is written once."""
        kept: dict[Resource, dict[str, str]] = {}
        of_clients: list[SettingsChanged] = []
        for change in changes:
            with _logged(f"{change.kind}/{change.name}"):
                if change.kind == nodes.TOPICS_KIND:
                    self._topic_changed(change)
                elif change.kind == nodes.FEATURES_KIND:
                    self._broker.features.replace(change.settings)
                elif change.kind in nodes.CLIENT_KINDS:
                    of_clients.append(change)
                elif change.kind in _KEPT_KINDS:
                    kept |= self._checked(change, _KEPT_KINDS[change.kind])
        self.clients_changed(of_clients)
        if kept:
            with _logged(", ".join(f"{kind.name}/{name}" for kind, name in kept)):
                self._keep(kept)

    def _topic_changed(self, change: SettingsChanged) -> None:
        topics, name = self._broker.topics, change.name
        topic = topics.by_name.get(name)
        valid = self._valid(name, change.settings)
        if valid is None:
            valid = {} if topic is None else topic.configs
        self._of_topics[name] = replace(change, settings=valid)
        try:
            if topic is not None and topic.configs != valid:
                topics.configure(topic, valid)
                self._topic_configured(name)
        finally:
            self._settings_known(name)

    def _valid(self, name: str, settings: Mapping[str, str]) -> dict[str, str] | None:
        """Without the names of a later Kafka. None where a value cannot be."""
        unknown = sorted(settings.keys() - TOPIC_SETTINGS.keys())
        if unknown:
            logger.warning(
                "the settings %s of topic %s are unknown here; they have no effect", ", ".join(unknown), name
            )
        try:
            return self._broker.topics.check_configs({n: v for n, v in settings.items() if n in TOPIC_SETTINGS})
        except Refusal as refusal:
            logger.error("the settings of topic %s are not put in force: %s", name, refusal)
            return None

    def _settings_known(self, topic: str) -> None:
        waiting, self._waiting = self._waiting, []
        known = {topic}
        for wait in waiting:
            wait.unread.discard(topic)
            if wait.unread:
                self._waiting.append(wait)
            else:
                wait.then()
                known |= wait.topics
        awaited = frozenset[str]().union(*(wait.topics for wait in self._waiting))
        for name in known - awaited - self._broker.topics.by_name.keys():
            self._of_topics.pop(name, None)  # it was deleted, and is perhaps created again with others

    def _checked(self, change: SettingsChanged, kind: ResourceType) -> dict[Resource, dict[str, str]]:
        """Empty for what is not this broker's, or as before. Raises SettingError, Refusal."""
        broker, settings = self._broker, dict(change.settings)
        name = "" if change.name == nodes.DEFAULT_ENTITY else nodes.unsanitized(change.name)
        is_here = kind is not ResourceType.BROKER or name in ("", str(broker.node_id))
        if not is_here or broker.kept_configs.of(kind, name) == settings:
            return {}
        if kind is ResourceType.BROKER:
            check_dynamic(broker.settings, settings, cluster=not name)
        elif kind is ResourceType.GROUP:
            check_group_settings(broker.settings, settings)
        else:
            client_metrics_config(settings)
        return {(kind, name): settings}

    def _keep(self, altered: dict[Resource, dict[str, str]]) -> None:
        """Raises OSError, SettingError."""
        broker = self._broker
        broker.kept_configs.replace(altered)
        finish(broker.apply_kept_settings(altered))
        if any(kind is ResourceType.BROKER for kind, _ in altered):
            for topic in list(broker.topics.by_name):
                self._topic_configured(topic)
            self._defaults_configured()
