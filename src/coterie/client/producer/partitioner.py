"""Which partition a record goes to: Kafka's murmur2 of the key, so that every client agrees (KIP-480 for no key)."""

from __future__ import annotations

from functools import lru_cache

from coterie.records import compiled

_M, _R, _SEED, _MASK = 0x5BD1E995, 24, 0x9747B28C, 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, unsigned; `compiled.murmur2` is the same in a tenth of the time."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


_hash = compiled.murmur2 if compiled.ENCODING_COMPILED else lru_cache(100_000)(murmur2)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key, from 0 to ``partitions`` - 1 (Kafka's BuiltInPartitioner.partitionForKey)."""
    return (_hash(key) & 0x7FFF_FFFF) % partitions
