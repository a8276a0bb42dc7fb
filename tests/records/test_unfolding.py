"""Records many at a time: the same as one by one, whatever their lengths."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.records import decoding as module
from coterie.records.batch import BatchError, BatchRecord, batches, payload, read_header
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch

sizes = st.lists(st.one_of(st.integers(0, 3), st.just(100), st.integers(0, 300)), min_size=1, max_size=200)


@settings(max_examples=150, deadline=None)
@given(sizes, st.lists(st.one_of(st.none(), st.binary(max_size=80)), min_size=1, max_size=5), st.booleans())
def test_the_same_as_one_by_one(lengths: list[int], keys: list[bytes | None], with_headers: bool) -> None:
    items = [
        (
            1_000 + n * 7,
            keys[n % len(keys)],
            None if size == 3 else b"v" * size,
            [("h", b"x")] if with_headers and n % 3 else [],
        )
        for n, size in enumerate(lengths)
    ]
    # As in a batch with many records: the numpy way is what `decode_records` takes from MANY on.
    data = encode_batch(items * (1 if len(items) >= module.MANY else module.MANY), base_offset=5)
    ((at, header),) = batches(data)
    assert header.record_count >= module.MANY
    unfolded = decode_records(data, at, header)
    assert unfolded == module._decode_each(payload(data, at, header), header, False, BatchRecord)
    assert all(type(r) is BatchRecord for r in unfolded)


def test_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_numpys", lambda: None)
    data = encode_batch([(1, b"k", b"v", ())] * 100)
    assert [r.offset for r in decode_records(data, 0, read_header(data))] == list(range(100))


@pytest.mark.parametrize("cut", [62, 70, 200, 1_000])
def test_damaged_batches_are_told(cut: int) -> None:
    """Lengths that lie: never an error of numpy's, never too many records."""
    whole = encode_batch([(1, b"k", b"v" * 10, ())] * 100)
    for value in (0, 1, 0x7F, 0xFF):
        data = whole[:cut] + bytes([value]) + whole[cut + 1 :]
        try:
            records = decode_records(data, 0, read_header(data))
        except BatchError:
            continue
        assert len(records) == 100
