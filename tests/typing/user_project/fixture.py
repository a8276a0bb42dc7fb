"""A user's test with the pytest fixture."""

from __future__ import annotations

from typing import assert_type

from coterie.testing import ErrorCode, LocalBroker, LocalProxy


def a_coordinator_that_dies(coterie_cluster: LocalBroker) -> None:
    assert_type(coterie_cluster.coordinator_of("billing"), int)
    assert_type(coterie_cluster.transaction_coordinator_of("ledger"), int)
    assert_type(coterie_cluster.leader_of("orders", 0), int)
    assert_type(coterie_cluster.in_sync("orders", 0), set[int])
    assert_type(coterie_cluster.kill(1), None)
    assert_type(coterie_cluster.restart(1), None)
    assert_type(coterie_cluster.stop(1), None)
    assert_type(coterie_cluster.pause(2), None)
    assert_type(coterie_cluster.resume(2), None)
    assert_type(coterie_cluster.partition(2), None)
    assert_type(coterie_cluster.heal(), None)
    assert_type(coterie_cluster.move_leader("orders", 0, 2), None)
    assert_type(coterie_cluster.shrink_isr("orders", 0, to=[1, 2]), None)


def commits_that_fail(coterie_broker: LocalBroker) -> None:
    assert_type(coterie_broker.create_topic("orders", 2), None)
    assert_type(coterie_broker.produce("orders", b"one", b"two", partition=0), None)
    assert_type(coterie_broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR, times=1).api, str)
    assert_type(coterie_broker.bootstrap_servers, str)
    assert_type(coterie_broker.until_stable("billing", members=1), int)
    assert_type(coterie_broker.members("billing"), dict[str, str])
    assert_type(coterie_broker.until_committed("billing", {("orders", 0): 2}), None)
    assert coterie_broker.committed("billing")["orders", 0] == 2
    assert_type(coterie_broker.requested("OffsetCommit"), int)
    assert_type(coterie_broker.until_requested("Heartbeat", 2), None)
    assert_type(coterie_broker.move_coordinator("billing"), None)
    assert_type(coterie_broker.jump(60_000), None)
    assert_type(coterie_broker.expire("billing", "anna"), None)
    assert_type(coterie_broker.drop_connections("anna"), int)
    with coterie_broker.hold("JoinGroup", times=2) as rule:
        assert_type(coterie_broker.until_held(rule), None)
    assert_type(coterie_broker.lose_response("Heartbeat").times, int)
    assert_type(coterie_broker.delay("OffsetCommit", 500).times, int)
    assert_type(coterie_broker.cut("Fetch").times, int)
    assert_type(coterie_broker.story(), list[str])
    held = coterie_broker.hold_until_release("SyncGroup", group="billing")
    assert_type(held.times, int)
    assert_type(coterie_broker.release(held), None)
    assert_type(coterie_broker.lag("billing"), dict[tuple[str, int], int])
    assert_type(coterie_broker.until_lag("billing", at_most=0), int)
    assert_type(coterie_broker.client_settings("alice"), dict[str, str])
    with coterie_broker.deny("READ", group="billing") as denied:
        assert_type(denied, None)
    assert_type(coterie_broker.reset(), None)


def without_the_fixture() -> None:
    with LocalBroker({"num.partitions": "6"}) as broker:
        assert_type(broker, LocalBroker)
        assert_type(broker.explain("billing"), str)
    started = LocalBroker()
    assert_type(started.start(), LocalBroker)
    assert_type(started.stop(), None)


def before_a_cluster() -> None:
    with LocalProxy("kafka.example:9092", {"security.protocol": "SSL"}) as proxy:
        assert_type(proxy, LocalProxy)
        assert_type(proxy.bootstrap_servers, str)
        with proxy.hold("JoinGroup") as rule:
            assert_type(proxy.until_held(rule), None)
        assert_type(proxy.hold_until_release("SyncGroup").times, int)
        assert_type(proxy.release(rule), None)
        assert_type(proxy.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR).api, str)
        assert_type(proxy.lose_response("Heartbeat").times, int)
        assert_type(proxy.delay("OffsetCommit", 500).times, int)
        assert_type(proxy.cut("Fetch").times, int)
        assert_type(proxy.requested("OffsetCommit"), int)
        assert_type(proxy.until_requested("Heartbeat", 2), None)
        assert_type(proxy.drop_connections("anna"), int)
    started = LocalProxy("kafka.example:9092")
    assert_type(started.start(), LocalProxy)
    assert_type(started.stop(), None)
