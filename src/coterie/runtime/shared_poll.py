"""Bytes of many connections, read in one callback of the loop: an epoll of their own, whose descriptor is one of the loop's.

asyncio queues and runs a handle for each event, one to two microseconds of a heartbeat's twenty. Writes, their buffers and the
end of a connection stay with its transport.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import Any

MOST_EVENTS = 64  # of a turn: what they have in the processor's cache is there until its end


class SharedPoll:
    """``events``: of the last poll that had any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.events = loop, 0
        self._epoll = select.epoll()
        self._reads: dict[int, Callable[[], None]] = {}
        loop.add_reader(self._epoll.fileno(), self._read)

    def accept(self, connection: asyncio.BufferedProtocol) -> asyncio.BaseProtocol:
        """The protocol of an accepted connection, for its transport. ``connection`` has one buffer for all its reads."""
        return _PolledConnection(self, connection)

    def register(self, descriptor: int, read: Callable[[], None]) -> None:
        """Calls ``read`` at most once in each turn in which the descriptor is readable or has ended."""
        self._reads[descriptor] = read
        self._epoll.register(descriptor, select.EPOLLIN)

    def unregister(self, descriptor: int) -> None:
        """Nothing for a descriptor that is not registered."""
        if self._reads.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _read(self) -> None:
        ready, reads = self._epoll.poll(0, MOST_EVENTS), self._reads
        self.events = len(ready) or self.events
        for descriptor, _ in ready:
            read = reads.get(descriptor)  # None: ended by one before it
            if read is not None:
                read()

    def close(self) -> None:
        """To be called once every connection has ended, or been aborted."""
        if not self._epoll.closed:
            self.loop.remove_reader(self._epoll.fileno())
        self._reads.clear()
        self._epoll.close()


def shared_poll(loop: object) -> SharedPoll | None:
    """None in a loop or on a system without epoll, where connections are protocols of asyncio's alone."""
    if not isinstance(loop, asyncio.SelectorEventLoop) or not hasattr(select, "epoll"):
        return None
    return SharedPoll(loop)


class _PolledConnection(asyncio.Transport, asyncio.Protocol):
    """Between a transport of asyncio's, of which it is the protocol and which never reads, and a connection, of which it is the
    transport."""

    __slots__ = (
        "_buffers",
        "_connection",
        "_descriptor",
        "_is_paused",
        "_poll",
        "_raw",
        "is_closing",
        "write",
    )

    def __init__(self, poll: SharedPoll, connection: asyncio.BufferedProtocol) -> None:
        self._poll, self._connection = poll, connection
        self._buffers = (connection.get_buffer(-1),)
        self._descriptor = -1
        self._is_paused = True
        self._raw: asyncio.Transport

    # -- the protocol -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._raw = transport
        self.is_closing, self.write = transport.is_closing, transport.write  # type: ignore[method-assign]  # for each response
        self._is_paused = False
        self._connection.connection_made(self)
        # In Python 3.11 asyncio begins to read once this method has returned, paused or not.
        self._poll.loop.call_soon(self._take_over)

    def _take_over(self) -> None:
        if self.is_closing():
            return
        self._raw.pause_reading()
        self._descriptor = self._raw.get_extra_info("socket").fileno()
        if not self._is_paused:
            self._poll.register(self._descriptor, self._read)

    def connection_lost(self, error: Exception | None) -> None:
        self._poll.unregister(self._descriptor)
        connection, self._connection = self._connection, _ENDED  # else the two refer to each other
        connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    # -- reads --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            received = os.readv(self._descriptor, self._buffers)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the peer has reset the connection
            self.abort()
            return
        try:
            if received:
                self._connection.buffer_updated(received)
            else:
                self._poll.unregister(self._descriptor)
                if not self._connection.eof_received():
                    self.close()
        except Exception as bug:
            context = {"message": "a connection's protocol has failed", "exception": bug, "transport": self._raw}
            self._poll.loop.call_exception_handler(context)
            self.abort()

    # -- the transport ------------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._poll.unregister(self._descriptor)

    def resume_reading(self) -> None:
        if self._is_paused and not self.is_closing():
            self._is_paused = False
            if self._descriptor >= 0:
                self._poll.register(self._descriptor, self._read)

    def close(self) -> None:
        self._poll.unregister(self._descriptor)
        self._raw.close()

    def abort(self) -> None:
        self._poll.unregister(self._descriptor)
        self._raw.abort()


_ENDED = asyncio.BufferedProtocol()  # in the stead of a connection after its end
