"""What the codecs of the compiled edition call (`native_text`): one value read at a position, or put behind a message's pieces.

For a compiled function a call of another costs less than the boxed numbers and the tuple of a struct call. A function
that reads returns the value, with the position after it where the size is not fixed, and raises IndexError,
UnicodeDecodeError or WireError as the generated text of `decoder_text` does; the codec's last check refuses a value that is
cut short.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from coterie.wire.primitives import MAX_STRING_LENGTH, WireError, read_unsigned_varint, write_unsigned_varint

if TYPE_CHECKING:
    from mypy_extensions import i64

T = TypeVar("T")
_FLOAT64 = struct.Struct(">d")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL_LENGTH_16, _NULL_LENGTH_32, _COMPACT_NULL = b"\xff\xff", b"\xff\xff\xff\xff", b"\0"


# -- numbers ----------------------------------------------------------------------------------------------------------


def int8_at(data: bytes, at: i64) -> i64:
    """-128 to 127."""
    byte: i64 = data[at]
    return (byte ^ 0x80) - 0x80


def uint16_at(data: bytes, at: i64) -> i64:
    """0 to 65,535."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    return first << 8 | second


def int16_at(data: bytes, at: i64) -> i64:
    """-32,768 to 32,767."""
    return (uint16_at(data, at) ^ 0x8000) - 0x8000


def uint32_at(data: bytes, at: i64) -> i64:
    """0 to 2**32 - 1."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return first << 24 | second << 16 | third << 8 | fourth


def int32_at(data: bytes, at: i64) -> i64:
    """-2**31 to 2**31 - 1."""
    return (uint32_at(data, at) ^ 0x8000_0000) - 0x8000_0000


def int64_at(data: bytes, at: i64) -> i64:
    """-2**63 to 2**63 - 1."""
    return int32_at(data, at) << 32 | uint32_at(data, at + 4)


def float64_at(data: bytes, at: i64) -> float:
    """An IEEE 754 number of 64 bits."""
    number: float = _FLOAT64.unpack_from(data, at)[0]
    return number


# -- strings and bytes, behind their length ---------------------------------------------------------------------------


def compact_length_at(data: bytes, at: i64) -> tuple[i64, i64]:
    """The length of what follows and the position of its first byte; -1 for null."""
    raw: i64 = data[at]
    if raw < 0x80:
        return raw - 1, at + 1
    length, after = read_unsigned_varint(data, at)
    return length - 1, after


def _not_null(length: i64, label: str) -> i64:
    if length < 0:
        raise WireError(f"{label} must not be null")
    return length


def compact_string_at(data: bytes, at: i64, label: str) -> tuple[str, i64]:
    """Behind an unsigned varint of the length and one, in which 0 is null and refused."""
    length, at = compact_length_at(data, at)
    end = at + _not_null(length, label)
    return data[at:end].decode(), end


def compact_nullable_string_at(data: bytes, at: i64, label: str) -> tuple[str | None, i64]:
    """The same, in which 0 is None."""
    length, at = compact_length_at(data, at)
    if length < 0:
        return None, at
    return data[at : at + length].decode(), at + length


def string_at(data: bytes, at: i64, label: str) -> tuple[str, i64]:
    """Behind an int16, in which a negative length is null and refused."""
    end = at + 2 + _not_null(int16_at(data, at), label)
    return data[at + 2 : end].decode(), end


def nullable_string_at(data: bytes, at: i64, label: str) -> tuple[str | None, i64]:
    """The same, in which a negative length is None."""
    length = int16_at(data, at)
    at += 2
    if length < 0:
        return None, at
    return data[at : at + length].decode(), at + length


def compact_bytes_at(data: bytes, at: i64, label: str) -> tuple[bytes, i64]:
    """As `compact_string_at`."""
    length, at = compact_length_at(data, at)
    end = at + _not_null(length, label)
    return data[at:end], end


def compact_nullable_bytes_at(data: bytes, at: i64, label: str) -> tuple[bytes | None, i64]:
    """As `compact_nullable_string_at`."""
    length, at = compact_length_at(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length


def bytes_at(data: bytes, at: i64, label: str) -> tuple[bytes, i64]:
    """Behind an int32, in which a negative length is null and refused."""
    end = at + 4 + _not_null(int32_at(data, at), label)
    return data[at + 4 : end], end


def nullable_bytes_at(data: bytes, at: i64, label: str) -> tuple[bytes | None, i64]:
    """The same, in which a negative length is None."""
    length = int32_at(data, at)
    at += 4
    if length < 0:
        return None, at
    return data[at : at + length], at + length


# -- the same, written ------------------------------------------------------------------------------------------------


def present(value: T | None) -> T:
    """A value that its version cannot carry as null."""
    if value is None:
        raise TypeError("a field that must not be null in this version is None")
    return value


def _encoded(text: str, label: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_STRING_LENGTH:
        raise WireError(f"{label} is longer than {MAX_STRING_LENGTH} bytes")
    return data


def put_compact_string(out: list[bytes], text: str, label: str) -> None:
    """At most 32,767 bytes of UTF-8; raises WireError for more."""
    put_compact_bytes(out, _encoded(text, label), label)


def put_compact_nullable_string(out: list[bytes], text: str | None, label: str) -> None:
    """None is a varint of 0."""
    if text is None:
        out.append(_COMPACT_NULL)
    else:
        put_compact_bytes(out, _encoded(text, label), label)


def put_string(out: list[bytes], text: str, label: str) -> None:
    """As `put_compact_string`, behind an int16."""
    data = _encoded(text, label)
    out.append(_INT16.pack(len(data)))
    out.append(data)


def put_nullable_string(out: list[bytes], text: str | None, label: str) -> None:
    """None is a length of -1."""
    if text is None:
        out.append(_NULL_LENGTH_16)
    else:
        put_string(out, text, label)


def put_compact_bytes(out: list[bytes], data: bytes, label: str) -> None:
    """Behind an unsigned varint of the length and one."""
    out.append(write_unsigned_varint(len(data) + 1))
    out.append(data)


def put_compact_nullable_bytes(out: list[bytes], data: bytes | None, label: str) -> None:
    """None is a varint of 0."""
    if data is None:
        out.append(_COMPACT_NULL)
    else:
        put_compact_bytes(out, data, label)


def put_bytes(out: list[bytes], data: bytes, label: str) -> None:
    """Behind an int32."""
    out.append(_INT32.pack(len(data)))
    out.append(data)


def put_nullable_bytes(out: list[bytes], data: bytes | None, label: str) -> None:
    """None is a length of -1."""
    if data is None:
        out.append(_NULL_LENGTH_32)
    else:
        put_bytes(out, data, label)
