"""A connection to another broker of the cluster: one request at a time, in versions of the inter-broker protocol, so that
nothing is agreed on first."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from coterie.broker.cluster.peers.stream import Dial, PeerStream, open_stream
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.primitives import WireError

M = TypeVar("M", bound=Message)
Address = tuple[str, int]
# Of a peer that does not respond, or not as a broker.
PEER_FAILED = (OSError, EOFError, WireError)


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
