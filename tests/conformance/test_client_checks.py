"""The checks that `./run conformance` has our client pass against Apache Kafka, against coterie."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coterie.conformance.client import CHECKS, BrokerUnderTest
from coterie.testing import LocalBroker


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_our_client_on_our_broker(
    check: Callable[[BrokerUnderTest], Awaitable[None]], coterie_broker: LocalBroker
) -> None:
    asyncio.run(check(BrokerUnderTest(coterie_broker.bootstrap_servers, "c")))
