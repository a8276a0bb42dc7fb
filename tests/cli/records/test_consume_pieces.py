"""`coterie consume` writes many values at once into a pipe, in pieces that a pipe holds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.cli.consume import PIECE_BYTES, _pieces

SIZES = st.lists(st.sampled_from((0, 1, 20_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1)), max_size=12)


@given(SIZES)
@example([PIECE_BYTES, 0, 1])
def test_pieces_are_every_value_in_order_and_as_large_as_they_may_be(sizes: list[int]) -> None:
    values = [bytes(size) for size in sizes]
    pieces = [values[begin:end] for begin, end in _pieces(values)]
    assert [value for piece in pieces for value in piece] == values
    for piece in pieces:
        assert sum(map(len, piece)) <= PIECE_BYTES or len(piece) == 1
    for piece, after in pairwise(pieces):
        assert sum(map(len, piece)) + len(after[0]) > PIECE_BYTES
