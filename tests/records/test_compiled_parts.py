"""`coterie --version` names the record codecs that a C compiler made fast."""

from __future__ import annotations

from itertools import product

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.records import compiled

NAMES = ("ENCODING_COMPILED", "ROWS_COMPILED", "COMPILED")


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
