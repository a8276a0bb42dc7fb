"""Values as lines, by the compiled part and without it: the same pieces, of every record that is wanted, in order. Record
batches: what is encoded is decoded; what is damaged is refused; what others write is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.records import compiled, compression
from coterie.records.batch import BatchError, BatchRecord, batches, check_crc, read_header, stamp
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.decoding import ValueLines, decode_lines, decode_records
from coterie.records.encoding import encode_batch, rebuild_batch

PIECE = 100
VALUES = st.lists(st.none() | st.sampled_from((0, 1, 40, PIECE - 1, PIECE, PIECE + 1)), min_size=1, max_size=12)


def of_each(data: bytes, first_offset: int, limit: int) -> list[list[ValueLines]]:
    """What each implementation returns."""
    made = []
    for is_compiled in {False, compiled.ROWS_COMPILED}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "ROWS_COMPILED", is_compiled)
            made.append(decode_lines(data, 0, read_header(data), first_offset, limit, PIECE))
    return made


def both(data: bytes, first_offset: int, limit: int) -> list[ValueLines]:
    """What either implementation returns."""
    made = of_each(data, first_offset, limit)
    assert made[0] == made[-1]
    return made[0]


@given(VALUES, st.sampled_from(sorted(CODEC_BY_NAME)), st.integers(0, 14), st.integers(1, 14), st.booleans())
@example([PIECE - 1, 0, 1], "none", 0, 14, False)
def test_pieces_have_every_wanted_value_in_order_and_are_as_large_as_they_may_be(
    sizes: list[int | None], codec: str, first: int, limit: int, has_more: bool
) -> None:
    values = [None if size is None else bytes([65 + n]) * size for n, size in enumerate(sizes)]
    more = (b"a key", [("a name", b"of a header")]) if has_more else (None, [])
    items = [(1_000 + n, more[0], value, more[1]) for n, value in enumerate(values)]
    pieces = both(encode_batch(items, codec=CODEC_BY_NAME[codec], base_offset=7), 7 + first, limit)
    wanted = values[first : first + limit]
    assert b"".join(piece.data for piece in pieces) == b"".join((value or b"") + b"\n" for value in wanted)
    assert sum(piece.records for piece in pieces) == len(wanted)
    assert [piece.last_offset for piece in pieces[-1:]] == [7 + first + len(wanted) - 1] * bool(wanted)
    for piece in pieces:
        assert len(piece.data) <= PIECE or piece.records == 1
    for piece, after in pairwise(pieces):
        assert after.last_offset == piece.last_offset + after.records
        assert len(piece.data) + after.data.index(b"\n") + 1 > PIECE


def test_the_gaps_that_compaction_leaves_are_in_no_piece() -> None:
    header = read_header(encode_batch([(1, b"k", b"v", ())] * 9, base_offset=20))
    kept = [BatchRecord(offset, 1, b"k", b"%d" % offset, ()) for offset in (21, 24, 28)]
    assert both(rebuild_batch(header, kept), 22, 9) == [ValueLines(b"24\n28\n", 2, 28)]


def test_records_out_of_order_are_lines_where_they_are_wanted() -> None:
    """No broker of Apache Kafka stores such a batch; a wrong one may."""
    header = read_header(encode_batch([(1, None, b"v", ())] * 4, base_offset=20))
    kept = [BatchRecord(offset, 1, None, b"%d" % offset, ()) for offset in (23, 20, 22, 21)]
    for pieces in of_each(rebuild_batch(header, kept), 21, 9):
        assert b"".join(piece.data for piece in pieces) == b"23\n22\n21\n"


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
