"""A client's connection as asyncio's transport has it: bytes in, bytes out, in turns, until its end.

A response is written inside `data_received` where nothing waits, or with those of other connections (`TurnWrites`). A
connection works in turns of some milliseconds. Back-pressure both ways: requests stay in the buffer, and then in the socket,
while the peer does not read its responses, while too many requests wait, and while there is no memory (`memory`).
"""

from __future__ import annotations

import asyncio
from sys import intern
from time import monotonic as time_s  # the loop's clock
from typing import Protocol

from coterie.broker.connections.open_connections import OpenConnections
from coterie.broker.connections.request_frames import SMALLEST_BYTES, RequestFrames
from coterie.broker.connections.request_queue import RequestQueue, Server
from coterie.broker.requests.calls import Authentication, CannotRespond, ClientConnection
from coterie.broker.requests.memory import ConnectionMemory, RequestMemory
from coterie.broker.requests.turns import MAX_TURN_S, TurnWrites
from coterie.broker.settings.listeners import PLAINTEXT, PLAINTEXT_LISTENER, Listener
from coterie.runtime.receiver import Receiver

FLUSH_BYTES = 65_536  # of responses that are collected before they are written
READ_AHEAD_BYTES = 65_536  # of requests that are read while others of the connection wait
SMALL_REQUEST_BYTES = 65_536
CLOSE_GRACE_S = 5.0
NOTED_S = 0.001  # shorter turns are not counted
_FETCH = b"\0\x01"  # the api key


class Owner(Server, Protocol):
    """What a connection uses of its broker."""

    loop: asyncio.AbstractEventLoop
    request_memory: RequestMemory
    writes: TurnWrites
    connections: OpenConnections
    max_request_bytes: int


class AcceptedConnection(Receiver):
    """One client's connection, by one of the listeners of a broker or of a part of one (`Owner`)."""

    __slots__ = (
        "_broker",
        "_ended",
        "_frame_waits",
        "_frames",
        "_in_line",
        "_in_turn",
        "_is_muted",
        "_memory",
        "_paused",
        "_peer_slow",
        "_requests",
        "_transport",
        "connection",
        "last_used_s",
    )

    def __init__(self, broker: Owner, listener: Listener = PLAINTEXT_LISTENER) -> None:
        super().__init__(reads_less=broker.request_memory.has_limit)
        self._broker = broker
        self.connection = ClientConnection("", listener=listener)
        self._frames = RequestFrames(broker.max_request_bytes)
        if listener.has_sasl:
            frames = self._frames
            frames.limit = broker.settings.security(listener.name).sasl_server_max_receive_size
            frames.limit_name = "sasl.server.max.receive.size"
            self.connection.authentication = Authentication(changed=self._authenticated)
        self._requests = RequestQueue(broker, self.connection)
        self._in_turn = self._in_line = False  # in line: waiting for its next turn
        self._frame_waits = False  # a whole one, in the buffer
        self._ended = False  # EOF was received
        self._memory = ConnectionMemory(broker.request_memory, broker.response_memory)
        self._peer_slow = self._paused = False
        self._is_muted = False  # for the time that a quota throttles the client
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self.last_used_s = 0.0

    # -- Receiver -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection beyond max.connections is aborted."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        connection = self.connection
        # Connections of one host share its text; an IPv6 address has more than two parts.
        connection.host, connection.port, connection.local_address = intern("/" + str(peer[0])), int(peer[1]), local[:2]
        self.last_used_s = self._broker.loop.time()
        connections = self._broker.connections
        if not connections.add(self):
            transport.abort()
        elif connection.listener.security_protocol != PLAINTEXT:
            connections.unauthenticated[self] = self.last_used_s

    def connection_lost(self, error: Exception | None) -> None:
        """Work for responses that nobody will read ends, and their memory is free again."""
        self._broker.connections.remove(self)
        self._memory.close()
        self._requests.close()
        self._frames.clear()
        if self.connection.authentication is not None:
            self.connection.authentication.changed = lambda: None  # else each of the two refers to the other
        if self.connection.on_closed is not None:
            self.connection.on_closed(self.connection)

    def pause_writing(self) -> None:
        """The client does not read its responses: no further request is handled until it does."""
        self._peer_slow = True
        self._track_progress()
        self._update_reading()

    def resume_writing(self) -> None:
        """The client reads again: frames that wait get a turn."""
        self._peer_slow = False
        self._memory.count_unread(0)
        self._resume()
        self._update_reading()

    def data_received(self, data: bytes) -> None:
        """Handles a whole request at once; what is more, or less, is collected for a turn."""
        turns, frames = self._broker.turns, self._frames
        is_next = not self._requests.waiting and not self._peer_slow and not self._is_muted
        if is_next and turns.spent_s <= MAX_TURN_S and frames.is_one(data):
            took_s = self._take_request(data)
        else:
            if not frames.add(data):
                return
            if self._in_line:
                self._update_reading()
                return
            if turns.spent_s > MAX_TURN_S:
                self._wait_for_turn()
                self._update_reading()
                return
            took_s = self._take_turn()
        if took_s > NOTED_S:
            turns.spend(took_s)

    def eof_received(self) -> bool:
        """Requests that wait for the connection's next turn are still carried out."""
        self._ended = True
        return self._in_line

    def secured(self) -> None:
        """The handshake of TLS is done."""
        if self.connection.authentication is None:
            self._authenticated()

    def _authenticated(self) -> None:
        """The connection is like others now, or tokens of a login without headers follow."""
        state, frames = self.connection.authentication, self._frames
        frames.smallest = 0 if state is not None and state.is_raw else SMALLEST_BYTES
        if state is None or state.is_complete:
            self._broker.connections.unauthenticated.pop(self, None)
            frames.limit, frames.limit_name = self._broker.max_request_bytes, "socket.request.max.bytes"

    # -- turns --------------------------------------------------------------------------------------------------------

    def _take_request(self, frame: bytes) -> float:
        """The usual turn: one request that came whole, and nothing before it; returns the duration in seconds."""
        started_s = self.last_used_s = time_s()
        try:
            pending = self._requests.handle(frame)
            if pending is not None:
                pending.notify = self._responded
            if self._requests.throttle_ms:
                self._mute()
            self._write_soon()
        except CannotRespond as reason:
            self._close_with_reason(str(reason))
        return time_s() - started_s

    def _take_turn(self) -> float:
        """Handles the frames in the buffer until they are done, too many responses wait, or the time of a turn is over;
        returns the duration in seconds."""
        started_s = self.last_used_s = time_s()
        self._frame_waits, self._in_turn = False, True
        try:
            self._handle_frames(started_s + MAX_TURN_S)
        except CannotRespond as reason:
            self._close_with_reason(str(reason))
            return time_s() - started_s
        self._frames.drop_taken()
        self._in_turn = False
        self._flush()
        if self._ended and not self._in_line:
            self.close()
        elif self._in_line or self._frame_waits or self._memory.lacking or self._paused:
            self._update_reading()
        return time_s() - started_s

    def _handle_frames(self, ends_s: float) -> None:
        """Raises CannotRespond."""
        frames, requests = self._frames, self._requests
        while True:
            if (requests.waiting or self._peer_slow or self._is_muted) and frames.has_next() and self._must_wait():
                self._frame_waits = True
                return
            frame = frames.take()
            if frame is None:
                self._reserve_request(frames.needed - 4)
                return
            pending = requests.handle(frame)
            if pending is not None:
                pending.notify = self._responded
            if requests.throttle_ms:
                self._mute()
            if self._memory.reserved_bytes:
                self._memory.release()
            if len(requests.out) >= FLUSH_BYTES:
                self._flush()
                if self._transport.is_closing():
                    frames.clear()  # the client has gone, and the rest of its requests with it
                    return
            if time_s() > ends_s and len(frames):
                self._wait_for_turn()
                return

    def _wait_for_turn(self) -> None:
        self._in_line = True
        state = self.connection.authentication
        self._broker.turns.add(self._take_next_turn, of_stranger=state is not None and not state.is_complete)

    def _must_wait(self) -> bool:
        """Whether the next frame stays in the buffer for now. A fetch waits for every response before it, as each request does
        in Kafka: responses of megabytes must not be queued. A request that is carried out in turns is done before the next
        begins."""
        requests = self._requests
        if self._peer_slow or self._is_muted or requests.is_full:
            return True
        return bool(requests.waiting) and (requests.last_in_turns or self._frames.next_is(_FETCH))

    def _resume(self) -> None:
        """Requests a turn for frames that wait."""
        if self._frame_waits and not self._in_line and not self._in_turn:
            self._wait_for_turn()

    def _take_next_turn(self) -> None:
        self._in_line = False
        if not self._transport.is_closing():
            self._take_turn()

    def _update_reading(self) -> None:
        """Reads from the socket only while the client reads its responses, not too many requests wait, and there is memory."""
        behind = (self._in_line or self._frame_waits) and len(self._frames) >= READ_AHEAD_BYTES
        stop = behind or self._peer_slow or self._is_muted or self._memory.lacking or self._requests.is_full
        if stop != self._paused and not self._transport.is_closing() and not self._ended:
            self._paused = stop
            if stop:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _mute(self) -> None:
        """The responses go out, and no further request is handled for the time that a quota throttles the client."""
        throttle_ms, self._requests.throttle_ms = self._requests.throttle_ms, 0
        self._is_muted = True
        self._broker.loop.call_later(throttle_ms / 1000, self._unmute)
        self._update_reading()

    def _unmute(self) -> None:
        self._is_muted = False
        if not self._transport.is_closing():
            self._frame_waits = self._frame_waits or self._frames.has_next()
            self._resume()
            self._update_reading()

    def _responded(self) -> None:
        """A request that waited has its response, or will have none."""
        try:
            self._requests.take_responded()
        except CannotRespond as reason:
            self._close_with_reason(str(reason))
            return
        if self._requests.throttle_ms:
            self._mute()
        if not self._in_turn:
            self._write_soon()
        self._resume()
        if self._paused:
            self._update_reading()

    def _write_soon(self) -> None:
        if self._requests.out:
            self._broker.writes.add(self._flush, len(self._requests.out))

    def _flush(self) -> None:
        data = self._requests.out
        if data:
            self._requests.out = b""
            self._transport.write(data)
            state = self.connection.authentication
            if state is not None and state.is_refused:
                self.close()
            if self._peer_slow:
                self._memory.count_unread(self._transport.get_write_buffer_size())

    # -- bytes in flight ----------------------------------------------------------------------------------------------

    def _reserve_request(self, size: int) -> None:
        """Memory for a request that comes in pieces. Small requests need none, so that heartbeats are received whatever
        other clients send."""
        memory = self._memory
        if size > SMALL_REQUEST_BYTES and not memory.reserved_bytes and memory.reserve(size, self._memory_is_free):
            self._track_progress()

    def _memory_is_free(self) -> None:
        self._memory.lacking = False
        self._reserve_request(self._frames.needed - 4)
        self._update_reading()

    def _track_progress(self) -> None:
        """The connection now has bytes that `stalled_s` measures."""
        self._memory.restart_progress()
        self._broker.connections.holding.add(self)

    def stalled_s(self, now_s: float) -> float | None:
        """The time (s) since the client last read a response or sent a part of its request; None for a connection without
        such bytes."""
        if not self._peer_slow and not self._memory.reserved_bytes:
            return None
        unread_bytes = self._transport.get_write_buffer_size()
        if self._memory.advance(unread_bytes, len(self._frames), now_s) and self._peer_slow:
            self.last_used_s = now_s
        if self._peer_slow:
            self._memory.count_unread(unread_bytes)
        return self._memory.stalled_s(now_s)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _close_with_reason(self, reason: str) -> None:
        """Closes the connection once its responses are written; "" where the reason was logged before."""
        if reason:
            self._broker.log_lines.warning("closing the connection from %s: %s", self.connection.host, reason)
        self._in_turn = False
        self.close()

    @property
    def client_id(self) -> str:
        """The client id of the latest request; "" where it has none."""
        return self._requests.latest.client_id

    def is_waiting(self) -> bool:
        """Whether requests wait for responses that the client would read: then it is not idle."""
        return bool(self._requests.waiting) and not self._peer_slow

    def close(self) -> None:
        """Ends the connection once its responses are read, and after `CLOSE_GRACE_S` in any case."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._broker.loop.call_later(CLOSE_GRACE_S, self._transport.abort)

    def abort(self) -> None:
        """Ends the connection now; unread responses are lost."""
        self._transport.abort()
