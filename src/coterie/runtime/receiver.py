"""Bytes that arrive on a transport of asyncio, read into one buffer for all connections of a thread, and cut into frames."""

from __future__ import annotations

import asyncio
import threading

RECEIVE_BYTES = 256 * 1024  # of one read, as asyncio's own
LARGE_BYTES = 64 * 1024


class _Buffer(threading.local):
    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_BYTES))
        self.beginning = self.view[:LARGE_BYTES]


_buffer = _Buffer()


class Receiver(asyncio.BufferedProtocol):
    """As `asyncio.Protocol`, for which each read allocates RECEIVE_BYTES and frees most of them. Where the heap ends without
    such a piece, glibc maps and unmaps memory each time: 20 us a message, in one process of two. Made in the thread of its
    loop, which reads and calls `data_received` in one turn, so that connections can share a buffer."""

    __slots__ = ("_received",)

    def __init__(self, *, reads_less: bool = False) -> None:
        """``reads_less``: at most LARGE_BYTES at a time, since what one read brings is in memory before it can be counted."""
        self._received = _buffer.beginning if reads_less else _buffer.view

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._received[:nbytes].tobytes())

    def data_received(self, data: bytes) -> None:
        """Called with at most RECEIVE_BYTES at a time."""
        raise NotImplementedError


class FrameReceiver(Receiver):
    """Frames of Kafka's protocol, each behind its size in four bytes; a size is at least that of a correlation id."""

    def __init__(self, max_frame_bytes: int) -> None:
        super().__init__()
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._parts: list[bytes] = []  # of one large frame, put together once
        self._missing = 0

    @property
    def is_within_a_frame(self) -> bool:
        """Whether part of a frame has arrived."""
        return bool(self._buffer or self._missing)

    def data_received(self, data: bytes) -> None:
        """Calls `frame_received` with each frame that is whole."""
        if self._missing:
            if len(data) < self._missing:
                self._parts.append(data)
                self._missing -= len(data)
                return
            self._parts.append(data[: self._missing])
            data = data[self._missing :]
            self._missing = 0
            frame = b"".join(self._parts)
            self._parts.clear()
            self.frame_received(frame)
        if data and not self._is_taken(data):
            self._small_frames(data)

    def _is_taken(self, data: bytes) -> bool:
        """Whether the data was one whole frame, as most of it is, or the beginning of a large one."""
        if self._buffer or len(data) < 8:
            return False
        size = int.from_bytes(data[:4], "big")
        if size == len(data) - 4:
            self.frame_received(data[4:])
            return True
        if max(len(data), LARGE_BYTES) <= size <= self._max_frame_bytes:
            self._parts.append(data[4:])
            self._missing = size + 4 - len(data)
            return True
        return False

    def _small_frames(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at, end = 0, len(buffer)
        while end - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            if not 4 <= size <= self._max_frame_bytes:
                self.size_refused(size)
                return
            if end - at < size + 4:
                if size > LARGE_BYTES:
                    self._parts.append(bytes(buffer[at + 4 :]))
                    self._missing = size + 4 - (end - at)
                    at = end
                break
            frame = bytes(memoryview(buffer)[at + 4 : at + 4 + size])
            at += size + 4
            self.frame_received(frame)
        if at:
            del buffer[:at]

    def frame_received(self, frame: bytes) -> None:
        """Takes the next frame, without its size."""
        raise NotImplementedError

    def size_refused(self, size: int) -> None:
        """The connection is of no further use: what arrives claims a frame of that size."""
        raise NotImplementedError
