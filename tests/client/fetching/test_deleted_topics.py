"""Topics that are deleted under a consumer."""

from __future__ import annotations

import asyncio
import re

import pytest

from coterie.client import Admin, Consumer, TopicPartition
from coterie.testing import LocalBroker
from tests.client.group import QUICK, polled, read

OF_PROTOCOL = {"classic": QUICK, "consumer": {n: v for n, v in QUICK.items() if n != "heartbeat.interval.ms"}}


@pytest.mark.parametrize("protocol", OF_PROTOCOL)
async def test_a_topic_that_is_deleted_does_not_hold_up_the_others(coterie_broker: LocalBroker, protocol: str) -> None:
    """KAFKA-16235: the automatic commit before the rebalance names it, and no coordinator takes that any more."""
    coterie_broker.create_topic("t-1", 1)
    coterie_broker.create_topic("t-2", 1)
    coterie_broker.produce("t-1", b"a")
    coterie_broker.produce("t-2", b"b")
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    group = {"group.id": "g", "group.protocol": protocol}
    async with Consumer(OF_PROTOCOL[protocol] | address | group) as consumer, Admin(address) as admin:
        consumer.subscribe(re.compile("t-.*"))
        assert set(await read(consumer, 2)) == {b"a", b"b"}
        await admin.delete_topic("t-1")
        async with asyncio.timeout(10):
            await polled(consumer, lambda: consumer.assignment() == {TopicPartition("t-2", 0)})
        coterie_broker.produce("t-2", b"c")
        assert await read(consumer) == [b"c"]
    assert coterie_broker.committed("g") == {("t-2", 0): 2}


async def test_a_rebalance_does_not_create_a_deleted_topic_again(coterie_broker: LocalBroker) -> None:
    """The leader looks the group's topics up. Those of its own pattern are none that anybody asked to create."""
    coterie_broker.create_topic("t-1", 1)
    coterie_broker.create_topic("t-2", 1)
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    group = {"group.id": "g", "metadata.max.age.ms": 300_000}
    async with Consumer(QUICK | address | group) as consumer, Admin(address) as admin:
        consumer.subscribe(re.compile("t-.*"))
        await polled(consumer, lambda: len(consumer.assignment()) == 2)
        await admin.delete_topic("t-1")
        generation = consumer.generation
        consumer.enforce_rebalance()
        await polled(consumer, lambda: consumer.generation > generation)
        assert "t-1" not in await admin.describe_topics()
