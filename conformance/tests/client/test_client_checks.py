"""The checks that `./run conformance` has our client pass against Apache Kafka, against coterie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie.coordinator.consumer import regexes
from coterie.testing import LocalBroker
from coterie_conformance.client.admin_calls import ADMIN_CHECKS
from coterie_conformance.client.checks import CHECKS, BrokerUnderTest
from coterie_conformance.client.consumer_groups import CONSUMER_GROUP_CHECKS


@pytest.mark.parametrize("check", CHECKS + ADMIN_CHECKS, ids=lambda check: check.__name__)
def test_our_client_on_our_broker(
    check: Callable[[BrokerUnderTest], Coroutine[Any, Any, None]], coterie_broker: LocalBroker
) -> None:
    asyncio.run(check(BrokerUnderTest(coterie_broker.bootstrap_servers, "c")))


@pytest.mark.parametrize("check", CONSUMER_GROUP_CHECKS, ids=lambda check: check.__name__)
def test_the_consumer_protocol_on_our_broker(
    check: Callable[[BrokerUnderTest], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "MIN_REFRESH_INTERVAL_MS", 500)  # 10 s in Kafka, which a new topic would wait for
    quick = {
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 50,
        "group.consumer.assignment.interval.ms": 0,
    }
    with LocalBroker(quick) as broker:
        asyncio.run(check(BrokerUnderTest(broker.bootstrap_servers, "c")))
