"""Producer ids in a cluster, from blocks that brokers reserve in ZooKeeper (Kafka's ProducerIdManager)."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass

from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps, Wait
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper.operations import (
    BadVersion,
    Corrupt,
    Create,
    NodeExists,
    NoNode,
    Read,
    Write,
    Znode,
    ZooKeeperError,
)

NODE = "/latest_producer_id_block"
BLOCK = 1_000
MAX_PRODUCER_ID = 2**63 - 1
RETRY_MS = 1_000


class ProducerIdsExhausted(ZooKeeperError):
    """No block is left; a broker does not start then."""


@dataclass(frozen=True, slots=True)
class BlockReserved:
    """Effect: there are ids."""


@dataclass(frozen=True, slots=True)
class BlockRefused:
    """Effect: none could be reserved; the next try follows after `RETRY_MS`."""

    error: ZooKeeperError


class ProducerIdBlocks(SessionScript):
    """One for each broker; it reserves its first block at once, and the next when less than half of one is left. A block whose
    write may have been another's is left unused, where Kafka takes what looks like its own."""

    size = BLOCK  # of a block

    def __init__(self, broker_id: int, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._broker_id = broker_id
        self._blocks: deque[range] = deque()
        self._is_due = True

    def take(self) -> int:
        """A new id, which no broker has generated before. Raises Refusal COORDINATOR_LOAD_IN_PROGRESS while there is none."""
        if sum(len(block) for block in self._blocks) < self.size // 2:
            self._is_due = True
            self.nudge()
        if not self._blocks:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    def _life(self) -> Steps[None]:
        while True:
            if not self._is_due:
                yield Wait(None)
                continue
            self._is_due = False
            try:
                self._blocks.append((yield from self._reserved()))
            except ZooKeeperError as error:
                self._is_due = True
                yield BlockRefused(error)
                until_ms = self.now_ms + RETRY_MS
                while self.now_ms < until_ms:
                    yield Wait(until_ms)
            else:
                yield BlockReserved()

    def _reserved(self) -> Steps[range]:
        """The next block, which is this broker's. Raises ZooKeeperError, Corrupt, ProducerIdsExhausted."""
        while True:
            node: Znode | None = yield from self.perform(Read(NODE))
            first = 0 if node is None else _end_of(node.data) + 1
            block = range(first, first + self.size)
            if block[-1] > MAX_PRODUCER_ID:
                raise ProducerIdsExhausted(f"all producer ids are reserved: {NODE} in ZooKeeper ends at {first - 1}")
            content = {"version": 1, "broker": self._broker_id, "block_start": str(first), "block_end": str(block[-1])}
            data = json.dumps(content, separators=(",", ":"))
            try:
                if node is None:
                    yield from self.perform(Create(NODE, data, ephemeral=False))
                else:
                    yield from self.perform(Write(NODE, data, node.version))
            except (BadVersion, NodeExists, NoNode):
                continue  # another broker was first, or the response to the first try was lost
            return block


def _end_of(held: str) -> int:
    """The last id that is reserved; -1 for the empty node that Kafka 2.6 makes. Raises Corrupt."""
    try:
        return int(json.loads(held)["block_end"]) if held else -1
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{NODE} in ZooKeeper holds no block of producer ids: {held!r}") from error
