"""`Consumer.enforce_rebalance`, and what `close` does with the membership: both protocols, static and dynamic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from coterie.client import ConfigError, Consumer, GroupMembershipOperation, RebalanceListener, TopicPartition
from coterie.client.blocking import BlockingConsumer
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread
from tests.client.consumer.test_consumer_membership import QUICK as QUICK_CONSUMER
from tests.client.consumer.test_consumer_membership import QUICK_BROKER
from tests.client.group import QUICK, member, polled, settled

DEFAULT, LEAVE, REMAIN = (GroupMembershipOperation(name) for name in ("default", "leave_group", "remain_in_group"))
CLASSIC: dict[str, Any] = QUICK


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(QUICK_BROKER) as running:
        running.create_topic("t", 2)
        yield running


@pytest.mark.parametrize("settings", [CLASSIC, QUICK_CONSUMER], ids=["classic", "consumer"])
@pytest.mark.parametrize(
    ("instance_id", "operation", "remains"),
    [
        (None, DEFAULT, False),
        (None, LEAVE, False),
        (None, REMAIN, True),
        ("i", DEFAULT, True),
        ("i", LEAVE, False),
        ("i", REMAIN, True),
    ],
)
async def test_what_closing_does_with_the_membership(
    broker: LocalBroker, settings: dict[str, Any], instance_id: str | None, operation: Any, remains: bool
) -> None:
    """KIP-1092: after LEAVE_GROUP the next member owns everything at once."""
    address = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    own = {} if instance_id is None else {"group.instance.id": instance_id}
    one = await settled(Consumer(address | settings | own), 2)
    assert len(broker.members("g")) == 1
    await one.close(group_membership_operation=operation)
    assert len(broker.members("g")) == remains
    if not remains:
        async with Consumer(address | settings) as two:
            await settled(two, 2)


async def test_enforce_rebalance(broker: LocalBroker) -> None:
    """testEnforceRebalanceTriggersRebalanceOnNextPoll: all members join again, and own what they owned."""
    async with member(broker, "one") as one, member(broker, "two") as two:
        for consumer in (one, two):
            consumer.subscribe(["t"])

        async def both_polled(generation: int) -> None:
            def is_shared() -> bool:
                return one.generation == two.generation >= generation and len(one.assignment()) == 1

            await asyncio.gather(polled(one, is_shared), polled(two, is_shared))

        await both_polled(1)
        generation = one.generation
        one.enforce_rebalance()
        await both_polled(generation + 1)
        assert one.generation == generation + 1


async def test_enforce_rebalance_needs_a_subscription(broker: LocalBroker) -> None:
    """testEnforceRebalanceWithManualAssignment"""
    async with member(broker) as one:
        with pytest.raises(ConfigError, match="call subscribe first"):
            one.enforce_rebalance()
        await one.assign([("t", 0)])
        with pytest.raises(ConfigError, match="call subscribe first"):
            one.enforce_rebalance()
        await one.unsubscribe()
        one.subscribe(["t"])
        one.enforce_rebalance("before the first poll, and so without effect")
        with pytest.raises(TypeError, match="reason must be a str"):
            one.enforce_rebalance(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a GroupMembershipOperation, not str"):
        await member(broker).close(group_membership_operation="leave")  # type: ignore[arg-type]


async def test_the_consumer_protocol_has_no_enforced_rebalance(
    broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    address = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    async with Consumer(address | QUICK_CONSUMER) as one:
        await settled(one, 2)
        epoch = one.generation
        with caplog.at_level(logging.WARNING):
            one.enforce_rebalance()
        assert "enforce_rebalance has no effect with group.protocol=consumer" in caplog.text
        await one.poll(100)
        assert one.generation == epoch


def test_the_blocking_consumer(broker: LocalBroker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "group.instance.id": "i"}
    one = BlockingConsumer(CLASSIC | settings)
    one.subscribe(["t"])

    def owns_later_than(generation: int) -> bool:
        one.poll(10)
        return one.generation > generation and len(one.assignment()) == 2

    until_in_thread(lambda: owns_later_than(0), "it has joined")
    generation = one.generation
    one.enforce_rebalance("the weights changed")
    until_in_thread(lambda: owns_later_than(generation), "a generation more")
    one.close(group_membership_operation=LEAVE)
    assert broker.members("g") == {}


async def test_an_unsubscribe_whose_listener_raises_assigns_nothing_any_more(broker: LocalBroker) -> None:
    class Raising(RebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            raise LookupError("no such store")

    async with member(broker) as consumer:
        await settled(consumer, 2)
        consumer.subscribe(["t"], Raising())
        with pytest.raises(LookupError, match="no such store"):
            await consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert broker.members("g") == {}
        await consumer.assign([("t", 0)])
