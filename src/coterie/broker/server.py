"""Connections: frames in, answers out in the order of the requests.

Answered inside `data_received` where nothing waits; a `Pending` holds its place in the queue until it is answered.
Back-pressure both ways: reading pauses while the peer does not read its answers, or while too many requests wait.
A request that cannot be read ends its own connection, with the reason in the log, and no other.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.broker.pending import Pending
from coterie.wire.apis import APIS
from coterie.wire.codec import Decoder, decoder
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import API_VERSIONS_KEY, Head, encode_response, read_head, skip_tags
from coterie.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from coterie.wire.messages.join_group import JoinGroupResponse
from coterie.wire.primitives import WireError

if TYPE_CHECKING:
    from coterie.broker.broker import Broker

logger = logging.getLogger(__name__)

MAX_WAITING = 200  # requests of one connection that wait for their answers
_UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True)
class Software:
    """A client's library as its ApiVersions names it (KIP-511); empty where it did not."""

    name: str = ""
    version: str = ""

    @property
    def text(self) -> str:
        return f"{self.name} {self.version}".strip()


_UNNAMED = Software()


@dataclass(slots=True)
class Call:
    """Who asks, and in which version."""

    api_version: int
    client_id: str
    host: str
    local_address: tuple[str, int]
    software: Software = _UNNAMED
    port: int = 0


@dataclass(frozen=True, slots=True)
class _Route:
    """How requests of one API and version are read; ``tagged``: their header ends with a tag section."""

    name: str
    decode: Decoder
    tagged: bool


_ROUTES: dict[tuple[int, int], _Route] = {}


def _find_route(api_key: int, version: int) -> _Route | None:
    """Made at first use; None for what is not served."""
    api = APIS.get(api_key)
    if api is None or version not in api.advertised:
        return None
    route = _Route(api.name, decoder(api.request, version), version in api.request.flexible)
    _ROUTES[api_key, version] = route
    return route


class CannotAnswer(Exception):
    """A failed request whose client waits for no answer: the end of its connection tells it to look again."""


Handler = Callable[["Broker", Any, Call], Message | Pending | None]


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._buffer = bytearray()
        self._needed = 4
        self._queue: deque[tuple[Head, Pending]] = deque()
        self._out: list[bytes] = []
        self._busy = False
        self._peer_slow = False
        self._paused = False
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._host, self._port = "", 0
        self._local: tuple[str, int] = ("", 0)
        self.last_used_s = 0.0
        self.client_id = ""
        self.software = _UNNAMED

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._host, self._port = "/" + str(peer[0]), int(peer[1])
        self._local = (str(local[0]), int(local[1]))
        self.last_used_s = self._broker.loop.time()
        if not self._broker.connected(self):
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._broker.disconnected(self)
        for _, pending in self._queue:
            pending.notify = None
        self._queue.clear()

    def pause_writing(self) -> None:
        self._peer_slow = True
        self._steer()

    def resume_writing(self) -> None:
        self._peer_slow = False
        self._steer()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._needed:
            return
        self.last_used_s = self._broker.loop.time()
        at, end, limit = 0, len(buffer), self._broker.max_request_bytes
        self._busy = True
        while end - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            if not 8 <= size <= limit:
                self._cut_off(f"a request of {size} bytes; socket.request.max.bytes is {limit}")
                return
            if end - at < size + 4:
                break
            frame = bytes(memoryview(buffer)[at + 4 : at + 4 + size])
            at += size + 4
            if not self._request(frame):
                return
        self._needed = 4 if end - at < 4 else size + 4
        del buffer[:at]
        self._busy = False
        self._flush()

    # -- requests and answers ------------------------------------------------------------------------------------------

    def _request(self, frame: bytes) -> bool:
        """Handles one frame; False when the connection was cut off."""
        try:
            head = read_head(frame)
            route = _ROUTES.get((head.api_key, head.api_version)) or _find_route(head.api_key, head.api_version)
            if route is None:
                return self._not_served(head)
            body_at = skip_tags(frame, head.body_at) if route.tagged else head.body_at
            request, _ = route.decode(frame, body_at)
        except _UNREADABLE as error:
            self._cut_off(f"a request that cannot be read: {error}")
            return False
        self.client_id = head.client_id or ""
        if head.api_key == API_VERSIONS_KEY and request.client_software_name:
            self.software = Software(request.client_software_name, request.client_software_version)
        call = Call(head.api_version, self.client_id, self._host, self._local, self.software, self._port)
        try:
            result = self._broker.handlers[head.api_key](self._broker, request, call)
        except CannotAnswer as reason:
            self._cut_off(str(reason))
            return False
        except Exception:
            logger.exception("%s from %s failed; its connection is closed", route.name, self._host)
            self._transport.abort()
            return False
        if result is None:
            return True
        if isinstance(result, Pending):
            if result.response is None or self._queue:
                self._park(head, result)
                return True
            result = result.response
        if self._queue:
            ready = Pending()
            ready.answer(result)
            self._park(head, ready)
        else:
            self._out.append(self._encode(head, result))
        return True

    def _not_served(self, head: Head) -> bool:
        """Only ApiVersions is answered in a version that is not served: in version 0, with what is (KIP-511)."""
        if head.api_key == API_VERSIONS_KEY:
            answer = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, advertised_versions())
            self._out.append(encode_response(head.correlation_id, answer, 0))
            return True
        client = self.software.text or head.client_id or "unnamed"
        self._cut_off(self._broker.unserved.add(client, head.api_key, head.api_version))
        return False

    def _park(self, head: Head, pending: Pending) -> None:
        pending.notify = self._answered
        self._queue.append((head, pending))
        if len(self._queue) >= MAX_WAITING:
            self._steer()

    def _answered(self) -> None:
        queue = self._queue
        while queue and queue[0][1].response is not None:
            head, pending = queue.popleft()
            assert pending.response is not None
            try:
                self._out.append(self._encode(head, pending.response))
            except Exception:
                # Others wait for the same decision: one answer that cannot be said must not cost them theirs.
                logger.exception("an answer to %s cannot be encoded", self._host)
                self._out.append(self._encode(head, _server_error(pending.response)))
        if self._out and not self._busy:
            self._flush()
        if self._paused:
            self._steer()

    @staticmethod
    def _encode(head: Head, response: Message) -> bytes:
        if isinstance(response, JoinGroupResponse) and head.api_version < 7 and response.protocol_name is None:
            response.protocol_name = ""  # could not be null before v7
        return encode_response(head.correlation_id, response, head.api_version)

    def _flush(self) -> None:
        out = self._out
        if out:
            self._out = []
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _steer(self) -> None:
        """Reads on only while answers are taken and not too many are owed."""
        stop = self._peer_slow or len(self._queue) >= MAX_WAITING
        if stop != self._paused and not self._transport.is_closing():
            self._paused = stop
            if stop:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _cut_off(self, reason: str) -> None:
        """Closes the connection once its answers are out; "" where the reason was logged before."""
        if reason:
            logger.warning("closing the connection from %s: %s", self._host, reason)
        self._busy = False
        self._flush()
        self._transport.close()

    def is_waiting(self) -> bool:
        """Whether it is owed answers: then it is silent for a good reason."""
        return bool(self._queue)

    def close(self) -> None:
        self._transport.close()


def _server_error(response: Message) -> Message:
    """UNKNOWN_SERVER_ERROR in the shape of an answer (scenario testInvokeJoinCallbackFails)."""
    failed = type(response)()
    if hasattr(failed, "error_code"):
        failed.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return failed


def advertised_versions() -> list[ApiVersion]:
    return [
        ApiVersion(a.key, a.advertised.first, a.advertised.last)
        for a in sorted(APIS.values(), key=lambda a: a.key)
        if not a.hidden
    ]
