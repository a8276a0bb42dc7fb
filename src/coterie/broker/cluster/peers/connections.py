"""Connections to the other brokers of the cluster: one request at a time, in versions of the inter-broker protocol, so that
nothing is agreed on first; frames there and back over one connection of asyncio; and this broker's requests to the others, a
queue and a connection for each (Kafka's InterBrokerSendThread)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.runtime.receiver import FrameReceiver
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
NEVER_S = float("inf")
M = TypeVar("M", bound=Message)
Address = tuple[str, int]
# Of a peer that does not respond, or not as a broker.
PEER_FAILED = (OSError, EOFError, WireError)
Responded = Callable[[Any], None]


class PeerStream(FrameReceiver):
    """One request at a time. A stream that raised an error is to be aborted, and one whose login ends at ``retired_at_s``, by
    the loop's clock, opened again by then."""

    def __init__(self) -> None:
        super().__init__(MAX_RESPONSE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[bytes] | None = None  # that is waited for
        self._frames: list[bytes] = []  # of the data that is being received
        self._deadline_s = 0.0  # of the response
        self._timer: asyncio.TimerHandle | None = None  # set again where it comes before the deadline
        self._lost: Exception | None = None
        self.retired_at_s = NEVER_S

    async def exchange(self, request: bytes, timeout_s: float = NEVER_S) -> bytes:
        """The frame of the response, without its size. Raises OSError, TimeoutError after ``timeout_s`` too, and WireError for
        bytes that are not a frame."""
        assert self._transport is not None
        if self._lost is not None:
            raise self._lost
        loop = asyncio.get_running_loop()
        self._response = loop.create_future()
        self._deadline_s = loop.time() + timeout_s
        if self._deadline_s < (NEVER_S if self._timer is None else self._timer.when()):
            self._set_timer()
        self._transport.write(request)
        return await self._response

    def _set_timer(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_at(self._deadline_s, self._look_at_deadline)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_deadline(self) -> None:
        self._timer = None
        if self._response is None:
            return
        if asyncio.get_running_loop().time() < self._deadline_s:
            self._set_timer()
        else:
            self._fail(TimeoutError("the peer did not respond in time"))

    def abort(self) -> None:
        """Closes the connection at once."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    # -- FrameReceiver ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("the peer closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Completes the response that is waited for; bytes that belong to none end the stream."""
        if self._response is None:
            self._fail(WireError("a response to no request"))
            return
        super().data_received(data)
        frames, self._frames = self._frames, []
        if len(frames) > 1 or (frames and self.is_within_a_frame):
            self._fail(WireError("more bytes than the size of a response"))
        elif frames:
            response, self._response = self._response, None
            if not response.done():
                response.set_result(frames[0])

    def frame_received(self, frame: bytes) -> None:
        """`data_received` has the others of the same bytes too."""
        self._frames.append(frame)

    def size_refused(self, size: int) -> None:
        """The request fails, and the stream ends."""
        self._fail(WireError(f"a response claims a size of {size} bytes"))

    def _fail(self, error: Exception) -> None:
        self._lost = self._lost or error
        response, self._response = self._response, None
        if response is not None and not response.done():
            response.set_exception(error)
        self.abort()


Dial = Callable[[str, int], Awaitable[PeerStream]]


async def open_stream(host: str, port: int) -> PeerStream:
    """Raises OSError."""
    _, stream = await asyncio.get_running_loop().create_connection(PeerStream, host, port)
    return stream


class PeerConnection:
    """Opened at the first request, and again after a failure or when the peer has another address."""

    def __init__(self, client_id: str, timeout_ms: int, dial: Dial = open_stream) -> None:
        self._client_id, self._timeout_s, self._dial = client_id, timeout_ms / 1000, dial
        self._address: Address | None = None
        self._stream: PeerStream | None = None
        self._correlation_id = 0

    async def request(self, address: Address, request: Message, response: type[M], version: int) -> M:
        """The response. Raises one of PEER_FAILED (TimeoutError is an OSError); the connection is closed then."""
        if address != self._address:
            self.close()
        try:
            stream = await self._opened(address)
            self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
            frame = await stream.exchange(
                encode_request(self._correlation_id, self._client_id, request, version), self._timeout_s
            )
            if int.from_bytes(frame[:4], "big", signed=True) != self._correlation_id:
                raise WireError("the response is to another request")
            return decode_response(response, frame, version)
        except BaseException:
            self.close()
            raise

    async def _opened(self, address: Address) -> PeerStream:
        if self._stream is not None and asyncio.get_running_loop().time() >= self._stream.retired_at_s:
            self.close()
        if self._stream is None:
            async with asyncio.timeout(self._timeout_s):
                self._stream = await self._dial(*address)
            self._address = address
        return self._stream

    def close(self) -> None:
        """Closes the connection at once; the next request opens it again."""
        if self._stream is not None:
            self._stream.abort()
            self._stream = None


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
