"""Frames to another broker and back, over one connection of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coterie.receiving import Receiver
from coterie.wire.primitives import WireError

MAX_RESPONSE_BYTES = 512 * 1024 * 1024


class PeerStream(Receiver):
    """One request at a time. A stream that raised an error is to be aborted."""

    def __init__(self) -> None:
        super().__init__()
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[bytes] | None = None  # that is waited for
        self._parts: list[bytes] = []  # of it; the size is cut off once it is whole
        self._missing: int | None = None  # bytes; None before the size has arrived
        self._lost: Exception | None = None

    async def exchange(self, request: bytes) -> bytes:
        """The frame of the response, without its size. Raises OSError, and WireError for what is no frame."""
        assert self._transport is not None
        if self._lost is not None:
            raise self._lost
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._response

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- Receiver -----------------------------------------------------------------------------------------------------

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
        self._parts.append(data)
        if self._missing is not None:
            self._missing -= len(data)
        elif not self._take_size():
            return
        if self._missing == 0:
            frame = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            response, self._response = self._response, None
            self._parts, self._missing = [], None
            if not response.done():
                response.set_result(frame)
        elif self._missing is not None and self._missing < 0:
            self._fail(WireError("more bytes than the size of a response"))

    def _take_size(self) -> bool:
        """Cuts the size off the first part; False while it has not arrived, and for one that is refused."""
        start = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if len(start) < 4:
            return False
        size = int.from_bytes(start[:4], "big", signed=True)
        if not 4 <= size <= MAX_RESPONSE_BYTES:
            self._fail(WireError(f"a response claims a size of {size} bytes"))
            return False
        self._parts, self._missing = [start[4:]], size + 4 - len(start)
        return True

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
