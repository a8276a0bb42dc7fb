"""What generated codecs call for the parts that are not fixed-size: varints and their limits.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the unsigned varints of flexible versions.
"""

from __future__ import annotations

MAX_STRING_LENGTH = 32_767
NULL_UUID = bytes(16)


class WireError(ValueError):
    """Bytes that are not the message they claim to be, or a value that the wire cannot carry."""


class TooManyElements(WireError):
    """A message with more elements than its reader allows."""


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Value and the position after it. At most 5 bytes (32 bits), as in Kafka."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise WireError("an unsigned varint is longer than 5 bytes")


def skip_tagged_fields(data: bytes, position: int, room: int) -> tuple[int, int]:
    """The position after a tag section whose fields are all unknown, and the elements that are still allowed of ``room``.
    Raises WireError, IndexError."""
    count, position = read_unsigned_varint(data, position)
    room -= count
    if room < 0:
        raise TooManyElements("with its tagged fields it has more elements than are allowed")
    for _ in range(count):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position += size
    return position, room


def write_unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last byte have the high bit set."""
    if value < 0x80:
        return SMALL_VARINTS[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_VARINTS: tuple[bytes, ...] = tuple(bytes((n,)) for n in range(0x80))
VARINTS_KEPT = 4096


class UnsignedVarints(dict[int, bytes]):
    """Varints by value, each made at its first use: lengths are nearly always small ones, and a call for each takes longer than
    to append it."""

    def __missing__(self, value: int) -> bytes:
        made = write_unsigned_varint(value)
        if value < VARINTS_KEPT:
            self[value] = made
        return made


UNSIGNED_VARINTS = UnsignedVarints()


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits, as records carry lengths and counts; the value and the position after it. At most 5 bytes,
    of which the last gives 4 bits (Kafka's ByteUtils.readVarint). Raises WireError, IndexError."""
    raw = data[position]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    byte = data[position + 1]
    raw = (raw & 0x7F) | (byte & 0x7F) << 7  # nearly always that is all
    position += 2
    shift = 14
    while byte >= 0x80:
        if shift > 28:
            raise WireError("a varint is longer than 5 bytes")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag varint of 64 bits, as records carry timestamps; the value and the position after it. At most 10 bytes, of
    which the last gives 1 bit (Kafka's ByteUtils.readVarlong). Raises WireError, IndexError."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF_FFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift > 63:
            raise WireError("a varint is longer than 10 bytes")


def java_long(value: int) -> int:
    """The value as Java's arithmetic of 64 bits has it: a sum beyond them wraps."""
    return value if -(1 << 63) <= value < 1 << 63 else (value + (1 << 63)) % (1 << 64) - (1 << 63)


def write_varint(value: int) -> bytes:
    """A zigzag varint; a value beyond 64 bits wraps, as a difference of Java's longs does."""
    if not -(1 << 63) <= value < 1 << 63:
        value = java_long(value)
    return write_unsigned_varint((value << 1) ^ (value >> 63))
