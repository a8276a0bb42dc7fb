"""Connections: frames in, responses out in the order of the requests.

A response is written inside `data_received` where nothing waits; a `Pending` stays in the queue until it is answered.
A connection works in turns of some milliseconds. Back-pressure both ways: requests stay in the buffer, and then in the
socket, while the peer does not read its responses, while too many requests wait, and while there is no memory (`memory`).
A request that cannot be decoded closes its own connection, with the reason in the log, and no other.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from sys import intern
from time import monotonic as time_s  # the loop's clock
from typing import Protocol

from coterie.broker.connections.connection_memory import ConnectionMemory
from coterie.broker.connections.routes import ROUTES, UNREADABLE, find_route, server_error
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import CannotAnswer, ClientCalls, Software
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.pending import NO_RESPONSE, Pending
from coterie.broker.requests.turns import MAX_TURN_S
from coterie.runtime.receiver import Receiver
from coterie.wire.codec import unreadable
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import API_VERSIONS_KEY, Head, ResponseFrame, encode_response, read_head, skip_tags
from coterie.wire.messages.api_versions import ApiVersionsResponse

logger = logging.getLogger(__name__)

MAX_WAITING = 200  # requests of one connection that wait for their responses
FLUSH_BYTES = 65_536  # of responses that are collected before they are written
READ_AHEAD_BYTES = 65_536  # of requests that are read while others of the connection wait
SMALL_REQUEST_BYTES = 65_536
CLOSE_GRACE_S = 5.0
NOTED_S = 0.001  # shorter turns are not counted
_SIZE = struct.Struct(">i")
_FETCH = b"\0\x01"  # the api key


class Owner(Services, Protocol):
    """What a connection uses of its broker. ``holding``: connections that may hold bytes of the two memories."""

    loop: asyncio.AbstractEventLoop
    handlers: dict[int, Handler]
    request_memory: RequestMemory
    holding: set[AcceptedConnection]
    max_request_bytes: int
    max_elements: int

    def connected(self, connection: AcceptedConnection) -> bool:
        """False when there are max.connections already."""

    def disconnected(self, connection: AcceptedConnection) -> None: ...


class AcceptedConnection(Receiver):
    """One client's connection, of a broker or of a part of one (`Owner`)."""

    def __init__(self, broker: Owner) -> None:
        super().__init__()
        self._broker = broker
        self._buffer = bytearray()
        self._needed = 4  # bytes in the buffer before the next frame is whole
        # By correlation id, at most MAX_WAITING; not a deque, of which an empty one takes 0.6 KiB.
        self._queue: list[tuple[int, ResponseFrame, Pending]] = []
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._in_turn = self._in_line = False  # in line: waiting for its next turn
        self._frame_waits = False  # a whole one, in the buffer
        self._ended = False  # EOF was received
        self._memory = ConnectionMemory(broker.request_memory, broker.answer_memory)
        self._peer_slow = self._paused = False
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._calls = ClientCalls()
        self.last_used_s = 0.0

    # -- Receiver -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection beyond max.connections is aborted."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        # Connections of one host share its text; an IPv6 address has more than two parts.
        self._calls.connected(intern("/" + str(peer[0])), int(peer[1]), local[:2])
        self.last_used_s = self._broker.loop.time()
        if not self._broker.connected(self):
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Work for responses that nobody will read ends, and their memory is free again."""
        self._broker.disconnected(self)
        self._memory.close()
        for _, _, pending in self._queue:
            pending.abandon()
        self._queue.clear()
        self._buffer.clear()
        self._out.clear()

    def pause_writing(self) -> None:
        """The client does not read its responses: no further request is handled until it does."""
        self._peer_slow = True
        self._hold()
        self._steer()

    def resume_writing(self) -> None:
        """The client reads again: frames that wait get a turn."""
        self._peer_slow = False
        self._memory.count_unread(0)
        self._go_on()
        self._steer()

    def data_received(self, data: bytes) -> None:
        """Handles a whole request at once; what is more, or less, is collected in the buffer for a turn."""
        turns = self._broker.turns
        if not self._buffer and not self._queue and turns.spent_s <= MAX_TURN_S and self._is_one_request(data):
            took_s = self._take_request(data)
        else:
            self._buffer += data
            if len(self._buffer) < self._needed or self._in_line:
                return
            if turns.spent_s > MAX_TURN_S:
                self._wait_for_turn()
                self._steer()
                return
            took_s = self._take_turn()
        if took_s > NOTED_S:
            turns.spend(took_s)

    def eof_received(self) -> bool:
        """Requests that wait for the connection's next turn are still carried out."""
        self._ended = True
        return self._in_line

    # -- turns --------------------------------------------------------------------------------------------------------

    def _is_one_request(self, data: bytes) -> bool:
        """Whether the data is a frame, which can be handled at once."""
        size = len(data) - 4
        return 8 <= size <= self._broker.max_request_bytes and data.startswith(_SIZE.pack(size)) and not self._peer_slow

    def _take_request(self, frame: bytes) -> float:
        """The usual turn: one request that came whole, and nothing before it; returns the duration in seconds."""
        started_s = self.last_used_s = time_s()
        if self._request(frame):
            self._flush()
        return time_s() - started_s

    def _take_turn(self) -> float:
        """Handles the frames in the buffer until they are done, too many responses wait, or the time of a turn is over;
        returns the duration in seconds."""
        started_s = self.last_used_s = time_s()
        buffer, limit, at = self._buffer, self._broker.max_request_bytes, 0
        self._needed, self._frame_waits, self._in_turn = 4, False, True
        while len(buffer) - at >= 4:
            (size,) = _SIZE.unpack_from(buffer, at)
            if not 8 <= size <= limit:
                self._cut_off(f"a request of {size} bytes; socket.request.max.bytes is {limit}")
                return 0.0
            end = at + 4 + size
            if len(buffer) < end:
                self._needed = end - at
                self._reserve_request(size)
                break
            if (self._queue or self._peer_slow) and self._must_wait(buffer, at + 4):
                self._needed, self._frame_waits = end - at, True
                break
            frame = bytes(memoryview(buffer)[at:end])
            at = end
            if at == len(buffer):
                buffer.clear()  # a large frame lies in memory once while it is handled
                at = 0
            if not self._request(frame):
                return time_s() - started_s
            if self._memory.reserved_bytes:
                self._memory.release()
            if self._out_bytes >= FLUSH_BYTES:
                self._flush()
                if self._transport.is_closing():
                    at = len(buffer)  # the client has gone, and the rest of its requests with it
                    break
            if buffer and time_s() - started_s > MAX_TURN_S:
                self._wait_for_turn()
                break
        if at:
            del buffer[:at]
        self._in_turn = False
        self._flush()
        if self._ended and not self._in_line:
            self.close()
        elif self._in_line or self._frame_waits or self._memory.lacking or self._paused:
            self._steer()
        return time_s() - started_s

    def _wait_for_turn(self) -> None:
        self._in_line = True
        self._broker.turns.add(self._take_next_turn)

    def _must_wait(self, buffer: bytearray, at: int) -> bool:
        """Whether the frame at that position stays in the buffer for now. A fetch waits for every response before it, as
        each request does in Kafka: responses of megabytes must not be queued. A request that is carried out in turns is done
        before the next begins."""
        queue = self._queue
        if self._peer_slow or len(queue) >= MAX_WAITING:
            return True
        return bool(queue) and (queue[-1][2].in_turns or buffer[at : at + 2] == _FETCH)

    def _go_on(self) -> None:
        """Requests a turn for frames that wait."""
        if self._frame_waits and not self._in_line and not self._in_turn:
            self._wait_for_turn()

    def _take_next_turn(self) -> None:
        self._in_line = False
        if not self._transport.is_closing():
            self._take_turn()

    def _steer(self) -> None:
        """Reads from the socket only while the client reads its responses, not too many requests wait, and there is memory."""
        behind = (self._in_line or self._frame_waits) and len(self._buffer) > READ_AHEAD_BYTES
        stop = behind or self._peer_slow or self._memory.lacking or len(self._queue) >= MAX_WAITING
        if stop != self._paused and not self._transport.is_closing() and not self._ended:
            self._paused = stop
            if stop:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- bytes in flight ----------------------------------------------------------------------------------------------

    def _reserve_request(self, size: int) -> None:
        """Memory for a request that comes in pieces. Small requests need none, so that heartbeats are received whatever
        other clients send."""
        memory = self._memory
        if size > SMALL_REQUEST_BYTES and not memory.reserved_bytes and memory.reserve(size, self._memory_is_free):
            self._hold()

    def _memory_is_free(self) -> None:
        self._memory.lacking = False
        self._reserve_request(self._needed - 4)
        self._steer()

    def _hold(self) -> None:
        """The connection now has bytes that `stalled_s` measures."""
        self._memory.restart_progress()
        self._broker.holding.add(self)

    def stalled_s(self, now_s: float) -> float | None:
        """The time (s) since the client last read a response or sent a part of its request; None for a connection without
        such bytes."""
        if not self._peer_slow and not self._memory.reserved_bytes:
            return None
        unread_bytes = self._transport.get_write_buffer_size()
        if self._memory.advance(unread_bytes, len(self._buffer), now_s) and self._peer_slow:
            self.last_used_s = now_s
        if self._peer_slow:
            self._memory.count_unread(unread_bytes)
        return self._memory.stalled_s(now_s)

    # -- requests and responses ------------------------------------------------------------------------------------------

    def _request(self, frame: bytes) -> bool:
        """Handles one frame, its size included; False when the connection was closed for it."""
        route, calls = ROUTES.get(frame[4:8]), self._calls
        call = calls.latest
        try:
            if route is None or not calls.body_at or not frame.startswith(calls.client, 12):
                head = read_head(frame, 4)
                route = find_route(head.api_key, head.api_version)
                if route is None:
                    return self._not_served(head)
                call = calls.of(head, frame[12 : head.body_at])
            elif call.api_version != route.version:
                call = calls.in_version(route.version)
            body_at = calls.body_at
            if route.tagged:  # nearly always without a tag
                body_at = skip_tags(frame, body_at) if frame[body_at] else body_at + 1
            request, _ = route.decode(frame, body_at, self._broker.max_elements)
        except UNREADABLE as error:
            self._cut_off(f"a request that cannot be read: {unreadable(error)}")
            return False
        except OSError as absent:  # the messages of its API cannot be imported: no descriptor is left
            self._cut_off(f"a request whose messages cannot be loaded: {absent}; a later one may be served")
            return False
        if route.api_key == API_VERSIONS_KEY and request.client_software_name:
            software = Software(request.client_software_name, request.client_software_version)
            call = calls.named(software, route.version)
        try:
            result = self._broker.handlers[route.api_key](self._broker, request, call)
        except CannotAnswer as reason:
            self._cut_off(str(reason))
            return False
        except Exception:
            logger.exception("%s from %s failed; its connection is closed", route.name, self._calls.latest.host)
            self._transport.abort()
            return False
        if result is None:
            return True
        (correlation_id,) = _SIZE.unpack_from(frame, 8)
        if isinstance(result, Pending):
            if result.response is None or self._queue:
                self._park(correlation_id, route.frame, result)
                return True
            result = result.response
        if self._queue:
            ready = Pending()
            ready.answer(result)
            self._park(correlation_id, route.frame, ready)
        else:
            self._put(correlation_id, route.frame, result)
        return True

    def _not_served(self, head: Head) -> bool:
        """Closes the connection, but for ApiVersions, which is answered in version 0 with the versions served (KIP-511)."""
        if head.api_key == API_VERSIONS_KEY:
            answer = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, self._broker.advertised())
            self._out.append(encode_response(head.correlation_id, answer, 0))
            return True
        client = self._calls.latest.software.text or head.client_id or "unnamed"
        self._cut_off(self._broker.unserved.add(client, head.api_key, head.api_version))
        return False

    def _park(self, correlation_id: int, frame: ResponseFrame, pending: Pending) -> None:
        pending.notify = self._answered
        self._queue.append((correlation_id, frame, pending))
        if len(self._queue) >= MAX_WAITING:
            self._steer()

    def _answered(self) -> None:
        queue = self._queue
        while queue and queue[0][2].response is not None:
            correlation_id, frame, pending = queue.pop(0)
            assert pending.response is not None
            if pending.response is not NO_RESPONSE:
                self._put(correlation_id, frame, pending.response)
        if queue and queue[0][2].failed:
            self.abort()
            return
        if self._out and not self._in_turn:
            self._flush()
        self._go_on()
        if self._paused:
            self._steer()

    def _put(self, correlation_id: int, frame: ResponseFrame, response: Message) -> None:
        """Encodes a response, to be written with the next flush."""
        try:
            data = frame(correlation_id, response)
        except Exception:
            # Other clients may wait for the same decision: they get their responses nonetheless.
            logger.exception("a response to %s cannot be encoded", self._calls.latest.host)
            data = frame(correlation_id, server_error(response))
        self._out.append(data)
        self._out_bytes += len(data)

    def _flush(self) -> None:
        out = self._out
        if out:
            self._out, self._out_bytes = [], 0
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            if self._peer_slow:
                self._memory.count_unread(self._transport.get_write_buffer_size())

    # -- the end ------------------------------------------------------------------------------------------------------

    def _cut_off(self, reason: str) -> None:
        """Closes the connection once its responses are written; "" where the reason was logged before."""
        if reason:
            self._broker.log_lines.warning("closing the connection from %s: %s", self._calls.latest.host, reason)
        self._in_turn = False
        self._flush()
        self.close()

    @property
    def client_id(self) -> str:
        """The client id of the latest request; "" where it has none."""
        return self._calls.latest.client_id

    @property
    def host(self) -> str:
        """The client's address."""
        return self._calls.latest.host

    def is_waiting(self) -> bool:
        """Whether requests wait for responses that the client would read: then it is not idle."""
        return bool(self._queue) and not self._peer_slow

    def close(self) -> None:
        """Ends the connection once its responses are read, and after `CLOSE_GRACE_S` in any case."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._broker.loop.call_later(CLOSE_GRACE_S, self._transport.abort)

    def abort(self) -> None:
        """Ends the connection now; unread responses are lost."""
        self._transport.abort()
