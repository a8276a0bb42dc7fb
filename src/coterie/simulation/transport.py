"""The two ends of a simulated TCP connection, as asyncio's transports behave on real ones.

What one end writes arrives at the other after the network's latency, in order, perhaps in other pieces. A receiver that does
not read fills its window, then the sender's buffer; the sender's protocol is paused above its high-water mark. An end that
closes sends a FIN behind its data; one that closes with unread data, or gets data once it is closed, sends a RST.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from coterie.simulation.process import CURRENT, ProcessState, SimulatedProcess, VirtualLoop

Address = tuple[str, int]
WINDOW_BYTES = 65_536  # what a receiver takes before its program reads
HIGH_WATER_BYTES = 65_536


class Carrier(Protocol):
    """What an end and a listener use of their network."""

    loop: VirtualLoop

    def send(self, end: SimulatedTransport, data: bytes | None) -> None:
        """Part of a stream, or its end (None)."""

    def send_reset(self, end: SimulatedTransport) -> None:
        """A RST for the peer."""

    def closed(self, transport: SimulatedTransport) -> None:
        """This end is over."""

    def unlisten(self, server: SimulatedServer) -> None:
        """It accepts no further connection."""

    def listens(self, server: SimulatedServer) -> bool:
        """Whether it accepts connections."""
        ...


class SimulatedTransport(asyncio.Transport):
    """One end. ``local`` and ``remote`` are its addresses; `connect_ends` gives it its peer and its protocol."""

    def __init__(self, network: Carrier, local: Address, remote: Address) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.network, self.local, self.remote = network, local, remote
        self._loop = network.loop
        self.process: SimulatedProcess | None = CURRENT.get()
        self._context = contextvars.copy_context()
        self._protocol: asyncio.BaseProtocol = asyncio.BaseProtocol()
        self.peer: SimulatedTransport | None = None
        self.due_s = 0.0  # when what was sent last arrives: nothing overtakes it
        self._arrived: deque[bytes | None] = deque()  # and unread; None is a FIN
        self._unread_by_peer = 0  # bytes that this end wrote and the peer's program has not read
        self._high_water, self._low_water = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._writing_paused = self._reading_paused = self._is_connected = False
        self._is_closing = self.is_over = self._eof_sent = False
        self.is_private = False  # its bytes are TLS, of which each run has others
        self.vanished = False  # with its machine's power
        if self.process is not None:
            self.process.transports[self] = None

    @property
    def remote_host(self) -> str:
        """The name of the peer's host, which a program may have reached as localhost."""
        return self.remote[0] if self.peer is None else self.peer.local[0]

    def opened(self, protocol: asyncio.BaseProtocol, peer: SimulatedTransport) -> None:
        """The handshake is done."""
        self._protocol, self.peer, self._is_connected = protocol, peer, True
        protocol.connection_made(self)

    # -- what a program calls ---------------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._soon(self._feed)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Raises RuntimeError after `write_eof`."""
        if self._eof_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_closing or not data:
            return
        sent = bytes(data)
        self._unread_by_peer += len(sent)
        self.network.send(self, sent)
        if not self._writing_paused and self.get_write_buffer_size() > self._high_water:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._eof_sent and not self._is_closing:
            self._eof_sent = True
            self.network.send(self, None)

    def get_write_buffer_size(self) -> int:
        return max(0, self._unread_by_peer - WINDOW_BYTES)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Raises ValueError where low is above high."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water, self._low_water = high, low

    def close(self) -> None:
        """What was written still arrives; the protocol hears of the end once it is out."""
        if self._is_closing:
            return
        self._is_closing = True
        if any(self._arrived):
            self.network.send_reset(self)
        elif not self._eof_sent:
            self.network.send(self, None)
        if not self.get_write_buffer_size():
            self._soon(self._lose, None)

    def abort(self) -> None:
        """At once; what was written and has not left the buffer is gone."""
        self._is_closing = True
        if not self.is_over:
            self.network.send_reset(self)
            self._soon(self._lose, None)

    def _force_close(self, error: BaseException | None) -> None:
        """As a transport of asyncio's, for its TLS."""
        self.abort()

    # -- what the network calls -------------------------------------------------------------------------------------------

    def arrive(self, data: bytes | None) -> None:
        """A piece of the stream, or its end (None)."""
        if self.is_over or self._is_closing:
            if data:
                self.network.send_reset(self)
            return
        is_first = not self._arrived
        self._arrived.append(data)
        if is_first and self._is_connected and (self.process is None or self.process.state is ProcessState.RUNNING):
            self._context.run(self._feed)
        else:
            self._soon(self._feed)

    def reset(self, error: Exception | None = None) -> None:
        """A RST arrived, or the network gave the connection up."""
        if not self.is_over:
            self._is_closing = True
            self._soon(self._lose, error or ConnectionResetError(104, "Connection reset by peer"))

    def owner_died(self) -> None:
        """The kernel closes the connection of a process that has ended; no protocol hears of it."""
        if self.is_over:
            return
        unread = any(self._arrived)
        self._is_closing = self.is_over = True
        if unread or self._eof_sent:
            self.network.send_reset(self)
        else:
            self.network.send(self, None)
        self._forget()

    def vanish(self) -> None:
        """Its machine has lost power: nothing goes out."""
        self._is_closing = self.is_over = self.vanished = True
        self._forget()

    # -- within -----------------------------------------------------------------------------------------------------------

    def _soon(self, call: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(call, *args, context=self._context)

    def _feed(self) -> None:
        """Gives the protocol what has arrived, until it pauses."""
        while self._arrived and not self._reading_paused and not self._is_closing:
            data = self._arrived.popleft()
            try:
                if data is None:
                    self._end_of_stream()
                else:
                    self._give(data)
                    assert self.peer is not None, "data from nowhere"
                    self.peer.read_by_peer(len(data))
            except Exception as error:  # as asyncio: the connection ends, and the loop's handler reports it
                text = "Fatal error: protocol.data_received() call failed."
                self._loop.call_exception_handler(
                    {"message": text, "exception": error, "transport": self, "protocol": self._protocol}
                )
                self.abort()

    def _give(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            assert isinstance(protocol, asyncio.Protocol), "a stream needs a stream's protocol"
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest and not self._is_closing:
            buffer = memoryview(protocol.get_buffer(len(rest)))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            protocol.buffer_updated(size)
            rest = rest[size:]

    def _end_of_stream(self) -> None:
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        keeps_open = self._protocol.eof_received()
        if not keeps_open:
            self.close()

    def read_by_peer(self, size: int) -> None:
        """The peer's program has read so many bytes."""
        self._unread_by_peer -= size
        if self.is_over:
            return
        if self._writing_paused and self.get_write_buffer_size() <= self._low_water:
            self._writing_paused = False
            if not self._is_closing:
                self._soon(self._resume_writing)
        if self._is_closing and not self.get_write_buffer_size():
            self._soon(self._lose, None)

    def _resume_writing(self) -> None:
        if not self._is_closing and not self._writing_paused:
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._forget()
            self._protocol.connection_lost(error)

    def _forget(self) -> None:
        self._arrived.clear()
        self.network.closed(self)
        if self.process is not None:
            self.process.transports.pop(self, None)


class SimulatedServer(asyncio.AbstractServer):
    """A listener on an address of the network; ``sockets`` has one object, with the address. ``accepts``: connections already
    before `start_serving`."""

    def __init__(
        self,
        network: Carrier,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        process: SimulatedProcess | None,
        *,
        accepts: bool,
    ) -> None:
        self.network, self.factory, self.address, self.process = network, factory, address, process
        self.accepts = accepts
        self.context = contextvars.copy_context()
        self.sockets = (_ListeningSocket(address),)

    def close(self) -> None:
        self.network.unlisten(self)
        self.sockets = ()  # type: ignore[assignment]

    def is_serving(self) -> bool:
        return self.network.listens(self)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.network.loop

    async def start_serving(self) -> None:
        """A connection before is refused."""
        self.accepts = True

    async def serve_forever(self) -> None:
        await self.network.loop.create_future()

    async def wait_closed(self) -> None:
        """At once."""


class _ListeningSocket:
    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address
