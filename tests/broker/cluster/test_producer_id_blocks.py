"""Blocks of producer ids in ZooKeeper: Kafka's ProducerIdManagerTest, by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from coterie.broker.cluster.producer_id_blocks import (
    BLOCK,
    MAX_PRODUCER_ID,
    NODE,
    ProducerIdBlocks,
    ProducerIdsExhausted,
)
from coterie.testing.in_process_zookeeper import InProcessZooKeeper
from coterie.wire.errors import Refusal
from coterie.zookeeper.operations import Create, Operation, Read, Znode
from tests.awaiting import quiet


def run(story: Callable[[InProcessZooKeeper, Callable[[int], ProducerIdBlocks]], Awaitable[None]]) -> None:
    async def with_zookeeper() -> None:
        zookeeper = InProcessZooKeeper()

        async def apply(operation: Operation) -> object:
            return zookeeper.apply(operation)

        await story(zookeeper, lambda broker_id: ProducerIdBlocks(broker_id, apply))

    asyncio.run(with_zookeeper())


def ends_at(zookeeper: InProcessZooKeeper, last: int) -> None:
    content = {"version": 1, "broker": 0, "block_start": str(last - BLOCK + 1), "block_end": str(last)}
    zookeeper.apply(Create(NODE, json.dumps(content), ephemeral=False))


def test_get_producer_id() -> None:
    """testGetProducerId: two brokers use up their blocks, and the next ones follow in the order of reservation."""

    async def story(zookeeper: InProcessZooKeeper, blocks_of: Callable[[int], ProducerIdBlocks]) -> None:
        brokers = [blocks_of(broker_id) for broker_id in (0, 1)]
        for blocks in brokers:
            await blocks.reserve()
        for first in (0, 2 * BLOCK):
            for start, blocks in zip((first, first + BLOCK), brokers, strict=True):
                assert [blocks.take() for _ in range(BLOCK)] == [*range(start, start + BLOCK)]
            await quiet()  # blocks are reserved before the last ids are taken
        node = zookeeper.apply(Read(NODE))
        assert isinstance(node, Znode)
        assert json.loads(node.data) == {
            "version": 1,
            "broker": 1,
            "block_start": str(5 * BLOCK),
            "block_end": str(6 * BLOCK - 1),
        }

    run(story)


def test_exceed_producer_id_limit() -> None:
    """testExceedProducerIdLimit: the node stays as it is."""

    async def story(zookeeper: InProcessZooKeeper, blocks_of: Callable[[int], ProducerIdBlocks]) -> None:
        ends_at(zookeeper, MAX_PRODUCER_ID - 1)
        before, blocks = zookeeper.apply(Read(NODE)), blocks_of(0)
        with pytest.raises(ProducerIdsExhausted, match=f"ends at {MAX_PRODUCER_ID - 1}"):
            await blocks.reserve()
        with pytest.raises(Refusal, match="loading"):
            blocks.take()
        await quiet()
        blocks.close()
        assert zookeeper.apply(Read(NODE)) == before

    run(story)


def test_the_last_block() -> None:
    async def story(zookeeper: InProcessZooKeeper, blocks_of: Callable[[int], ProducerIdBlocks]) -> None:
        ends_at(zookeeper, MAX_PRODUCER_ID - BLOCK)
        blocks = blocks_of(0)
        await blocks.reserve()
        ids = [blocks.take() for _ in range(BLOCK // 2)]
        assert ids[0] == MAX_PRODUCER_ID - BLOCK + 1

    run(story)


def test_two_brokers_that_reserve_at_once() -> None:
    """The one that writes second reads again."""

    async def story(zookeeper: InProcessZooKeeper, blocks_of: Callable[[int], ProducerIdBlocks]) -> None:
        first = blocks_of(0)

        async def apply(operation: Operation) -> object:
            if isinstance(operation, Create):
                await first.reserve()
            return zookeeper.apply(operation)

        second = ProducerIdBlocks(1, apply)
        await second.reserve()
        assert [first.take(), second.take()] == [0, BLOCK]

    run(story)
