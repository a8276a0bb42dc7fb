"""The varints of many records at once, with numpy: where each record begins, and what stands at each of many places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.wire.primitives import read_varint

ALIKE = 16  # so many records of one length in a row make it worth while to look for more
HOP = 64  # records that are hopped over one by one before that is tried again


def record_starts(bodies: Sequence[bytes], counts: Sequence[int]) -> Any:
    """Where each record's attributes byte stands in the joined bodies. Raises ValueError, IndexError."""
    found: list[Any] = []
    base = 0
    for body, count in zip(bodies, counts, strict=True):
        found += [starts + base for starts in _starts(body, count)]
        base += len(body)
    return np.concatenate(found)


def _starts(body: bytes, count: int) -> list[Any]:
    """Records that are as long as the one before are found by arithmetic, the others by hopping from one to the next."""
    parts: list[Any] = []
    at, buffer = 0, np.frombuffer(body, np.uint8)
    while count:
        length, content = read_varint(body, at)
        stride = content - at + length
        if stride <= 0:
            raise ValueError("a record of negative length")
        fits = min(count, (len(body) - at) // stride)
        same = 0
        if fits >= ALIKE:
            # Alike: the varint of the length is, byte by byte, that of the first; then so is where the next one begins.
            alike: Any = np.ones(fits, bool)
            for byte in range(at, content):
                alike &= buffer[byte : byte + stride * (fits - 1) + 1 : stride] == body[byte]
            same = fits if alike.all() else int(alike.argmin())
        if same >= ALIKE:
            parts.append(np.arange(content, content + same * stride, stride, dtype=np.int64))
            at, count = at + same * stride, count - same
        else:
            hopped = min(count, HOP)
            starts, at = _hop(body, at, hopped)
            parts.append(np.array(starts, np.int64))
            count -= hopped
    if at != len(body):
        raise ValueError("the records do not fill their batch")
    return parts


def _hop(body: bytes, at: int, count: int) -> tuple[list[int], int]:
    starts: list[int] = []
    append = starts.append
    for _ in range(count):
        length = body[at]
        if length < 0x80:
            at += 1
        else:
            second = body[at + 1]
            if second < 0x80:
                length = (length & 0x7F) | second << 7
                at += 2
            else:
                length, at = read_varint(body, at)
                length <<= 1
        append(at)
        at += length >> 1
    return starts, at


def varints(buffer: Any, at: Any) -> tuple[Any, Any]:
    """A zigzag varint at each position: the values, and the positions after them."""
    byte = buffer[at].astype(np.int64)
    value = byte & 0x7F
    at = at + 1
    shift = 7
    going = np.nonzero(byte & 0x80)[0]
    while going.size:
        if shift > 63:
            raise ValueError("a varint is longer than 10 bytes")
        byte = buffer[at[going]].astype(np.int64)
        value[going] |= (byte & 0x7F) << shift
        at[going] += 1
        shift += 7
        going = going[(byte & 0x80) != 0]
    return (value >> 1) ^ -(value & 1), at
