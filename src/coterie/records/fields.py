"""The parts of a record that every decoder reads alike: its headers, and sums of 64 bits.

The rules are those of Kafka's DefaultRecord: a record fills its length exactly; a negative length is a null key, value or
header value, and refused for a header's name; there are at most as many headers as bytes left.
"""

from __future__ import annotations

from coterie.wire.primitives import read_varint

Header = tuple[str, bytes | None]


class BatchError(ValueError):
    """Bytes that are not a whole and undamaged record batch."""


def decode_headers(body: bytes, at: int, end: int) -> tuple[Header, ...]:
    """The headers of a record that ends at ``end``. Raises BatchError unless they end there, WireError, IndexError."""
    headers: list[Header] = []
    count, at = read_varint(body, at)
    _check_header_count(count, end - at)
    for _ in range(count):
        size, at = read_varint(body, at)
        if not 0 <= size <= end - at:
            raise BatchError(f"the name of a header claims {size} bytes")
        name, at = body[at : at + size].decode(errors="replace"), at + size
        size, at = read_varint(body, at)
        headers.append((name, body[at : at + size] if size >= 0 else None))
        at += max(size, 0)
    if at != end:
        raise BatchError("a record's fields do not fill its length")
    return tuple(headers)


def skip_headers(body: bytes | memoryview, at: int, end: int) -> int:
    """As `decode_headers`, but makes nothing of them; returns where they end."""
    count, at = read_varint(body, at)
    _check_header_count(count, end - at)
    for _ in range(count):
        size, at = read_varint(body, at)
        if not 0 <= size <= end - at:
            raise BatchError(f"the name of a header claims {size} bytes")
        size, at = read_varint(body, at + size)
        at += max(size, 0)
    return at


def _check_header_count(count: int, left: int) -> None:
    if not 0 <= count <= left:
        raise BatchError(f"a record claims {count} headers in {left} bytes")
