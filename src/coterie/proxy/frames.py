"""A stream of Kafka's frames, cut where each begins. What is in a frame is passed on as it arrives, or collected.

A frame is int32 size and content. The reader decides at the head of each frame by `pass_on` or `collect`, so that a fetch of
megabytes passes in the pieces in which it came.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

_SIZE = struct.Struct(">i")
SIZE_BYTES = _SIZE.size


class UnfitFrame(ValueError):
    """A frame has a size that none may have."""


class PartKind(Enum):
    """What `FrameStream.next` returns."""

    HEAD = "the beginning of a frame, with its size: `pass_on` or `collect` is due"
    PIECE = "the next bytes of a frame that is passed on"
    FRAME = "a whole frame that was collected, with its size"


class FramePart(NamedTuple):
    """``is_last``: the frame ends with it."""

    kind: PartKind
    data: bytes
    is_last: bool = False


# Of the data, where the content starts and its size: the bytes of it that the head needs.
HeadBytes = Callable[[bytes, int, int], int]


class FrameStream:
    """One direction of a connection. `receive` bytes, then call `next` until it returns None."""

    __slots__ = ("_at", "_collects", "_data", "_head_bytes", "_left", "_max_frame_bytes", "_parts")

    def __init__(self, head_bytes: HeadBytes, max_frame_bytes: int) -> None:
        self._head_bytes, self._max_frame_bytes = head_bytes, max_frame_bytes
        self._data, self._at = b"", 0
        self._left = 0  # bytes of the present frame that `next` has not returned
        self._collects = False
        self._parts: list[bytes] = []

    @property
    def has_bytes(self) -> bool:
        """Whether bytes were received that `next` has not returned."""
        return len(self._data) > self._at

    def receive(self, data: bytes) -> None:
        """Bytes of the peer, behind what is not taken yet."""
        self._data = data if self._at == len(self._data) else self._data[self._at :] + data
        self._at = 0

    def next(self) -> FramePart | None:
        """The next part; None while more bytes are needed. Raises UnfitFrame."""
        if self._left:
            return self._content()
        available = len(self._data) - self._at
        if available < SIZE_BYTES:
            return None
        (size,) = _SIZE.unpack_from(self._data, self._at)
        if not 0 <= size <= self._max_frame_bytes:
            raise UnfitFrame(f"a frame of {size} bytes; at most {self._max_frame_bytes} are allowed")
        start = self._at + SIZE_BYTES
        needed = min(self._head_bytes(self._data, start, size), size)
        if available - SIZE_BYTES < needed:
            return None
        return FramePart(PartKind.HEAD, self._data[self._at : start + needed])

    def pass_on(self) -> None:
        """The frame whose head was returned comes in pieces."""
        (size,) = _SIZE.unpack_from(self._data, self._at)
        self._left, self._collects = SIZE_BYTES + size, False

    def collect(self) -> None:
        """The frame whose head was returned comes whole."""
        self.pass_on()
        self._collects = True

    def _content(self) -> FramePart | None:
        data, at = self._data, self._at
        available = len(data) - at
        taken = min(available, self._left)
        if not taken:
            return None
        piece = data if taken == len(data) else data[at : at + taken]
        self._at += taken
        self._left -= taken
        if self._at == len(data):
            self._data, self._at = b"", 0
        if not self._collects:
            return FramePart(PartKind.PIECE, piece, not self._left)
        self._parts.append(piece)
        if self._left:
            return None
        frame = piece if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        return FramePart(PartKind.FRAME, frame, True)
