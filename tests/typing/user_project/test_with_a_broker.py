"""A user's test with the pytest fixture."""

from __future__ import annotations

from typing import assert_type

from coterie.testing import ErrorCode, LocalBroker


def test_a_commit_that_fails(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 2)
    coterie_broker.produce("orders", b"one", b"two", partition=0)
    coterie_broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR, times=1)
    assert_type(coterie_broker.bootstrap_servers, str)
    assert_type(coterie_broker.until_stable("billing", members=1), int)
    assert_type(coterie_broker.members("billing"), dict[str, str])
    assert coterie_broker.committed("billing")["orders", 0] == 2


def test_without_the_fixture() -> None:
    with LocalBroker({"num.partitions": "6"}) as broker:
        assert_type(broker, LocalBroker)
        assert_type(broker.explain("billing"), str)
