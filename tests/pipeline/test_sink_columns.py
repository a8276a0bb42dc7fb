"""Arrow's columns as a producer takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.options.types import OptionError
from coterie.pipeline.sink import by_topic
from coterie.records.arrow_arrays import blobs_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
pairs = st.tuples(st.sampled_from(("", "h", "ä€")), st.none() | st.binary(max_size=3))
header_rows = st.none() | st.lists(pairs, max_size=3)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_keys_and_values(kind: Any) -> None:
    column = pa.array(["\u00e9".encode(), None, b""], pa.binary()).cast(kind)
    assert blobs_of(column) == ["\u00e9".encode(), None, b""]
    assert blobs_of(column.slice(2)) == [b""]
    assert blobs_of(pa.nulls(2, kind)) == [None, None]
    assert blobs_of(column.slice(3)) == []


@given(st.lists(header_rows, max_size=8) | st.integers(1, 4).map(lambda n: [[("h", b"v")]] * n), st.integers(0, 3))
def test_the_headers_of_rows(given_rows: list[list[tuple[str, bytes | None]] | None], begin: int) -> None:
    structs = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in given_rows]
    batch = pa.record_batch({"value": pa.nulls(len(structs), pa.binary()), "headers": pa.array(structs, HEADERS)})
    ((_, columns),) = by_topic(batch.slice(begin), ("value", "headers"), "t")
    wanted = [tuple(row or ()) for row in given_rows[begin:]]
    assert columns.headers == wanted
    assert columns.header_bytes == [sum(len(k.encode()) + len(v or b"") for k, v in row) for row in wanted]


def test_a_header_without_a_name() -> None:
    batch = pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": None, "value": b"v"}]], HEADERS)})
    with pytest.raises(OptionError, match="a header has no name"):
        list(by_topic(batch, ("value", "headers"), "t"))
