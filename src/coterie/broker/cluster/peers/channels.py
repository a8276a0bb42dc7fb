"""The controller's channels: to each broker its requests, one after another (Kafka's ControllerChannelManager)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from coterie.broker.cluster.peers.connections import PEER_FAILED, Address, Dial, PeerConnection, open_stream
from coterie.controller import encoding
from coterie.controller.requests import ControlRequest
from coterie.wire.declaration import Message

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class ControllerChannels:
    """Each request is repeated until its response arrives or its broker has gone: ``address`` returns None once the broker is
    not registered under that epoch any more, or this broker is no longer the controller. ``responded`` gets each request with
    its response. ``keeps_open``: connections stay open between requests, so that a broker whose certificate has expired since
    is reached on."""

    def __init__(
        self,
        broker_id: int,
        timeout_ms: int,
        address: Callable[[ControlRequest], Address | None],
        responded: Callable[[ControlRequest, Message], None],
        dial: Dial = open_stream,
        *,
        keeps_open: bool = False,
    ) -> None:
        self._client_id, self._timeout_ms = f"controller-{broker_id}", timeout_ms
        self._address, self._responded, self._dial = address, responded, dial
        self._queues: dict[int, deque[ControlRequest]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._keeps_open = keeps_open
        self._kept: dict[int, tuple[int, PeerConnection]] = {}  # by broker, with the epoch of its registration

    def send(self, request: ControlRequest) -> None:
        """Returns at once."""
        broker = request.broker
        self._queues.setdefault(broker, deque()).append(request)
        if broker not in self._tasks:
            self._tasks[broker] = asyncio.get_running_loop().create_task(self._drain(broker))

    async def _drain(self, broker: int) -> None:
        queue = self._queues[broker]
        epoch, kept = self._kept.pop(broker, (0, None))
        connection = kept or PeerConnection(self._client_id, self._timeout_ms, self._dial)
        if epoch != queue[0].broker_epoch:
            connection.close()  # to a process that has ended
        responded = False
        try:
            while queue:
                epoch = queue[0].broker_epoch
                responded = await self._send(connection, queue[0])
                queue.popleft()
        finally:
            if responded and self._keeps_open:
                self._kept[broker] = epoch, connection
            else:
                connection.close()
            del self._tasks[broker]

    async def _send(self, connection: PeerConnection, request: ControlRequest) -> bool:
        """False for one that is no longer to be sent."""
        message, response_type, version = encoding.message_of(request)
        while (address := self._address(request)) is not None:
            try:
                response = await connection.request(address, message, response_type, version)
            except PEER_FAILED as error:
                logger.debug("%s to broker %d: %r", type(request).__name__, request.broker, error)
                await asyncio.sleep(RETRY_S)
            else:
                self._responded(request, response)
                return True
        return False

    def close_idle(self) -> None:
        """This broker is the controller no longer."""
        for _, connection in self._kept.values():
            connection.close()
        self._kept.clear()

    async def close(self) -> None:
        """Ends the channels; requests without a response are dropped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.close_idle()
