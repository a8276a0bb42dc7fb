"""The bytes of a connection's requests, cut into frames: int32 size and request."""

from __future__ import annotations

import struct

from coterie.broker.requests.calls import CannotRespond

_SIZE = struct.Struct(">i")
SMALLEST_BYTES = 8  # the header of a request without a client id, of the first versions of some APIs
_FRAME_AT = 4
_NOTHING = bytearray()  # of all connections, most of which have no bytes in their buffers


class RequestFrames:
    """What was received and not handled yet. ``limit_name``: the setting of the limit. ``needed``: bytes of the next frame,
    with its size; 4 while that is unknown."""

    __slots__ = ("_at", "_buffer", "limit", "limit_name", "needed", "smallest")

    def __init__(self, max_request_bytes: int) -> None:
        self.limit, self.limit_name = max_request_bytes, "socket.request.max.bytes"
        self.smallest = SMALLEST_BYTES
        self._buffer = _NOTHING
        self._at = 0  # bytes at the start that were taken
        self.needed = 4

    def __len__(self) -> int:
        return len(self._buffer) - self._at

    def is_one(self, data: bytes) -> bool:
        """Whether the data is one whole frame, with none before it."""
        size = len(data) - 4
        return not self._buffer and self.smallest <= size <= self.limit and data.startswith(_SIZE.pack(size))

    def add(self, data: bytes) -> bool:
        """Whether the next frame, or its size, is there now."""
        if self._buffer:
            self._buffer += data
        else:
            self._buffer = bytearray(data)
        return len(self) >= self.needed

    def has_next(self) -> bool:
        """Whether the next frame is whole. Raises CannotRespond for a size that no request may have."""
        received = len(self._buffer) - self._at
        if received < 4:
            return False
        (size,) = _SIZE.unpack_from(self._buffer, self._at)
        if not self.smallest <= size <= self.limit:
            raise CannotRespond(f"a request of {size} bytes; {self.limit_name} is {self.limit}")
        self.needed = 4 + int(size)
        return received >= self.needed

    def next_is(self, api_key: bytes) -> bool:
        """Whether the next frame, which is whole, is a request of that API."""
        at = self._at + _FRAME_AT
        return self._buffer[at : at + 2] == api_key

    def take(self) -> bytes | None:
        """The next frame, its size included; None where it is not whole. Raises CannotRespond as `has_next`."""
        if not self.has_next():
            return None
        at, end = self._at, self._at + self.needed
        frame = bytes(memoryview(self._buffer)[at:end])
        self._at, self.needed = end, 4
        if end == len(self._buffer):
            self.clear()  # a large frame lies in memory once while it is handled
        return frame

    def drop_taken(self) -> None:
        """Frees the bytes of frames that were taken."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0

    def clear(self) -> None:
        self._buffer = _NOTHING
        self._at, self.needed = 0, 4
