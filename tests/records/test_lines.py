"""Values as lines, by the compiled part and without it: the same pieces, of every record that is wanted, in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.records import compiled
from coterie.records.batch import BatchRecord, read_header
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.decoding import ValueLines, decode_lines
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
