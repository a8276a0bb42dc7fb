"""XXH3 with 64 bits, seed 0 and the default secret (as xxHash 0.8 specifies it): of metadata that is hashed seldom, so that
no compiled library is needed. A kilobyte takes about 0.1 ms."""

from __future__ import annotations

import struct

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_BITS64, _BITS32 = 2**64 - 1, 2**32 - 1
_STRIPE_BYTES, _STRIPES, _LANES = 64, 16, struct.Struct("<8Q")
_BLOCK_BYTES = _STRIPE_BYTES * _STRIPES
_STRIPE_KEYS = [_LANES.unpack_from(_SECRET, 8 * n) for n in range(_STRIPES)]
_SCRAMBLE_KEYS = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE_BYTES)
_LAST_KEYS = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE_BYTES - 7)


def xxh3_64(data: bytes) -> int:
    """The hash, from 0 to 2**64 - 1."""
    length = len(data)
    if length <= 16:
        return _up_to_16(data, length)
    if length <= 128:
        return _up_to_128(data, length)
    return _up_to_240(data, length) if length <= 240 else _long(data, length)


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _folded(a: int, b: int) -> int:
    """The halves of the product of two 64-bit numbers, combined."""
    product = a * b
    return (product ^ product >> 64) & _BITS64


def _avalanche(h: int) -> int:
    h = (h ^ h >> 37) * _PRIME_MX1 & _BITS64
    return h ^ h >> 32


def _avalanche_of_xxh64(h: int) -> int:
    h = (h ^ h >> 33) * _PRIME64_2 & _BITS64
    h = (h ^ h >> 29) * _PRIME64_3 & _BITS64
    return h ^ h >> 32


def _rotated(h: int, by: int) -> int:
    return (h << by | h >> 64 - by) & _BITS64


def _up_to_16(data: bytes, length: int) -> int:
    if length > 8:
        low = _read64(data, 0) ^ _read64(_SECRET, 24) ^ _read64(_SECRET, 32)
        high = _read64(data, length - 8) ^ _read64(_SECRET, 40) ^ _read64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _folded(low, high) & _BITS64)
    if length >= 4:
        h = _read32(data, length - 4) + (_read32(data, 0) << 32) ^ _read64(_SECRET, 8) ^ _read64(_SECRET, 16)
        h = (h ^ _rotated(h, 49) ^ _rotated(h, 24)) * _PRIME_MX2 & _BITS64
        h = (h ^ (h >> 35) + length) * _PRIME_MX2 & _BITS64
        return h ^ h >> 28
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _avalanche_of_xxh64(combined ^ _read32(_SECRET, 0) ^ _read32(_SECRET, 4))
    return _avalanche_of_xxh64(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    low = _read64(data, at) ^ _read64(_SECRET, secret_at)
    return _folded(low, _read64(data, at + 8) ^ _read64(_SECRET, secret_at + 8))


def _up_to_128(data: bytes, length: int) -> int:
    total = length * _PRIME64_1
    for n in range((length - 1) // 32 + 1):
        total += _mixed(data, 16 * n, 32 * n) + _mixed(data, length - 16 * (n + 1), 32 * n + 16)
    return _avalanche(total & _BITS64)


def _up_to_240(data: bytes, length: int) -> int:
    total = length * _PRIME64_1 + sum(_mixed(data, 16 * n, 16 * n) for n in range(8))
    total = _avalanche(total & _BITS64)
    total += sum(_mixed(data, 16 * n, 16 * (n - 8) + 3) for n in range(8, length // 16))
    total += _mixed(data, length - 16, 136 - 17)
    return _avalanche(total & _BITS64)


def _long(data: bytes, length: int) -> int:
    lanes = [
        *(_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3),
        *(_PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1),
    ]
    last_block = (length - 1) // _BLOCK_BYTES * _BLOCK_BYTES
    for at in range(0, last_block, _BLOCK_BYTES):
        for n in range(_STRIPES):
            _accumulate(lanes, data, at + n * _STRIPE_BYTES, _STRIPE_KEYS[n])
        for i, key in enumerate(_SCRAMBLE_KEYS):
            lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ key) * _PRIME32_1 & _BITS64
    for n in range((length - 1 - last_block) // _STRIPE_BYTES):
        _accumulate(lanes, data, last_block + n * _STRIPE_BYTES, _STRIPE_KEYS[n])
    _accumulate(lanes, data, length - _STRIPE_BYTES, _LAST_KEYS)
    total = length * _PRIME64_1
    for n in range(4):
        at = 11 + 16 * n
        total += _folded(lanes[2 * n] ^ _read64(_SECRET, at), lanes[2 * n + 1] ^ _read64(_SECRET, at + 8))
    return _avalanche(total & _BITS64)


def _accumulate(lanes: list[int], data: bytes, at: int, keys: tuple[int, ...]) -> None:
    for i, value in enumerate(_LANES.unpack_from(data, at)):
        key = value ^ keys[i]
        lanes[i ^ 1] = lanes[i ^ 1] + value & _BITS64
        lanes[i] = lanes[i] + (key & _BITS32) * (key >> 32) & _BITS64
