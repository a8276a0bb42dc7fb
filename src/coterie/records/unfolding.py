"""Many records at once, where numpy is installed: one Python loop hops over their lengths, numpy reads the varints of all
of them, and the records are made in C. Some three times as fast as record by record (`batch._decode_each`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import numpy as np

from coterie.records.varints import record_starts, varints

_PADDING = bytes(16)  # varints near the end may be looked at past it


def unfold(
    body: bytes,
    count: int,
    base_offset: int,
    timestamp: Callable[[Any], Iterable[int]],
    make: Any,
    headers_at: Callable[[bytes, int], Any],
) -> list[Any]:
    """``make((offset, timestamp, key, value, headers))`` for each of the records in ``body``; ``timestamp`` turns the array
    of their deltas into times, ``headers_at`` reads headers where there are any. Raises ValueError, IndexError."""
    starts = record_starts([body], [count])
    padded = body + _PADDING
    buffer = np.frombuffer(padded, np.uint8)
    deltas, at = varints(buffer, starts + 1)  # past the attributes byte
    offsets, at = varints(buffer, at)
    keys, at = _cut(body, buffer, at)
    values, at = _cut(body, buffer, at)
    headers: Iterable[Any] = repeat(())
    if buffer[at].any():
        headers = [headers_at(body, position) if buffer[position] else () for position in at.tolist()]
    columns = zip((offsets + base_offset).tolist(), timestamp(deltas), keys, values, headers, strict=False)
    return list(map(tuple.__new__, repeat(make), columns))


def _cut(body: bytes, buffer: Any, at: Any) -> tuple[Iterable[bytes | None], Any]:
    """A length and so many bytes at each position; length -1 is None."""
    lengths, at = varints(buffer, at)
    if (lengths < 0).all():
        return repeat(None), at
    ends = at + np.maximum(lengths, 0)
    if (ends < at).any() or ends[-1] > len(body):
        raise ValueError("a key or value runs past the end of its batch")
    cut: list[bytes | None] = [body[first:last] for first, last in zip(at.tolist(), ends.tolist(), strict=True)]
    for place in np.nonzero(lengths < 0)[0].tolist():
        cut[place] = None
    return cut, ends
