"""The checkers' decoded reads: a log is decoded once, and again wherever its bytes are others."""

from __future__ import annotations

from coterie.laboratory.decoded_reads import DecodedReads


def test_bytes_are_decoded_once_and_others_at_the_same_offset_again() -> None:
    decoded: list[bytes] = []

    def decode(data: bytes) -> bytes:
        decoded.append(data)
        return data.upper()

    reads = DecodedReads(decode)
    assert [reads.of(0, b"one"), reads.of(3, b"two"), reads.of(0, b"one")] == [b"ONE", b"TWO", b"ONE"]
    assert decoded == [b"one", b"two"]
    assert [reads.of(0, b"changed"), reads.of(0, b"changed"), reads.of(0, b"one")] == [b"CHANGED", b"CHANGED", b"ONE"]
    assert decoded == [b"one", b"two", b"changed", b"one"]
