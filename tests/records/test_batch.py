"""Record batches: what is encoded is decoded; what is damaged is refused; what others write is read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.records import compression
from coterie.records.batch import BatchError, batches, check_crc, read_header, stamp
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch

blob = st.none() | st.binary(max_size=200)
items = st.lists(
    st.tuples(st.integers(0, 2**45), blob, blob, st.lists(st.tuples(st.text(max_size=4), blob), max_size=2).map(tuple)),
    min_size=1,
    max_size=100,
)


@given(items, st.integers(0, 4))
def test_what_is_encoded_is_decoded(
    given_items: Sequence[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]], codec: int
) -> None:
    data = encode_batch(given_items, codec=codec, base_offset=100)
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.size, header.codec, header.last_offset) == (len(data), codec, 99 + len(given_items))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in decode_records(data, 0, header)] == list(given_items)


@pytest.mark.parametrize("codec", range(5))
def test_an_independent_client_reads_our_batches(codec: int) -> None:
    from kafka.record import MemoryRecords

    data = encode_batch([(1000 + n, b"k%d" % n, b"v" * n, (("h", b"x"),)) for n in range(50)], codec=codec)
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    assert [(r.timestamp, r.key, r.value, r.headers) for r in batch] == [
        (1000 + n, b"k%d" % n, b"v" * n, [("h", b"x")]) for n in range(50)
    ]


@pytest.mark.parametrize("codec", range(5))
def test_we_read_an_independent_clients_batches(codec: int) -> None:
    from kafka.record import MemoryRecordsBuilder

    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=100_000)
    for n in range(50):
        builder.append(timestamp=1000 + n, key=b"k%d" % n, value=b"v" * n, headers=[("h", b"x")])
    builder.close()
    data = bytes(builder.buffer())
    ((position, header),) = batches(data)
    check_crc(data, position, header)
    assert [(r.timestamp, r.key, r.value) for r in decode_records(data, position, header)] == [
        (1000 + n, b"k%d" % n, b"v" * n) for n in range(50)
    ]


def test_every_flipped_bit_after_the_crc_is_noticed() -> None:
    data = encode_batch([(1, b"key", b"value", ())])
    for position in range(21, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(BatchError):
            check_crc(bytes(damaged), 0, read_header(bytes(damaged)))


def test_stamping_keeps_the_crc() -> None:
    data = bytearray(encode_batch([(1, b"key", b"value", ())]))
    stamp(data, 0, 77, 3)
    header = read_header(bytes(data))
    check_crc(bytes(data), 0, header)
    assert (header.base_offset, header.leader_epoch) == (77, 3)


def test_a_batch_cut_short_at_the_end_is_left_out() -> None:
    one = encode_batch([(1, None, b"a", ())])
    assert [p for p, _ in batches(one + one[:-1])] == [0]


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD])
def test_a_bomb_is_refused(codec: int) -> None:
    bomb = compression.compress(codec, bytes(5_000_000))
    assert compression.decompress(codec, bomb, limit=5_000_000) == bytes(5_000_000)
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, bomb, limit=4_999_999)


@pytest.mark.parametrize("codec", range(1, 5))
def test_damaged_compression_is_refused(codec: int) -> None:
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, b"\x00garbage\xff" * 5)
