"""A producer's transaction on either side, run by each side's own coordinator. What follows for the group's offsets must be
the same."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from coterie.client.connection.connection import Connection
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

M = TypeVar("M", bound=Message)
PATIENCE_S = 20.0
NEWEST_END = 4  # of EndTxn: from 5 on the epoch is another one afterwards
TIMEOUT_MS = 900_000  # a story may last longer than a minute, and no transaction may end by itself
_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class StoryTransactions:
    """The producers of one side; each has at most one transaction open."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._producers: dict[str, tuple[int, int]] = {}
        self.open: set[str] = set()

    def transactional_id(self, name: str) -> str:
        return f"txn-{self._seed}-{name}"

    def producer(self, name: str) -> tuple[int, int]:
        """Producer id and epoch."""
        return self._producers[name]

    async def begin(self, connection: Connection, name: str, group: str) -> None:
        """Has the producer's transaction include the group's offsets."""
        if name not in self._producers:
            self._producers[name] = await self._identity(connection, name)
        self.open.add(name)
        producer_id, epoch = self._producers[name]
        request = AddOffsetsToTxnRequest(self.transactional_id(name), producer_id, epoch, group)
        await _until(connection, request, AddOffsetsToTxnResponse)

    async def _identity(self, connection: Connection, name: str) -> tuple[int, int]:
        request = InitProducerIdRequest(self.transactional_id(name), TIMEOUT_MS)
        response = await _until(connection, request, InitProducerIdResponse)
        return response.producer_id, response.producer_epoch

    async def end(self, connection: Connection, name: str, group: str, committed: bool) -> None:
        """Ends it, and returns when the group's partition knows."""
        self.open.discard(name)
        producer_id, epoch = self._producers[name]
        ended = EndTxnRequest(self.transactional_id(name), producer_id, epoch, committed)
        await _until(connection, ended, EndTxnResponse, highest=NEWEST_END)
        # The marker follows a moment after the response: until then the next transaction cannot begin.
        await _until(
            connection,
            AddOffsetsToTxnRequest(self.transactional_id(name), producer_id, epoch, group),
            AddOffsetsToTxnResponse,
        )
        aborted = EndTxnRequest(self.transactional_id(name), producer_id, epoch, False)
        await _until(connection, aborted, EndTxnResponse, highest=NEWEST_END)
        await self._settled(connection, group)

    async def _settled(self, connection: Connection, group: str) -> None:
        """Until no offset is pending but those of transactions that are still open."""
        end = time.monotonic() + (0.3 if self.open else PATIENCE_S)
        while time.monotonic() < end:
            request = OffsetFetchRequest(group, None, require_stable=True)
            response = await connection.request(request, OffsetFetchResponse, PATIENCE_S, highest=7)
            codes = {p.error_code for t in response.topics for p in t.partitions}
            if ErrorCode.UNSTABLE_OFFSET_COMMIT not in codes:
                return
            await asyncio.sleep(0.01)


async def _until(connection: Connection, request: Message, received: type[M], highest: int | None = None) -> M:
    """Asks again while the coordinator is not ready."""
    end = time.monotonic() + PATIENCE_S
    while True:
        response = await connection.request(request, received, PATIENCE_S, highest=highest)
        code: int = response.error_code  # type: ignore[attr-defined]
        if code not in _AGAIN:
            assert not code, f"{type(request).__name__} was answered with {code}"
            return response
        assert time.monotonic() < end, f"{type(request).__name__}: still {code}"
        await asyncio.sleep(0.02)
