"""What the bytes of a log hold, decoded once: from one check to the next most of them are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class DecodedReads(Generic[T]):
    """The decoded reads of one log: the newest of each offset is kept, and bytes that are equal to it hold the same."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._at: dict[int, tuple[bytes, T]] = {}

    def of(self, offset: int, data: bytes) -> T:
        """What ``data`` holds, which was read from ``offset`` on."""
        known = self._at.get(offset)
        if known is None or known[0] != data:
            known = self._at[offset] = data, self._decode(data)
        return known[1]
