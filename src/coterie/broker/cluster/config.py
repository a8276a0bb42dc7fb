"""The settings of a broker's part in the cluster, by Kafka's names and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import PLAINTEXT, client_listeners
from coterie.replication.states import ReplicationConfig


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
