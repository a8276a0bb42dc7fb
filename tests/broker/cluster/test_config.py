"""A broker's settings as its part in the cluster takes them. One request with many items in a cluster: they are in
ZooKeeper's hands together, each broker keeps many with one write, and nobody waits for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.settings import ClusterConfig, cluster_config
from coterie.broker.settings import BrokerSettings
from coterie.client.connection.connection import Connection
from coterie.controller.elected.view import ControllerConfig
from coterie.replication.states import ReplicationConfig
from coterie.simulation.loop import SimulationLoop
from coterie.simulation.process import CURRENT
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.declaration import Message
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.incremental_alter_configs import (
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ONE_AFTER_THE_OTHER_S = 0.001  # of an item, at least: ZooKeeper is several messages away
LONGEST_S = 0.300  # of the processor, for which a bystander of that broker waits; 0.1 at rest, here beside other tests
REQUEST_S = 60.0
GROUP, TOPIC = 32, 2


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


def groups(count: int) -> Message:
    changes = [AlterableConfig("consumer.session.timeout.ms", SET, "50000")]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, f"g{n}", changes) for n in range(count)])


def unknown_topics(count: int) -> Message:
    changes = [AlterableConfig("retention.ms", SET, "1000")]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, f"t{n}", changes) for n in range(count)])


def quotas(count: int) -> Message:
    quota = [OpData("producer_byte_rate", 5.0)]
    return AlterClientQuotasRequest([EntryData([EntityData("user", f"u{n}")], quota) for n in range(count)])


MADE: dict[str, tuple[Callable[[int], Message], type[Any]]] = {
    "groups": (groups, IncrementalAlterConfigsResponse),
    "unknown topics": (unknown_topics, IncrementalAlterConfigsResponse),
    "quotas": (quotas, AlterClientQuotasResponse),
}


@pytest.fixture
def broker() -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(brokers=3)


def metered(loop: SimulationLoop, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time of each process in each turn of the loop from now on: a broker in a process of its own has no more."""
    turns: list[float] = []
    of_turn: dict[object, float] = {}
    once, run = loop._run_once, asyncio.Handle._run  # type: ignore[attr-defined]

    def run_once() -> None:
        of_turn.clear()
        once()
        turns.append(max(of_turn.values(), default=0.0))

    def run_handle(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
        of_turn[process] = of_turn.get(process, 0.0) + time.thread_time() - began_s

    monkeypatch.setattr(loop, "_run_once", run_once)
    monkeypatch.setattr(asyncio.Handle, "_run", run_handle)
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, 8_000])
@pytest.mark.parametrize("kind", MADE)
async def test_many_items_hold_nobody_up(
    broker: WorldBroker, kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, response = MADE[kind]
    turns = metered(broker.world.loop, monkeypatch)
    host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    connection = await Connection.connect(host, int(port), "test", REQUEST_S)
    await connection.request(request(1), response, REQUEST_S)
    turns.clear()
    began_s = broker.world.loop.time()
    await connection.request(request(count), response, REQUEST_S)
    took_s = broker.world.loop.time() - began_s
    assert took_s < count * ONE_AFTER_THE_OTHER_S, f"{count} {kind} take {took_s:.1f} s of virtual time"
    assert max(turns) < LONGEST_S, f"a bystander waits for {max(turns) * 1000:.0f} ms"
