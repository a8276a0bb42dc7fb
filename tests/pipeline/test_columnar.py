"""Columnar decoding gives what record-by-record decoding gives, whatever the records look like."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.records.batch import batches, decode_records, encode_batch
from coterie.records.columnar import decode_columns

blob = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=5), blob)
item = st.tuples(st.integers(0, 2**45), blob, blob, st.lists(header, max_size=3).map(tuple))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(item, min_size=1, max_size=150), st.integers(0, 4)), min_size=1, max_size=4))
def test_columns_equal_records(
    parts: list[tuple[list[tuple[int, bytes | None, bytes | None, tuple[()]]], int]],
) -> None:
    data, offset = b"", 7
    for items, codec in parts:
        data += encode_batch(items, codec=codec, base_offset=offset)
        offset += len(items)
    columns = decode_columns(data, with_headers=True)
    assert columns is not None
    expected = [r for position, h in batches(data) for r in decode_records(data, position, h)]
    assert columns.offsets.tolist() == [r.offset for r in expected]
    assert columns.timestamps.tolist() == [r.timestamp for r in expected]
    assert columns.keys.to_pylist() == [r.key for r in expected]
    assert columns.values.to_pylist() == [r.value for r in expected]
    assert columns.headers == [r.headers for r in expected]
    assert columns.slice(1, len(columns)).values.to_pylist() == [r.value for r in expected[1:]]


def test_uniform_records() -> None:
    """Records of one length: the shape in which lengths change only where the offset's varint grows."""
    data = b"".join(encode_batch([(5, b"12345678", b"v" * 100, ())] * 9000, base_offset=b) for b in (0, 9000))
    columns = decode_columns(data)
    assert columns is not None
    assert columns.offsets.tolist() == list(range(18_000))
    assert set(columns.values.to_pylist()) == {b"v" * 100}
