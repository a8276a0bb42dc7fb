"""Our client with group.protocol=consumer (KIP-848) against a real broker: checks as those of `client`, for brokers that serve
ConsumerGroupHeartbeat, such as Apache Kafka from 4.0 on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from coterie.client import Consumer, SubscriptionPattern
from coterie_conformance.client.checks import BrokerUnderTest, share, until

SINCE = "4.3.0"  # of the versions that `./run conformance` starts
CROWD, RECORDS = 6, 60


def member(broker: BrokerUnderTest, group: str, **more: Any) -> Consumer:
    """A consumer; with ``group_protocol="classic"`` one of the classic protocol."""
    given = {key.replace("_", "."): value for key, value in more.items()}
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": broker.name(group)}
    quick = {"group.protocol": "consumer", "auto.offset.reset": "earliest", "metadata.max.age.ms": 500}
    return Consumer(settings | quick | given)


async def _topic(broker: BrokerUnderTest, suffix: str) -> str:
    topic = await broker.topic(suffix, CROWD)
    async with broker.producer() as producer:
        deliveries = [await producer.send(topic, b"%d" % n, partition=n % CROWD) for n in range(RECORDS)]
        await asyncio.gather(*deliveries)
    return topic


async def three_of_which_one_is_removed(broker: BrokerUnderTest) -> None:
    """Three share; one is removed by an administrator, is fenced, loses everything and comes back."""
    topic, group = await _topic(broker, "three"), broker.name("three")
    crew = [member(broker, "three", group_instance_id=name) for name in ("a", "b", "c")]
    for consumer in crew:
        consumer.subscribe([topic])
    await share(crew, [2, 2, 2])
    for consumer in crew:
        await consumer.commit()
    member_ids = {consumer.group_metadata().member_id for consumer in crew}
    async with broker.admin() as admin:
        described = await admin.describe_consumer_group(group)
        assert {m.member_id for m in described.members} == member_ids, described
        await admin.remove_members_from_consumer_group(group, ["c"])
    for consumer in crew[:2]:
        await consumer.poll(50)
    await share(crew, [2, 2, 2])
    for consumer in crew:
        await consumer.close()


async def three_of_which_one_leaves(broker: BrokerUnderTest) -> None:
    """What it had read is committed; the others have its partitions at once, and read no record a second time."""
    topic = await _topic(broker, "leaves")
    crew = [member(broker, "leaves") for _ in range(3)]
    for consumer in crew:
        consumer.subscribe([topic])
    await share(crew, [2, 2, 2])

    async def all_read() -> bool:
        for consumer in crew:
            await consumer.poll(20)
        return sum(consumer.metrics()["records_consumed"] for consumer in crew) >= RECORDS

    await until(all_read, "every record")
    leaver = crew.pop()
    await leaver.close()
    await share(crew, [3, 3])
    total = sum(consumer.metrics()["records_consumed"] for consumer in [*crew, leaver])
    assert total == RECORDS, f"{total} records of {RECORDS}"
    for consumer in crew:
        await consumer.close()


async def a_pattern_of_the_broker(broker: BrokerUnderTest) -> None:
    """Topics that match a SubscriptionPattern, now and later (Kafka looks at most every 10 s)."""
    await broker.topic("re2-a")
    async with member(broker, "re2", group_remote_assignor="range") as consumer:
        consumer.subscribe(SubscriptionPattern(re.escape(broker.name("re2-")) + "[a-z]"))
        await share([consumer], [1])
        await broker.topic("re2-b", 2)
        await share([consumer], [3])


async def a_static_member_returns(broker: BrokerUnderTest) -> None:
    """It has its partitions again, in the group's epoch of before."""
    topic = await _topic(broker, "stays")
    one, two = (member(broker, "stays", group_instance_id=name) for name in ("one", "two"))
    for consumer in (one, two):
        consumer.subscribe([topic])
    await share([one, two], [3, 3])
    epoch, held = one.generation, two.assignment()
    await two.close()
    two = member(broker, "stays", group_instance_id="two")
    two.subscribe([topic])
    await share([one, two], [3, 3])
    assert (one.generation, two.assignment()) == (epoch, held)
    await one.close()
    await two.close()


async def a_live_group_goes_up_and_down(broker: BrokerUnderTest) -> None:
    """A classic member makes way for one of the consumer protocol, and that for a classic one, both kinds in one group."""
    topic = await _topic(broker, "moves")
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": 200}
    one, two = (member(broker, "moves", **classic) for _ in range(2))
    for consumer in (one, two):
        consumer.subscribe([topic])
    await share([one, two], [3, 3])
    new = member(broker, "moves")
    new.subscribe([topic])
    await share([one, two, new], [2, 2, 2])
    await one.close()
    await share([two, new], [3, 3])
    await new.close()
    await share([two], [6])
    await two.commit()
    await two.close()


CONSUMER_GROUP_CHECKS: tuple[Callable[[BrokerUnderTest], Awaitable[None]], ...] = (
    three_of_which_one_leaves,
    three_of_which_one_is_removed,
    a_pattern_of_the_broker,
    a_static_member_returns,
    a_live_group_goes_up_and_down,
)
