"""Columnar decoding gives what record-by-record decoding gives, whatever the records look like."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.pipeline.reading.fetching import to_arrow
from coterie.records import columnar
from coterie.records.batch import HEADER_BYTES, TRANSACTIONAL_BIT, BatchError, batches, payload
from coterie.records.columnar import columns_in_pieces, columns_of, decode_columns, unfold
from coterie.records.compression import CODEC_BY_NAME, CompressionError
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch, rebuild_batch
from coterie.records.markers import end_of_transaction

blob = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=5), blob)
item = st.tuples(st.integers(0, 2**45), blob, blob, st.lists(header, max_size=3).map(tuple))


@pytest.fixture(params=["compiled", "numpy"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decoders; `./run` builds the compiled one wherever there is a C compiler."""
    if request.param == "compiled" and not columnar.COMPILED:
        assert shutil.which("cc") is None, "there is a C compiler, and the compiled part was not built"
        pytest.skip("LOUD: no C compiler here, so the compiled decoder is not tested")
    monkeypatch.setattr(columnar, "COMPILED", request.param == "compiled")


@pytest.mark.usefixtures("decoder")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    decoded = [[(h["key"], h["value"]) for h in row] for row in columns.headers.to_pylist()]
    assert decoded == [list(r.headers) for r in expected]
    assert columns.producer_ids.tolist() == [-1] * len(expected)
    assert columns.slice(1, len(columns)).values.to_pylist() == [r.value for r in expected[1:]]


Items = list[tuple[int, bytes | None, bytes | None, tuple[()]]]
wide = st.tuples(st.just(5), st.none(), st.integers(0, 20_000).map(bytes), st.lists(header, max_size=30).map(tuple))


@pytest.mark.usefixtures("decoder")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.lists(item | wide, min_size=1, max_size=20), st.integers(0, 4)), max_size=8),
    st.integers(1, 60_000),
)
def test_pieces_are_the_records_in_order(parts: list[tuple[Items, int]], piece_bytes: int) -> None:
    """A piece ends with the batch that fills it, whatever the codecs, and not before."""
    data, offset = b"", 0
    for items, codec in parts:
        data += encode_batch(items, codec=codec, base_offset=offset)
        offset += len(items) + 3  # compaction leaves gaps
    stored = [(data, at, header) for at, header in batches(data)]
    pieces = list(columns_in_pieces(stored, with_headers=True, piece_bytes=piece_bytes))
    whole = columns_of(stored, with_headers=True)
    assert sum(map(len, pieces)) == sum(len(items) for items, _ in parts)
    if whole is None:
        return
    assert np.concatenate([piece.offsets for piece in pieces]).tolist() == whole.offsets.tolist()
    for name in ("keys", "values", "headers"):
        assert pa.chunked_array([getattr(p, name) for p in pieces]).to_pylist() == getattr(whole, name).to_pylist()
    sizes = {header.base_offset: len(payload(data, at, header)) for at, header in batches(data)}
    for piece in pieces[:-1]:
        last = max(base for base in sizes if base <= piece.offsets[-1])
        assert sum(sizes[base] for base in sizes if piece.offsets[0] <= base < last) < piece_bytes


@pytest.mark.usefixtures("decoder")
def test_a_fetch_that_unfolds_to_very_much_is_read_in_pieces() -> None:
    """40 MB of records in a few kilobytes; a column of more than 2 GiB cannot be."""
    batch = encode_batch([(5, None, bytes(1_000_000), ())] * 10, codec=CODEC_BY_NAME["zstd"])
    data = batch * 4
    assert len(data) < 10_000
    pieces = list(columns_in_pieces([(data, at, header) for at, header in batches(data)]))
    assert [len(piece) for piece in pieces] == [20, 20]
    assert {piece.values.nbytes // 20_000_000 for piece in pieces} == {1}


def test_columns_of_more_than_an_arrow_column_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiled part; offsets of 32 bits would wrap, and Arrow would read anywhere."""
    monkeypatch.setattr(columnar, "COMPILED", False)
    monkeypatch.setattr(columnar, "_COLUMN_BYTES", 5_000)
    data = encode_batch([(5, None, bytes(1_000), ())] * 6, codec=CODEC_BY_NAME["zstd"])
    with pytest.raises(BatchError, match="more than 2 GiB"):
        decode_columns(data)


@pytest.mark.usefixtures("decoder")
def test_messages_of_an_old_format_are_refused() -> None:
    batch = encode_batch([(5, b"k", b"v", ())])
    old = batch[:16] + b"\x01" + batch[17:]
    with pytest.raises(BatchError, match="a batch of version 1"):
        columns_of([(old, at, header) for at, header in batches(old)])


@pytest.mark.usefixtures("decoder")
def test_a_record_without_headers_has_null_for_spark() -> None:
    """In any slice, and where no record has any."""
    some = [("n", b"7"), ("m", None)]
    data = encode_batch([(5, b"k", b"v", tuple(some[:n])) for n in (0, 2, 0, 1, 0)])
    columns = decode_columns(data, with_headers=True)
    assert columns is not None
    rows = [[{"key": key, "value": value} for key, value in some[:n]] or None for n in (0, 2, 0, 1, 0)]
    schema = pa.schema([("headers", columnar.HEADERS_TYPE)])
    for first, last in ((0, 5), (1, 4), (2, 3), (3, 5)):
        batch = to_arrow(columns.slice(first, last), "t", 0, schema)
        batch.validate(full=True)
        assert batch.column(0).to_pylist() == rows[first:last]
    plain = decode_columns(data)
    assert plain is not None
    assert to_arrow(plain, "t", 0, schema).column(0).to_pylist() == [None] * 5


@pytest.mark.usefixtures("decoder")
def test_uniform_records() -> None:
    """Records of one length: the shape in which lengths change only where the offset's varint grows."""
    data = b"".join(encode_batch([(5, b"12345678", b"v" * 100, ())] * 9000, base_offset=b) for b in (0, 9000))
    columns = decode_columns(data)
    assert columns is not None
    assert columns.offsets.tolist() == list(range(18_000))
    assert set(columns.values.to_pylist()) == {b"v" * 100}


@pytest.mark.usefixtures("decoder")
def test_transactions_and_their_markers() -> None:
    written = encode_batch([(5, b"k", b"v", ())] * 3, producer_id=7, producer_epoch=0, attributes=TRANSACTIONAL_BIT)
    marker = end_of_transaction(7, 0, True, 0, 9)
    plain = encode_batch([(5, b"k", None, ())], base_offset=4)
    columns, controls = unfold(written + marker + plain + plain[:-1])
    assert columns is not None
    assert columns.producer_ids.tolist() == [7, 7, 7, -1]
    assert columns.values.to_pylist() == [b"v", b"v", b"v", None]
    assert controls == [len(written)]


@pytest.mark.usefixtures("decoder")
def test_batches_that_compaction_left_empty() -> None:
    full = encode_batch([(5, b"k", b"v", ())] * 3)
    empty = rebuild_batch(next(batches(full))[1], [])
    assert decode_columns(empty) is None
    columns = decode_columns(empty + encode_batch([(5, b"k", b"v", ())], base_offset=3))
    assert columns is not None
    assert columns.offsets.tolist() == [3]


@pytest.mark.usefixtures("decoder")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_damage_is_refused_and_never_read_past(seed: int, changes: int) -> None:
    """Random bytes of the records' part: either an error, or as many records as the header says."""
    rng = random.Random(seed)
    data = bytearray(encode_batch([(n, b"key", b"v" * rng.randrange(200), (("h", b"x"),)) for n in range(40)]))
    for _ in range(changes):
        data[rng.randrange(HEADER_BYTES, len(data))] = rng.randrange(256)
    try:
        columns = decode_columns(bytes(data), with_headers=True)
    except (BatchError, CompressionError, UnicodeDecodeError):
        return
    assert columns is not None
    assert len(columns) == 40
    columns.values.validate(full=True)
    columns.keys.validate(full=True)


def test_records_are_read_where_the_compiled_part_was_not_built() -> None:
    """In a process of its own, in which it cannot be imported."""
    code = """
import sys
sys.modules["coterie.records._unfold"] = None
from coterie.records import columnar
from coterie.records.encoding import encode_batch
columns = columnar.decode_columns(encode_batch([(1, b"k", b"v", ()), (2, None, b"w", ())]))
assert not columnar.COMPILED and columns.values.to_pylist() == [b"v", b"w"], columns
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
