"""Sharing records out over tasks, and admission limits: plain Python, no Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.options import OptionError, source_options
from coterie.pipeline.reading import OffsetRange, limit_rows, share_out

ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), max_size=20)


@given(ranges, st.integers(1, 8))
def test_every_record_is_shared_out_once_and_evenly(sizes: list[tuple[int, int]], tasks: int) -> None:
    wanted = [OffsetRange("t", p, start, start + size, "h", 1) for p, (start, size) in enumerate(sizes)]
    shared = share_out(wanted, tasks)
    assert len(shared) <= tasks
    got = sorted((r.partition, o) for part in shared for r in part for o in range(r.start, r.end))
    assert got == sorted((r.partition, o) for r in wanted for o in range(r.start, r.end))
    total = sum(r.size for r in wanted)
    assert all(sum(r.size for r in part) <= -(-total // tasks) for part in shared)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.integers(1, 500))
def test_a_limit_holds_and_always_goes_on(available: list[int], rows: int) -> None:
    start = {("t", p): 7 for p in range(len(available))}
    end = {("t", p): 7 + size for p, size in enumerate(available)}
    limited = limit_rows(start, end, rows)
    taken = sum(limited[tp] - start[tp] for tp in end)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert taken <= max(rows, 1)
    assert taken > 0 or sum(available) == 0


def test_options_are_read_by_their_names_in_any_case() -> None:
    given_options = {
        "Kafka.Bootstrap.Servers": "h:9092,other:1",
        "SUBSCRIBE": "a, b",
        "startingOffsets": json.dumps({"a": {"0": 5}}),
        "maxOffsetsPerTrigger": "100",
        "includeHeaders": "true",
    }
    o = source_options(given_options, streaming=True)
    assert (o.host, o.port, o.subscribe, o.starting) == ("h", 9092, ("a", "b"), {"a": {"0": 5}})
    assert (o.max_offsets_per_trigger, o.include_headers, o.fail_on_data_loss) == (100, True, True)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"subscribe": "t", "startingOffset": "earliest"}, "has no option startingoffset"),
        ({"subscribe": "t", "assign": "{}"}, "exactly one"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, "positive whole number"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "nowhere"}, "must be HOST:PORT"),
        ({"assign": "[1]"}, "must be JSON like"),
    ],
)
def test_a_bad_option_is_said_in_a_sentence(bad: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        source_options({"kafka.bootstrap.servers": "h:1"} | bad, streaming=False)
