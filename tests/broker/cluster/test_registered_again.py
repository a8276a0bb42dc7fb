"""What a broker of a cluster does beside others' nodes: producer ids beside Kafka, and roles that end with its registration."""

from __future__ import annotations

import asyncio

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.producer_id_blocks import NODE, ProducerIdBlocks
from coterie.broker.settings import BrokerSettings
from coterie.broker.topic import NO_LEADER_EPOCH
from coterie.testing.in_process_zookeeper import InProcessZooKeeper
from coterie.zookeeper.operations import Create, Operation


def test_producer_ids_where_kafka_has_made_the_node() -> None:
    """Kafka 2.6 makes it empty when it starts, and fills it with the first block."""

    async def story() -> None:
        zookeeper = InProcessZooKeeper()
        zookeeper.apply(Create(NODE, "", ephemeral=False))

        async def apply(operation: Operation) -> object:
            return zookeeper.apply(operation)

        first, second = (ProducerIdBlocks(number, apply) for number in (1, 2))
        await first.reserve()
        await second.reserve()
        assert (first.take(), second.take()) == (0, 1_000)

    asyncio.run(story())


@pytest.mark.parametrize("epoch", [NO_LEADER_EPOCH, 6])
def test_groups_of_a_partition_without_a_role_are_left(epoch: int) -> None:
    """Whatever its epoch was; the next controller may give the same role in the same epoch."""

    async def story() -> None:
        broker = Broker(BrokerSettings())
        await broker.start("127.0.0.1", 0)
        groups = broker.groups
        groups.ready()
        assert groups.elect(0, 5)
        assert not groups.resign(0, 4)
        assert groups.resign(0, epoch)
        assert groups.elect(0, 5) == (epoch == NO_LEADER_EPOCH)
        await broker.stop()

    asyncio.run(story())
