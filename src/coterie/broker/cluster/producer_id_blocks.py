"""Producer ids in a cluster, from blocks that brokers reserve in ZooKeeper (Kafka's ProducerIdManager)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper.operations import BadVersion, Create, NodeExists, Operation, Read, Write, Znode, ZooKeeperError

logger = logging.getLogger(__name__)

NODE = "/latest_producer_id_block"
BLOCK = 1_000
MAX_PRODUCER_ID = 2**63 - 1
RESERVE_BELOW = 500  # ids that are left
RETRY_S = 1.0


class ProducerIdsExhausted(ZooKeeperError):
    """No block is left; a broker does not start then."""


class ProducerIdBlocks:
    """``apply`` carries an operation out in ZooKeeper. Call `reserve` before the first id is taken."""

    def __init__(self, broker_id: int, apply: Callable[[Operation], Awaitable[object]]) -> None:
        self._broker_id, self._apply = broker_id, apply
        self._blocks: deque[range] = deque()
        self._reserving: asyncio.Task[None] | None = None

    def take(self) -> int:
        """A new id, which no broker has generated before. Raises Refusal COORDINATOR_LOAD_IN_PROGRESS while there is none."""
        if sum(len(block) for block in self._blocks) < RESERVE_BELOW and self._reserving is None:
            self._reserving = asyncio.get_running_loop().create_task(self._reserve_later())
        if not self._blocks:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    async def _reserve_later(self) -> None:
        try:
            await self.reserve()
        except ZooKeeperError as error:
            logger.warning("no producer ids could be reserved: %s", str(error) or repr(error))
            await asyncio.sleep(RETRY_S)
        finally:
            self._reserving = None

    async def reserve(self) -> None:
        """The next block is this broker's. Raises ZooKeeperError, ProducerIdsExhausted."""
        while True:
            node = await self._apply(Read(NODE))
            held = node.data if isinstance(node, Znode) else ""  # also "": Kafka 2.6 makes the node empty
            first = int(json.loads(held)["block_end"]) + 1 if held else 0
            block = range(first, first + BLOCK)
            if block[-1] > MAX_PRODUCER_ID:
                raise ProducerIdsExhausted(f"all producer ids are reserved: {NODE} in ZooKeeper ends at {first - 1}")
            content = {"version": 1, "broker": self._broker_id, "block_start": str(first), "block_end": str(block[-1])}
            data = json.dumps(content, separators=(",", ":"))
            try:
                if isinstance(node, Znode):
                    await self._apply(Write(NODE, data, node.version))
                else:
                    await self._apply(Create(NODE, data, ephemeral=False))
            except (BadVersion, NodeExists):
                continue  # another broker was first
            self._blocks.append(block)
            return

    def close(self) -> None:
        if self._reserving is not None:
            self._reserving.cancel()
