"""Records by the compiled part, and many at a time: the same as one by one, whatever their lengths. `coterie --version`
names the record codecs that a C compiler made fast."""

from __future__ import annotations

import contextlib
import gc
import sys
from itertools import product
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli import main
from coterie.records import compiled
from coterie.records import decoding as module
from coterie.records.batch import HEADER_BYTES, BatchError, BatchRecord, batches, decode_headers, payload, read_header
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch

sizes = st.lists(st.one_of(st.integers(0, 3), st.just(100), st.integers(0, 300)), min_size=1, max_size=200)
NAMES = ("ENCODING_COMPILED", "ROWS_COMPILED", "COMPILED")


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
    # As in a batch with many records: without the compiled part `decode_records` takes numpy from MANY on.
    data = encode_batch(items * (1 if len(items) >= module.MANY else module.MANY), base_offset=5)
    ((at, header),) = batches(data)
    assert header.record_count >= module.MANY
    one_by_one = module._decode_each(payload(data, at, header), header, False, BatchRecord)
    for is_compiled in {False, compiled.ROWS_COMPILED}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "ROWS_COMPILED", is_compiled)
            unfolded = decode_records(data, at, header)
        assert unfolded == one_by_one
        assert list(map(hash, unfolded)) == list(map(hash, one_by_one))
        assert all(type(r) is BatchRecord for r in unfolded)


def test_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "ROWS_COMPILED", False)
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


@pytest.mark.skipif(not compiled.ROWS_COMPILED, reason="the compiled part was not built")
def test_the_compiled_part_trusts_no_caller() -> None:
    data = encode_batch([(1, b"k", b"v", ())] * 3)
    end = len(data)

    def rows(at: int = HEADER_BYTES, end: int = end, count: int = 3, make: type[Any] = BatchRecord) -> list[Any]:
        return compiled.rows(data, at, end, count, 0, 0, None, make, decode_headers, (), ())

    assert [row.value for row in rows()] == [b"v"] * 3
    assert not any(map(gc.is_tracked, rows())), "each walk of the garbage collector costs as much as the records"
    for at, last, count in ((-1, end, 3), (HEADER_BYTES, end + 1, 3), (end, HEADER_BYTES, 0), (HEADER_BYTES, end, -1)):
        with pytest.raises(ValueError, match=r"within the data|claims -1 records"):
            rows(at, last, count)
    for count in (2, 4, end):
        with pytest.raises(ValueError, match=r"its batch|bytes after the last|claims \d+ records"):
            rows(count=count)
    for make in (list, type("Changeable", (tuple,), {})):
        with pytest.raises(TypeError, match="NamedTuple"):
            rows(make=make)


@pytest.mark.skipif(not compiled.ROWS_COMPILED, reason="the compiled part was not built")
def test_the_compiled_part_keeps_nothing() -> None:
    """Also where the last record, or its headers, cannot be read."""
    headers = encode_batch([(n, b"k", b"v", [("h", b"x")]) for n in range(20)])
    damaged = headers[:-1] + b"\x7f"
    leading = (object(),)
    before = sys.getrefcount(leading[0])
    for data in (headers, damaged, headers[:-1]):
        header = read_header(data)
        with contextlib.suppress(BatchError):
            module.decode_rows(data, 0, header, tuple, leading)
    after = sys.getrefcount(leading[0])
    assert after == before


@pytest.mark.parametrize(
    ("built", "summary"),
    [
        ((), "interpreted"),
        (NAMES[:1], "compiled (_encoding; the others interpreted)"),
        (NAMES, "compiled (_encoding, _rows, _unfold)"),
    ],
)
def test_the_version_names_the_compiled_record_codecs(
    monkeypatch: pytest.MonkeyPatch, built: tuple[str, ...], summary: str
) -> None:
    for name in NAMES:
        monkeypatch.setattr(compiled, name, name in built)
    version, codecs = CliRunner().invoke(main, ["--version"]).output.splitlines()
    assert version.startswith("coterie, version ")
    assert codecs == f"record codecs: {summary}"


def test_lines_are_split_as_bytes_are() -> None:
    short = (bytes(each) for size in range(7) for each in product(b"\n\ra", repeat=size))
    for data in (*short, b"\n" * 5_000, b"x" * 100_000 + b"\n" + b"\0" * 100_000):
        assert compiled.split_lines(data) == data.split(b"\n")
