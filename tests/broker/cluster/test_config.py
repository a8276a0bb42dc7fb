"""A broker's settings as its part in the cluster takes them."""

from __future__ import annotations

from dataclasses import fields

from coterie.broker.cluster.config import ClusterConfig, cluster_config
from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.settings import BrokerSettings
from coterie.controller.elected.view import ControllerConfig
from coterie.replication.states import ReplicationConfig


def test_the_defaults_are_those_of_kafka() -> None:
    assert cluster_config(BrokerSettings()) == ClusterConfig(1)


def test_each_setting_arrives() -> None:
    """Every number is another, so that no two change places."""
    numbers = {
        "replica.fetch.max.bytes": 11,
        "replica.fetch.min.bytes": 12,
        "replica.fetch.response.max.bytes": 13,
        "replica.fetch.wait.max.ms": 14,
        "replica.socket.timeout.ms": 15,
        "replica.high.watermark.checkpoint.interval.ms": 16,
        "controller.socket.timeout.ms": 17,
        "controlled.shutdown.max.retries": 18,
        "controlled.shutdown.retry.backoff.ms": 19,
        "leader.imbalance.check.interval.seconds": 23,
        "leader.imbalance.per.broker.percentage": 24,
    }
    others = {
        "node.id": 7,
        "broker.rack": "r",
        "min.insync.replicas": 2,
        "replica.lag.time.max.ms": 21,
        "replica.fetch.backoff.ms": 22,
        "unclean.leader.election.enable": "true",
        "controlled.shutdown.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "listeners": "IN://127.0.0.1:9092",
        "listener.security.protocol.map": "IN:SASL_SSL",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "coterie.inter.broker.addresses": "10.0.0.0/8,10.1.1.1",
    }
    config = cluster_config(BrokerSettings(numbers | others), lost_power=True)
    assert {field.name: getattr(config, field.name) for field in fields(config)} == {
        **{name.replace(".", "_"): number for name, number in numbers.items()},
        "broker_id": 7,
        "rack": "r",
        "replication": ReplicationConfig(2, 21, 22),
        "unclean_leader_election_enable": True,
        "controlled_shutdown_enable": False,
        "auto_leader_rebalance_enable": False,
        "lost_power": True,
        "has_authorizer": True,
        "listener": "IN",
        "security_protocol": "SASL_SSL",
        "inter_broker_addresses": ("10.0.0.0/8", "10.1.1.1"),
    }


def test_the_controller_has_the_settings_of_its_broker() -> None:
    settings = {
        "node.id": 7,
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": "true",
        "auto.leader.rebalance.enable": "false",
        "leader.imbalance.check.interval.seconds": 23,
        "leader.imbalance.per.broker.percentage": 24,
    }
    config = cluster_config(BrokerSettings(settings), lost_power=True)
    driver = ControllerDriver(config, "node", lambda epoch: None, lambda effect: None, lambda: 0)
    assert driver.machine.config == ControllerConfig(
        7,
        "node",
        unclean_leader_election_enable=True,
        min_insync_replicas=2,
        auto_leader_rebalance_enable=False,
        leader_imbalance_per_broker_percentage=24,
        leader_imbalance_check_interval_seconds=23,
        lost_power=True,
    )
