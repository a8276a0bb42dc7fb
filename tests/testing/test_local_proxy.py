"""The fixture ``coterie_proxy``: a cluster that somebody else runs, and the faults of a `LocalBroker` before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client import ConfigError
from coterie.client.blocking import BlockingConsumer
from coterie.testing import ErrorCode, LocalBroker, LocalProxy

Proxied = Callable[..., LocalProxy]


def test_a_commit_fails_at_the_proxy_and_is_retried(coterie_broker: LocalBroker, coterie_proxy: Proxied) -> None:
    coterie_broker.create_topic("orders")
    coterie_broker.produce("orders", b"one")
    proxy = coterie_proxy(coterie_broker.bootstrap_servers)
    settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    with BlockingConsumer(settings | {"enable.auto.commit": "false"}) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.poll(1000):
            pass
        proxy.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2, group="billing")
        consumer.commit()
        assert proxy.requested("OffsetCommit") == 3
        assert coterie_broker.requested("OffsetCommit") == 1
        proxy.cut("OffsetCommit", client_id="coterie")
        consumer.commit()
        assert proxy.drop_connections("coterie") > 0
        consumer.commit()
    coterie_broker.until_committed("billing", {("orders", 0): 1})


def test_what_waits_is_seen(coterie_cluster: LocalBroker, coterie_proxy: Proxied) -> None:
    proxy = coterie_proxy(coterie_cluster.bootstrap_servers)
    coterie_cluster.create_topic("orders")
    with proxy.hold("JoinGroup", group="billing") as held:
        settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "billing"}
        consumer = BlockingConsumer(settings)
        consumer.subscribe(["orders"])
        proxy.until_held(held)
        assert coterie_cluster.requested("JoinGroup") == 0
    coterie_cluster.until_stable("billing", members=1)
    consumer.close()


def test_a_proxy_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="the proxy does not run"):
        LocalProxy("127.0.0.1:9092").cut("Fetch")
    with pytest.raises(ConfigError):
        LocalProxy("nowhere")
    with pytest.raises(ValueError, match="there is no Fetsch"):
        LocalProxy("127.0.0.1:9092").fail("Fetsch", "NOT_COORDINATOR")
