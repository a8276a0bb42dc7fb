"""Offsets as Spark keeps them: every partition once, equal offsets as the same text; admission stays between the ends."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.offsets import as_json, from_json
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.streaming.admission import Admission, Limits

offsets = st.dictionaries(
    st.tuples(st.text("abc.-_", min_size=1, max_size=4), st.integers(0, 200)), st.integers(0, 2**63 - 1), max_size=12
)


@given(offsets)
def test_offsets_are_read_as_they_were_written_and_equal_ones_have_one_text(
    wanted: dict[tuple[str, int], int],
) -> None:
    written = json.dumps(as_json(wanted))
    assert from_json(json.loads(written)) == wanted
    assert json.dumps(as_json(dict(reversed(wanted.items())))) == written


sizes = st.lists(st.tuples(st.integers(0, 500), st.floats(1, 300)), min_size=1, max_size=8)


@given(sizes, st.none() | st.integers(1, 300), st.none() | st.integers(1, 20_000))
def test_admission_goes_on_in_every_partition_and_keeps_both_limits(
    available: list[tuple[int, float]], rows: int | None, size_bytes: int | None
) -> None:
    class Sampler:
        def record_bytes(self, positions: object) -> dict[tuple[str, int], float]:
            return {("t", p): each for p, (_, each) in enumerate(available)}

    start = {("t", p): 3 for p in range(len(available))}
    ends = {("t", p): 3 + size for p, (size, _) in enumerate(available)}
    admission = Admission(SourceOptions({}), Sampler(), clock_s=lambda: 0.0)
    admitted = admission.admit(start, dict(ends), Limits(rows, size_bytes))
    taken = {tp: admitted[tp] - start[tp] for tp in ends}
    assert all(0 <= taken[tp] <= ends[tp] - start[tp] for tp in ends)
    assert all((taken[tp] > 0) == (ends[tp] > start[tp]) for tp in ends)
    waiting = [each for size, each in available if size]
    if rows is not None:
        assert sum(taken.values()) <= rows + len(waiting)
    if size_bytes is not None:
        taken_bytes = sum(taken[tp] * each for tp, (_, each) in zip(ends, available, strict=True))
        assert taken_bytes <= size_bytes * 1.000001 + sum(waiting)
    if rows is None and size_bytes is None:
        assert admitted == ends
