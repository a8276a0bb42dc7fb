"""Requests of this broker to the others, a queue and a connection for each (Kafka's InterBrokerSendThread)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.broker.cluster.peers.connection import PEER_FAILED, Address, Dial, PeerConnection, open_stream
from coterie.wire.declaration import Message

logger = logging.getLogger(__name__)

Responded = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class _Queued:
    message: Message
    response: type[Message]
    version: int
    responded: Responded


class PeerRequests:
    """``address`` of a broker: None while the broker is not registered. Connections stay open between requests."""

    def __init__(
        self,
        client_id: str,
        timeout_ms: int,
        address: Callable[[int], Address | None],
        dial: Dial = open_stream,
    ) -> None:
        self._client_id, self._timeout_ms, self._address, self._dial = client_id, timeout_ms, address, dial
        self._queues: dict[int, deque[_Queued]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._connections: dict[int, PeerConnection] = {}
        self._closed = False

    def send(self, broker: int, message: Message, response: type[Message], version: int, responded: Responded) -> None:
        """Returns at once. ``responded`` is called later, with the response, or with None where none came."""
        if self._closed:
            return
        self._queues.setdefault(broker, deque()).append(_Queued(message, response, version, responded))
        if broker not in self._tasks:
            self._tasks[broker] = asyncio.get_running_loop().create_task(self._drain(broker))

    async def _drain(self, broker: int) -> None:
        queue = self._queues[broker]
        try:
            while queue:
                one = queue.popleft()
                response = await self._request(broker, one)
                try:
                    one.responded(response)
                except Exception:
                    logger.exception("a response of broker %d could not be handled", broker)
        finally:
            del self._tasks[broker]

    async def _request(self, broker: int, one: _Queued) -> Message | None:
        address = self._address(broker)
        if address is None:
            return None
        if broker not in self._connections:
            self._connections[broker] = PeerConnection(self._client_id, self._timeout_ms, self._dial)
        try:
            return await self._connections[broker].request(address, one.message, one.response, one.version)
        except PEER_FAILED as error:
            logger.debug("%s to broker %d: %r", type(one.message).__name__, broker, error)
            return None

    def view_changed(self) -> None:
        """A request to a broker that is not registered any more fails now, and not at its timeout."""
        for broker in [broker for broker in self._connections if self._address(broker) is None]:
            self._connections.pop(broker).close()

    async def close(self) -> None:
        """Requests without a response are dropped."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
