"""Kafka's four codecs over cramjam, each with a bound on what it may unfold to.

Java's framings, not the libraries' defaults: snappy in snappy-java (xerial) blocks, lz4 frames with independent
blocks (Java refuses linked ones).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from mmap import mmap
from typing import Any

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_BY_NAME = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
DEFAULT_LEVELS = {GZIP: 6, LZ4: 9, ZSTD: 3}
MAX_UNCOMPRESSED_BYTES = 256 * 1024 * 1024

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_SLOWEST = 12
_MAPPED_BYTES = 4 * 1024 * 1024
_SNAPPY_RATIO = 22  # a copy of 64 bytes takes 3
_FRAMED = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}  # cramjam's names


class CompressionError(ValueError):
    """Compressed bytes that are damaged or of an unknown codec."""


class UncompressedTooLarge(CompressionError):
    """Compressed bytes that unfold beyond the bound."""


@cache
def _cramjam() -> Any:
    """The library, loaded with the first compressed batch: a broker that has none does without its 1.5 MB."""
    import cramjam

    return cramjam


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """The data in that codec; NONE gives it back. ``level`` as in Kafka's compression.*.level, None for its default."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return bytes(_cramjam().gzip.compress(data, level=DEFAULT_LEVELS[GZIP] if level in (None, -1) else level))
    if codec == SNAPPY:
        return _compress_xerial([data])
    if codec == LZ4:
        # Kafka's default, 9, is the fast compressor; every other level is one of the slow one's, which has 12.
        slow = 0 if level in (None, DEFAULT_LEVELS[LZ4]) else min(level or 0, _LZ4_SLOWEST)
        compressor = _cramjam().lz4.Compressor(level=slow, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    if codec == ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=DEFAULT_LEVELS[ZSTD] if level is None else level))
    raise CompressionError(f"there is no compression codec {codec}; Kafka has 0 to 4")


def compress_pieces(codec: int, pieces: Iterable[bytes]) -> bytes:
    """As `compress` of the pieces together, which need not be in memory together."""
    if codec == NONE:
        return b"".join(pieces)
    if codec == SNAPPY:
        return _compress_xerial(pieces)
    if codec == GZIP:
        compressor = _cramjam().gzip.Compressor(level=DEFAULT_LEVELS[GZIP])
    elif codec == LZ4:
        compressor = _cramjam().lz4.Compressor(level=0, content_checksum=False, block_linked=False)
    else:
        compressor = _cramjam().zstd.Compressor(level=DEFAULT_LEVELS[ZSTD])
    for piece in pieces:
        compressor.compress(piece)
    return bytes(compressor.finish())


def lz4_of_format_0(data: bytes) -> bytes:
    """An LZ4 frame as messages of format 0 have it: the checksum of its header wrongly covers the magic bytes too
    (KAFKA-3160)."""
    frame = bytearray(data)
    at = _lz4_header_bytes(frame)
    frame[at] = _xxhash32(bytes(frame[:at])) >> 8 & 0xFF
    return bytes(frame)


def decompress_lz4_format_0(data: bytes, limit: int = MAX_UNCOMPRESSED_BYTES) -> bytes:
    """As `decompress` of LZ4, whichever header checksum the frame has. Raises CompressionError."""
    frame = bytearray(data)
    try:
        at = _lz4_header_bytes(frame)
        frame[at] = _xxhash32(bytes(frame[4:at])) >> 8 & 0xFF
    except IndexError as error:
        raise CompressionError("the compressed records are damaged: the LZ4 frame has no whole header") from error
    return decompress(LZ4, bytes(frame), limit)


def _lz4_header_bytes(frame: bytearray) -> int:
    """The position of the header's checksum: after magic, flags, block size, and the content's size if there is one."""
    return 14 if frame[4] & 0x08 else 6


_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def _xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, which is what LZ4 frame headers have."""
    assert len(data) < 16, "the header of an LZ4 frame is short"
    one, two, three, four, five = _PRIMES
    mask, value, whole = 0xFFFF_FFFF, five + len(data), len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = value + word * three & mask
        value = (value << 17 | value >> 15) * four & mask
    for byte in data[whole:]:
        value = value + byte * five & mask
        value = (value << 11 | value >> 21) * one & mask
    value = (value ^ value >> 15) * two & mask
    value = (value ^ value >> 13) * three & mask
    return value ^ value >> 16


def decompress(codec: int, data: bytes, limit: int = MAX_UNCOMPRESSED_BYTES) -> bytes:
    """The data unfolded. Raises UncompressedTooLarge if that would be more than ``limit`` bytes, CompressionError."""
    return data if codec == NONE else bytes(decompressed(codec, data, limit))


def decompressed(codec: int, data: bytes, limit: int = MAX_UNCOMPRESSED_BYTES) -> bytes | memoryview:
    """The same, without the copy that bytes would be."""
    try:
        if codec == SNAPPY:
            return _decompress_snappy(data, limit)
        if codec == LZ4:
            _check_lz4_flags(data)
        if codec in _FRAMED:
            return _bounded(codec, data, limit)
    except (_cramjam().DecompressionError, struct.error) as error:
        raise CompressionError(f"the compressed records are damaged: {error}") from error
    raise CompressionError(f"there is no compression codec {codec}; Kafka has 0 to 4")


def _decompress_into(codec: int, data: bytes, out: bytearray | mmap) -> int:
    """The number of bytes written."""
    library: Callable[[bytes, bytearray | mmap], int] = getattr(_cramjam(), _FRAMED[codec]).decompress_into
    return library(data, out)


def _bounded(codec: int, data: bytes, limit: int) -> memoryview:
    """A guess that fits nearly always; a larger one only where the output was full, so that damage and a bomb cost little."""
    room = min(limit, 4 * len(data) + 16_384)
    while True:
        # What is mapped goes back to the system with the last view of it, whichever thread unfolded it.
        out = bytearray(room) if room < _MAPPED_BYTES else mmap(-1, room)
        try:
            written = _decompress_into(codec, data, out)
        except _cramjam().DecompressionError as error:
            if str(error) != _full_output(codec):
                raise
            if room >= limit:
                raise UncompressedTooLarge(f"the compressed records unfold to more than {limit} bytes") from error
        else:
            return memoryview(out)[:written]
        room = min(limit, room * 4)


@cache
def _full_output(codec: int) -> str:
    """The library's message where the output buffer is too small; it has no error code for that."""
    try:
        _decompress_into(codec, compress(codec, bytes(2)), bytearray(1))
    except _cramjam().DecompressionError as error:
        return str(error)
    raise AssertionError("two bytes do not fit into one")


def _check_lz4_flags(frame: bytes) -> None:
    """Frames that Kafka's Lz4BlockInputStream reads: version 1, blocks that do not depend on each other."""
    if len(frame) < 7:
        raise CompressionError("the compressed records are damaged: the LZ4 frame has no whole header")
    if frame[4] & 0xE0 != 0x60:
        raise CompressionError("the compressed records are an LZ4 frame of dependent blocks or of an unknown version")


def _compress_xerial(pieces: Iterable[bytes]) -> bytes:
    out, rest = [_XERIAL_HEADER], b""
    for piece in chain(pieces, [b""]):
        data = rest + piece
        end = len(data) if not piece else len(data) - len(data) % _XERIAL_BLOCK_BYTES
        for start in range(0, end, _XERIAL_BLOCK_BYTES):
            block = bytes(_cramjam().snappy.compress_raw(data[start : min(start + _XERIAL_BLOCK_BYTES, end)]))
            out += [struct.pack(">i", len(block)), block]
        rest = data[end:]
    return b"".join(out)


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_HEADER[:8]):
        return _decompress_block(data, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise CompressionError("the compressed records are damaged: the snappy header is cut short")
    pieces, at, total = [], len(_XERIAL_HEADER), 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise CompressionError("the compressed records are damaged: a snappy block runs past their end")
        piece = _decompress_block(data[at : at + size], limit, total)
        total += len(piece)
        pieces.append(piece)
        at += size
    return b"".join(pieces)


def _decompress_block(block: bytes, limit: int, before: int = 0) -> bytes:
    size = _cramjam().snappy.decompress_raw_len(block)
    if size > _SNAPPY_RATIO * len(block):
        raise CompressionError(
            f"the compressed records are damaged: a snappy block of {len(block)} bytes claims {size}"
        )
    if before + size > limit:
        raise UncompressedTooLarge(f"the compressed records unfold to more than {limit} bytes")
    return bytes(_cramjam().snappy.decompress_raw(block))
