"""A share group on coterie's broker in virtual time, for the tests of share consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from coterie.client import KafkaError, Producer, ShareConsumer, ShareRecord, TopicPartition
from coterie.client.connection.connection import Connection
from coterie.testing import simulate
from coterie.testing.simulated import SimulatedWorld, WorldBroker
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.async_tests import AsyncTest, run_by

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
EXPLICIT = {"share.acknowledgement.mode": "explicit"}
GROUP_RESOURCE, SET, LIMIT_S = 32, 0, 600.0
Reports = list[tuple[dict[TopicPartition, set[int]], KafkaError | None]]


class ShareGroups:
    """A broker with the topic t, of one partition; groups begin at its first records."""

    def __init__(self, broker: WorldBroker) -> None:
        self.broker = broker
        self.address = {"bootstrap.servers": broker.bootstrap_servers}

    async def set(self, group: str, **settings: str) -> None:
        wanted = {"share_auto_offset_reset": "earliest"} | settings
        changes = [AlterableConfig(name.replace("_", "."), SET, value) for name, value in wanted.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, changes)], False)
        connection = await Connection.connect(self.broker.host, self.broker.port, "test", 30.0)
        response = await connection.request(request, IncrementalAlterConfigsResponse, 30.0)
        connection.close()
        assert not response.responses[0].error_code

    def consumer(self, group: str = "g", **settings: object) -> ShareConsumer[Any, Any]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return ShareConsumer({**self.address, "group.id": group, **named})

    async def send(self, *values: bytes, topic: str = "t", partition: int = 0, **fields: Any) -> None:
        """In one batch."""
        async with Producer(self.address | {"linger.ms": 100}) as producer:
            await asyncio.gather(
                *[await producer.send(topic, value, partition=partition, **fields) for value in values]
            )


@contextmanager
def share_groups(
    settings: Mapping[str, object] | None = None, brokers: int = 1
) -> Iterator[tuple[SimulatedWorld, ShareGroups]]:
    """A world with a broker, or a cluster; the group g begins at the first records."""
    with simulate(1) as world:
        broker = world.broker({"auto.create.topics.enable": "false"} | dict(settings or {}), brokers=brokers)
        broker.create_topic("t", 1)
        groups = ShareGroups(broker)
        world.run(groups.set("g"))
        yield world, groups


def in_share_groups(settings: Mapping[str, object] | None = None) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with the groups of one broker."""

    def run(test: AsyncTest) -> None:
        with share_groups(settings) as (world, groups):
            world.run(test(groups), LIMIT_S)

    return run_by(run)


async def polled(consumer: ShareConsumer[Any, Any], count: int = 1) -> list[ShareRecord[Any, Any]]:
    """The records of the first polls that bring so many."""
    records: list[ShareRecord[Any, Any]] = []
    for _ in range(60):
        records += [record for partition in (await consumer.poll(1000)).values() for record in partition]
        if len(records) >= count:
            return records
    raise AssertionError(f"{len(records)} records came")


def counts(records: list[ShareRecord[Any, Any]]) -> list[tuple[int, int]]:
    return [(record.offset, record.delivery_count) for record in records]
