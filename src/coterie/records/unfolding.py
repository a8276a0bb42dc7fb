"""Many records at once, where numpy is installed: one Python loop hops over their lengths, numpy reads the varints of all
of them, and the records are made in C. Some three times as fast as record by record (`decoding._decode_each`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import numpy as np

from coterie.records.varints import record_bounds, varints, varlongs

_PADDING = bytes(16)  # varints near the end may be looked at past it


def unfold(
    body: bytes,
    count: int,
    base_offset: int,
    timestamp: Callable[[Any], Iterable[int]],
    make: Any,
    headers_of: Callable[[bytes, int, int], Any],
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
) -> list[Any]:
    """``make((*before, offset, timestamp, key, value, headers, *after))`` for each of the records in ``body``; ``timestamp``
    turns the array of their deltas into times, ``headers_of`` reads those between two positions. Raises ValueError,
    IndexError."""
    starts, record_ends = record_bounds([body], [count])
    padded = body + _PADDING
    buffer = np.frombuffer(padded, np.uint8)
    deltas, at = varlongs(buffer, starts + 1)  # past the attributes byte
    offsets, at = varints(buffer, at)
    keys, at = _cut(body, buffer, at, record_ends)
    values, at = _cut(body, buffer, at, record_ends)
    headers: Iterable[Any] = repeat(())
    with_headers = buffer[at] != 0
    if ((at + 1 != record_ends) & ~with_headers).any():
        raise ValueError("a record's fields do not fill its length")
    if with_headers.any():
        ends = record_ends.tolist()
        headers = [headers_of(body, p, ends[n]) if buffer[p] else () for n, p in enumerate(at.tolist())]
    columns = ((offsets + base_offset).tolist(), timestamp(deltas), keys, values, headers)
    rows = zip(*map(repeat, before), *columns, *map(repeat, after), strict=False)
    return list(map(tuple.__new__, repeat(make), rows))


def _cut(body: bytes, buffer: Any, at: Any, record_ends: Any) -> tuple[Iterable[bytes | None], Any]:
    """A length and so many bytes at each position; a negative length is None."""
    lengths, at = varints(buffer, at)
    if (lengths < 0).all():
        return repeat(None), at
    ends = at + np.maximum(lengths, 0)
    if (ends >= record_ends).any():
        raise ValueError("a key or value runs past the end of its record")
    cut: list[bytes | None] = [body[first:last] for first, last in zip(at.tolist(), ends.tolist(), strict=True)]
    for index in np.nonzero(lengths < 0)[0].tolist():
        cut[index] = None
    return cut, ends
