"""The controller's channels: to each broker its requests, one after another (Kafka's ControllerChannelManager)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from coterie.broker.cluster.peers.connection import PEER_FAILED, Address, PeerConnection
from coterie.broker.cluster.peers.stream import Dial, open_stream
from coterie.controller import encoding
from coterie.controller.requests import ControlRequest
from coterie.wire.declaration import Message

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class ControllerChannels:
    """Each request is repeated until it is answered or its broker has gone: ``address`` returns None once the broker is not
    registered under that epoch any more, or this broker is no longer the controller. ``responded`` gets each request with its
    response."""

    def __init__(
        self,
        broker_id: int,
        timeout_ms: int,
        address: Callable[[ControlRequest], Address | None],
        responded: Callable[[ControlRequest, Message], None],
        dial: Dial = open_stream,
    ) -> None:
        self._client_id, self._timeout_ms = f"controller-{broker_id}", timeout_ms
        self._address, self._responded, self._dial = address, responded, dial
        self._queues: dict[int, deque[ControlRequest]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._connections: dict[int, tuple[int, PeerConnection]] = {}  # by broker, with the epoch of its registration

    def send(self, request: ControlRequest) -> None:
        """Returns at once."""
        broker = request.broker
        self._queues.setdefault(broker, deque()).append(request)
        if broker not in self._tasks:
            self._tasks[broker] = asyncio.get_running_loop().create_task(self._drain(broker))

    async def _drain(self, broker: int) -> None:
        queue = self._queues[broker]
        try:
            while queue:
                await self._send(queue[0])
                queue.popleft()
        finally:
            del self._tasks[broker]

    async def _send(self, request: ControlRequest) -> None:
        message, response_type, version = encoding.message_of(request)
        while (address := self._address(request)) is not None:
            try:
                response = await self._connection(request).request(address, message, response_type, version)
            except PEER_FAILED as error:
                logger.debug("%s to broker %d: %r", type(request).__name__, request.broker, error)
                await asyncio.sleep(RETRY_S)
            else:
                self._responded(request, response)
                return
        self._close_connection(request.broker)

    def _connection(self, request: ControlRequest) -> PeerConnection:
        """It stays open between requests: a broker whose certificate has expired, or whose login is refused by now, is reached
        on. None to a process that has ended."""
        epoch, connection = self._connections.get(request.broker, (None, None))
        if connection is None or epoch != request.broker_epoch:
            self._close_connection(request.broker)
            connection = PeerConnection(self._client_id, self._timeout_ms, self._dial)
            self._connections[request.broker] = request.broker_epoch, connection
        return connection

    def _close_connection(self, broker: int) -> None:
        if broker in self._connections:
            self._connections.pop(broker)[1].close()

    def close_connections(self) -> None:
        """This broker is the controller no longer."""
        for broker in list(self._connections):
            self._close_connection(broker)

    async def close(self) -> None:
        """Ends the channels; requests without a response are dropped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.close_connections()
