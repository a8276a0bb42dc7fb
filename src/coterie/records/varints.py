"""The varints of many records at once, with numpy: where each record begins, and what stands at each of many places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.wire.primitives import read_varint


def record_starts(bodies: Sequence[bytes], counts: Sequence[int]) -> Any:
    """Where each record's attributes byte stands in the joined bodies: the one loop over records."""
    starts: list[int] = []
    append = starts.append
    base = 0
    for body, count in zip(bodies, counts, strict=True):
        at = 0
        try:
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
                append(base + at)
                at += length >> 1
        except IndexError as error:
            raise ValueError("a batch holds fewer records than it says") from error
        if at != len(body):
            raise ValueError("the records do not fill their batch")
        base += len(body)
    return np.array(starts, np.int64)


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
