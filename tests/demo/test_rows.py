"""The demo's input: any file gives rows, lines set aside with a reason, or one sentence."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from coterie.demo.rows import InputError, InputRow, Reject, read_file

NAMES = st.text(st.characters(codec="utf-8", exclude_characters='\0{"'), min_size=1, max_size=4)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
BYTES = st.binary(max_size=60) | st.lists(
    st.sampled_from(
        [
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"{",
            b'"',
            b"a,b\n",
            b"1,2\r\n",
            b"\n",
            b"[",
            b"\xe9",
            b'{"a":1}\n',
            b"\\ud800",
            b"\0",
            b",",
            b"]}",
        ]
    ),
    max_size=12,
).map(b"".join)


def rows_of(path: Path, data: bytes, key: str | None) -> list[InputRow | Reject]:
    path.write_bytes(data)
    return list(read_file(path, key))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BYTES, st.sampled_from([None, "a"]))
@example(b'"\n', "a")  # a column whose name has a line break
def test_any_file_is_rows_or_one_sentence(tmp_path: Path, data: bytes, key: str | None) -> None:
    try:
        rows = rows_of(tmp_path / "file", data, key)
    except InputError as error:
        sentence = str(error)
    else:
        sentence = ""
        for row in rows:
            if isinstance(row, Reject):
                assert row.line > 0
                assert row.reason
            else:
                assert isinstance(json.loads(row.value()), dict)
                assert row.key is None or row.key.encode()
    assert "\n" not in sentence


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.lists(st.lists(CELLS, max_size=5), max_size=6))
def test_a_row_with_as_many_cells_as_names_is_kept_and_the_others_are_counted(
    tmp_path: Path, names: list[str], lines: list[list[str]]
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([names, *lines])
    rows = rows_of(tmp_path / "file", text.getvalue().encode(), names[0])
    kept = [row.fields for row in rows if isinstance(row, InputRow)]
    assert kept == [dict(zip(names, cells, strict=True)) for cells in lines if len(cells) == len(names)]
    assert len(rows) == sum(bool(cells) for cells in lines)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "not a JSON object"),
        ('{"b": 1}', "no field k"),
        ("{", "not JSON: Expecting property name"),
        ('{"k": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"k": "\\ud800"}', "the key is not UTF-8"),
    ],
)
def test_a_line_that_is_no_row_is_set_aside(tmp_path: Path, line: str, reason: str) -> None:
    first, bad, last = rows_of(tmp_path / "file", f'{{"k": 1}}\n{line}\n{{"k": null}}\n'.encode(), "k")
    assert isinstance(bad, Reject)
    assert (bad.line, bad.reason[: len(reason)]) == (2, reason)
    assert [row.key for row in (first, last) if isinstance(row, InputRow)] == ["1", None]


def test_a_key_in_another_encoding_is_set_aside(tmp_path: Path) -> None:
    bad, good = rows_of(tmp_path / "file", "name,n\nJosé,1\nAna,2\n".encode("latin-1"), "name")
    assert isinstance(bad, Reject)
    assert bad.reason == "the key is not UTF-8"
    assert isinstance(good, InputRow)


def test_a_header_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no header line: field larger than field limit"):
        rows_of(tmp_path / "file", b"a" * 200_000 + b",b\n1,2\n", None)
    with pytest.raises(InputError, match="is empty"):
        rows_of(tmp_path / "file", b"", None)
    with pytest.raises(InputError, match="has no column k; it has a, b"):
        rows_of(tmp_path / "file", b"a,b\n1,2\n", "k")


@pytest.mark.parametrize("depth", range(50, 1200, 50))
def test_what_was_read_can_be_written(tmp_path: Path, depth: int) -> None:
    (row,) = rows_of(tmp_path / "file", b'{"k":' + b"[" * depth + b"]" * depth + b"}", None)
    assert isinstance(row, Reject) or len(row.value()) == 2 * depth + 6
