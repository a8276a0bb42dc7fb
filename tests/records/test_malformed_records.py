"""Records whose lengths lie: every decoder gives the same verdict and the same records, in bounded time and memory."""

from __future__ import annotations

import random
import shutil
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.records import columnar, compiled, compression, decoding
from coterie.records.batch import HEADER_BYTES, BatchError, BatchHeader, read_header
from coterie.records.compression import CompressionError, UncompressedTooLarge
from coterie.records.decoding import decode_keys_and_values, decode_lines, decode_records
from coterie.records.encoding import encode_batch, sealed
from coterie.records.walking import walk, walk_each
from coterie.wire.primitives import write_varint
from coterie_conformance.fuzzing.inputs import malformed_batch

REFUSED = "refused"
ENDLESS_HEADERS = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x01\x03"  # a huge count, then a name of length -2


def of_body(body: bytes, count: int = 1, **fields: int) -> bytes:
    header = read_header(encode_batch([(1_000, b"k", b"v", ())]))
    return sealed(body, header._replace(record_count=count, last_offset_delta=max(count - 1, -(2**31)), **fields))


def record(fields: bytes, length: int | None = None) -> bytes:
    return write_varint(len(fields) if length is None else length) + fields


def verdict(decode: Any) -> Any:
    try:
        return decode()
    except (BatchError, CompressionError):
        return REFUSED


def by_columns(data: bytes, with_headers: bool) -> list[Any]:
    header = read_header(data)
    columns = columnar.columns_of([(data, 0, header)], with_headers=with_headers)
    if columns is None:
        return []
    rows = zip(
        columns.offsets.tolist(),
        columns.timestamps.tolist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        strict=True,
    )
    if not with_headers:
        return list(rows)
    headers = [tuple((h["key"], h["value"]) for h in row) for row in columns.headers.to_pylist()]
    return [(*row, of_record) for row, of_record in zip(rows, headers, strict=True)]


def by_numpy(data: bytes, header: BatchHeader) -> list[Any]:
    """The decoder with numpy, however few the records are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "ROWS_COMPILED", False)
        patch.setattr(decoding, "MANY", 1)
        return decode_records(data, 0, header)


def one_by_one(data: bytes, header: BatchHeader) -> list[Any]:
    """The Python decoder alone, whatever the number of records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "ROWS_COMPILED", False)
        patch.setattr(decoding, "_numpys", lambda: None)
        return decode_records(data, 0, header)


def check_all(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    header = read_header(data)
    records = verdict(lambda: one_by_one(data, header))
    refused = records == REFUSED
    assert verdict(lambda: decode_records(data, 0, header)) == records
    if header.record_count:
        assert verdict(lambda: by_numpy(data, header)) == records
    for is_compiled in {False, columnar.COMPILED}:
        with monkeypatch.context() as patch:
            patch.setattr(columnar, "COMPILED", is_compiled)
            patch.setattr(compiled, "COMPILED", is_compiled)
            assert verdict(lambda: by_columns(data, True)) == records
            assert verdict(lambda: by_columns(data, False)) == (REFUSED if refused else [tuple(r[:4]) for r in records])
            walked = verdict(lambda: walk(data, header))
        if header.record_count:
            assert (walked == REFUSED) == refused
        if not refused and header.record_count and not header.attributes & 8:
            times = [r.timestamp for r in records]
            assert walked.newest == max([-1, *times])
            assert walked.oldest == min([2**63 - 1, *(t for t in times if t != -1)])
            assert walked.keyless == any(r.key is None for r in records)
            assert walked.consecutive == ([r.offset for r in records] == list(range(len(records))))
    for is_compiled in {False, compiled.ROWS_COMPILED}:
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "ROWS_COMPILED", is_compiled)
            pairs = verdict(lambda: decode_keys_and_values(data, 0, header))
            lines = verdict(lambda: decode_lines(data, 0, header, -(2**63), 2**31, 8))
        assert pairs == (REFUSED if refused else [(r.key, r.value, r.timestamp) for r in records])
        assert refused or b"".join(piece.data for piece in lines) == b"".join((r.value or b"") + b"\n" for r in records)
        assert (lines == REFUSED) == refused


@given(st.randoms(use_true_random=False))
def test_all_decoders_agree(rng: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check_all(malformed_batch(rng), patch)


def test_the_compiled_decoder_is_among_them() -> None:
    assert compiled.COMPILED or shutil.which("cc") is None, "there is a C compiler, and the compiled part was not built"


# A record's fields after its length, and whether Kafka 3.9.1 reads it (DefaultRecord.readFrom).
PLAIN = b"\0\0\0\x02k\x02v"
FIELDS: dict[str, tuple[bytes, bool]] = {
    "right": (PLAIN + b"\0", True),
    "headers without end": (PLAIN + ENDLESS_HEADERS, False),
    "headers without end in 5 bytes": (PLAIN + b"\xfe\xff\xff\xff\x0f\x03", False),
    "a negative count of headers": (PLAIN + b"\x01", False),
    "more headers than bytes": (PLAIN + b"\x06\x02h\x01", False),
    "a header's name of length -1": (PLAIN + b"\x02\x01\x01", False),
    "a header's name past the end": (PLAIN + b"\x02\x08h\x01", False),
    "a header's value past the end": (PLAIN + b"\x02\x02h\x08v", False),
    "a header's value of length -2": (PLAIN + b"\x02\x02h\x03", True),
    "a header's name that is not UTF-8": (PLAIN + b"\x02\x02\xff\x01", True),
    "a key of length -2": (b"\0\0\0\x03\x02v\0", True),
    "a value of length -2": (b"\0\0\0\x02k\x03\0", True),
    "a key past the end": (b"\0\0\0\x20k\x02v\0", False),
    "a key of 2^31-1 bytes": (b"\0\0\0\xfe\xff\xff\xff\x0fk\x02v\0", False),
    "a length of 6 bytes": (b"\0\0\0\x82\x80\x80\x80\x80\0k\x02v\0", False),
    "a length of 5 bytes": (b"\0\0\0\x82\x80\x80\x80\0k\x02v\0", True),
    "a length whose fifth byte has more than 4 bits": (b"\0\0\0\x82\x80\x80\x80\x10k\x02v\0", True),
    "a timestamp of 10 bytes": (b"\0" + b"\xff" * 9 + b"\x01\0\x02k\x02v\0", True),
    "a timestamp of 11 bytes": (b"\0" + b"\xff" * 10 + b"\x01\0\x02k\x02v\0", False),
    "a byte too many": (PLAIN + b"\0\0", False),
    "no headers at all": (PLAIN, False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize("name", FIELDS)
def test_what_kafka_reads_is_read(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, readable = FIELDS[name]
    right = record(FIELDS["right"][0])
    data = of_body(right * (many - 1) + record(fields), many)
    tracemalloc.start()
    try:
        assert (verdict(lambda: decode_records(data, 0, read_header(data))) != REFUSED) == readable
        assert tracemalloc.get_traced_memory()[1] < 5_000_000  # numpy's import is the most of it
    finally:
        tracemalloc.stop()
    check_all(data, monkeypatch)


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize("length", [-(2**31), -9, -5, -1, 0, 7, 9, 2**31 - 1])
def test_a_records_length_that_lies(length: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = record(FIELDS["right"][0])
    longer = record(b"\0\0\0\x02k\x04vv\0")  # records of different lengths are read one by one, also by numpy
    between = (right + longer) * (many // 2 - 1) if many > 1 else b""
    data = of_body(between + record(FIELDS["right"][0], length) + right * (many > 1), many)
    assert verdict(lambda: decode_records(data, 0, read_header(data))) == REFUSED
    check_all(data, monkeypatch)


@pytest.mark.parametrize("count", [-(2**31), -1, 1, 3, 39, 41, 2**31 - 1])
def test_a_count_that_lies(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = of_body(record(FIELDS["right"][0]) * (2 if count < 10 else 40), count)
    assert verdict(lambda: decode_records(data, 0, read_header(data))) == REFUSED
    check_all(data, monkeypatch)


def test_names_that_are_not_utf_8_are_read_as_kafka_reads_them() -> None:
    data = of_body(record(FIELDS["a header's name that is not UTF-8"][0]))
    assert decode_records(data, 0, read_header(data))[0].headers == (("\ufffd", None),)


@pytest.mark.parametrize("many", [1, 40])
def test_timestamps_wrap_as_javas(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = b"\0" + write_varint(5) + b"\0\x02k\x02v\0"
    data = of_body(record(fields) * many, many, base_timestamp=2**63 - 1)
    assert decode_records(data, 0, read_header(data))[0].timestamp == -(2**63) + 4
    check_all(data, monkeypatch)


def test_a_walk_ends_within_its_batch() -> None:
    """The compiled one is given places, and trusts no caller."""
    body = record(FIELDS["right"][0])
    for at, end in ((-1, 9), (0, 10), (5, 4)):
        if compiled.COMPILED:
            with pytest.raises(ValueError, match="within"):
                compiled.walk(body, at, end, 1, 0)
    assert walk_each(body, 0, len(body), 1, 7) == (7, 7, True, False)


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD])
def test_garbage_costs_kilobytes(codec: int) -> None:
    """And its sentence is not that of what is too large."""
    starts = {
        compression.GZIP: b"\x1f\x8b\x08",
        compression.LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
        compression.ZSTD: b"\x28\xb5\x2f\xfd",
    }
    rng = random.Random(codec)
    whole = compression.compress(codec, bytes(50_000))
    garbage = [rng.randbytes(200), starts.get(codec, b"") + rng.randbytes(200), whole[:-5], whole[: len(whole) // 2]]
    garbage += [b"\xff\xff\xff\x7f" + rng.randbytes(200)]  # raw snappy that claims 256 MiB
    for data in garbage:
        with pytest.raises(CompressionError) as first:  # what is made once is made now
            compression.decompress(codec, data)
        tracemalloc.start()
        with pytest.raises(CompressionError):
            compression.decompress(codec, data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200_000
        assert not isinstance(first.value, UncompressedTooLarge)
        assert "damaged" in str(first.value) or "LZ4 frame" in str(first.value)


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD])
def test_a_bomb_is_called_too_large(codec: int) -> None:
    bomb = compression.compress(codec, bytes(3_000_000))
    with pytest.raises(UncompressedTooLarge, match="more than 2000000 bytes"):
        compression.decompress(codec, bomb, limit=2_000_000)
    assert len(compression.decompress(codec, bomb, limit=3_000_000)) == 3_000_000


def test_lz4_that_kafka_cannot_read_is_refused() -> None:
    """Blocks that depend on each other (Lz4BlockInputStream)."""
    import cramjam

    linked = cramjam.lz4.Compressor(level=0, content_checksum=False, block_linked=True)
    linked.compress(bytes(1_000))
    with pytest.raises(CompressionError, match="dependent"):
        compression.decompress(compression.LZ4, bytes(linked.finish()))


def test_a_compressed_batch_of_no_records_is_not_unfolded() -> None:
    """Compaction leaves such; Kafka does not look into them either."""
    data = of_body(b"garbage", 0, attributes=compression.ZSTD)
    assert decode_records(data, 0, read_header(data)) == []
    assert columnar.unfold(data) == (None, [])
    assert len(data) == HEADER_BYTES + 7
