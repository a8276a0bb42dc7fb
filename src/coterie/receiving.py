"""Bytes that arrive on a transport of asyncio, read into one buffer for all connections of a thread."""

from __future__ import annotations

import asyncio
import threading

RECEIVE_BYTES = 256 * 1024  # of one read, as asyncio's own


class _Buffer(threading.local):
    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_BYTES))


_buffer = _Buffer()


class Receiver(asyncio.BufferedProtocol):
    """As `asyncio.Protocol`, for which each read allocates RECEIVE_BYTES and frees most of them. Where the heap ends without
    such a piece, glibc maps and unmaps memory each time: 20 us a message, in one process of two. Made in the thread of its
    loop, which reads and calls `data_received` in one turn, so that connections can share a buffer."""

    def __init__(self) -> None:
        self._received = _buffer.view

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._received[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """At most RECEIVE_BYTES at a time."""
        raise NotImplementedError
