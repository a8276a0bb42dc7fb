"""Blocks of producer ids in ZooKeeper: Kafka's ProducerIdManagerTest, by name, and what a lost response comes to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import get_args

import pytest

from coterie.controller.producer_id_blocks import (
    BLOCK,
    MAX_PRODUCER_ID,
    NODE,
    RETRY_MS,
    BlockRefused,
    BlockReserved,
    ProducerIdBlocks,
    ProducerIdsExhausted,
)
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import World
from coterie.wire.errors import Refusal
from coterie.zookeeper.operations import (
    ConnectionLost,
    Corrupt,
    Create,
    Operation,
    Read,
    SessionExpired,
    Write,
    Znode,
    ZooKeeperError,
)

OPERATIONS = get_args(Operation)
Before = Callable[[Operation], None]


class ZooKeeper:
    """One session, which does not expire."""

    def __init__(self) -> None:
        self._server = ZooKeeperServer(World(0))
        self._session = self._server.connect(10**9, lambda path: None)

    def apply(self, operation: Operation) -> object:
        return self._server.apply(self._session, operation)


class Broker:
    """``before`` is called with each operation; what it raises is the response."""

    def __init__(self, zookeeper: ZooKeeper, number: int, before: Before = lambda operation: None) -> None:
        self.zookeeper, self.before = zookeeper, before
        self.blocks = ProducerIdBlocks(number, 0)

    def run(self, now_ms: int = 0) -> list[object]:
        """Until the machine waits; the effects that are no operations."""
        effects: list[object] = []
        while (effect := self.blocks.next(now_ms)) is not None:
            if isinstance(effect, OPERATIONS):
                self._apply(effect)
            else:
                effects.append(effect)
                self.blocks.respond()
        return effects

    def _apply(self, operation: Operation) -> None:
        try:
            self.before(operation)
            result = self.zookeeper.apply(operation)
        except ZooKeeperError as error:
            self.blocks.refuse(error)
        else:
            self.blocks.respond(result)


def held(zookeeper: ZooKeeper) -> object:
    node = zookeeper.apply(Read(NODE))
    assert isinstance(node, Znode)
    return json.loads(node.data)


def ends_at(zookeeper: ZooKeeper, last: int) -> None:
    content = {"version": 1, "broker": 0, "block_start": str(last - BLOCK + 1), "block_end": str(last)}
    zookeeper.apply(Create(NODE, json.dumps(content), ephemeral=False))


def test_get_producer_id() -> None:
    """testGetProducerId: two brokers use up their blocks, and the next ones follow in the order of reservation."""
    zookeeper = ZooKeeper()
    brokers = [Broker(zookeeper, number) for number in (0, 1)]
    for broker in brokers:
        assert broker.run() == [BlockReserved()]
    for first in (0, 2 * BLOCK):
        for start, broker in zip((first, first + BLOCK), brokers, strict=True):
            assert [broker.blocks.take() for _ in range(BLOCK)] == [*range(start, start + BLOCK)]
        for broker in brokers:  # blocks are reserved before the last ids are taken
            broker.run()
    assert held(zookeeper) == {
        "version": 1,
        "broker": 1,
        "block_start": str(5 * BLOCK),
        "block_end": str(6 * BLOCK - 1),
    }


def test_exceed_producer_id_limit() -> None:
    """testExceedProducerIdLimit: the node stays as it is, and is looked at again later."""
    zookeeper = ZooKeeper()
    ends_at(zookeeper, MAX_PRODUCER_ID - 1)
    before, broker = zookeeper.apply(Read(NODE)), Broker(zookeeper, 0)
    for now_ms in (0, RETRY_MS):
        (refused,) = broker.run(now_ms)
        assert isinstance(refused, BlockRefused)
        assert isinstance(refused.error, ProducerIdsExhausted)
        assert f"ends at {MAX_PRODUCER_ID - 1}" in str(refused.error)
        with pytest.raises(Refusal, match="loading"):
            broker.blocks.take()
        assert broker.run(now_ms) == []
    assert zookeeper.apply(Read(NODE)) == before


def test_the_last_block() -> None:
    zookeeper = ZooKeeper()
    ends_at(zookeeper, MAX_PRODUCER_ID - BLOCK)
    broker = Broker(zookeeper, 0)
    broker.run()
    assert broker.blocks.take() == MAX_PRODUCER_ID - BLOCK + 1


@pytest.mark.parametrize("exists", [False, True])
def test_two_brokers_that_reserve_at_once(exists: bool) -> None:
    """The one that writes second reads again."""
    zookeeper = ZooKeeper()
    if exists:
        zookeeper.apply(Create(NODE, "", ephemeral=False))  # as Kafka 2.6 does when it starts
    first = Broker(zookeeper, 0)

    def overtake(operation: Operation) -> None:
        if isinstance(operation, Create | Write):
            first.run()

    second = Broker(zookeeper, 1, overtake)
    second.run()
    assert (first.blocks.take(), second.blocks.take()) == (0, BLOCK)


def test_a_write_whose_response_is_lost() -> None:
    """The repeated one meets another version, perhaps of another broker: the block that it wrote is left unused."""
    zookeeper, lost = ZooKeeper(), list[Operation]()

    def lose(operation: Operation) -> None:
        if isinstance(operation, Create) and not lost:
            zookeeper.apply(operation)
            lost.append(operation)
            raise ConnectionLost

    broker = Broker(zookeeper, 3, lose)
    assert broker.run() == [BlockReserved()]
    assert broker.blocks.take() == BLOCK


def test_a_session_that_expires_is_tried_again_in_the_next() -> None:
    error = SessionExpired()
    refused: list[ZooKeeperError] = [error]

    def expire(operation: Operation) -> None:
        if refused:
            raise refused.pop()

    broker = Broker(ZooKeeper(), 0, expire)
    assert broker.run() == [BlockRefused(error)]
    assert broker.run(RETRY_MS) == [BlockReserved()]


@pytest.mark.parametrize("data", ["{", "[]", '{"block_end":"x"}', "{}"])
def test_a_node_of_no_broker_is_named(data: str) -> None:
    zookeeper = ZooKeeper()
    zookeeper.apply(Create(NODE, data, ephemeral=False))
    (refused,) = Broker(zookeeper, 0).run()
    assert isinstance(refused, BlockRefused)
    assert isinstance(refused.error, Corrupt)
    assert NODE in str(refused.error)
