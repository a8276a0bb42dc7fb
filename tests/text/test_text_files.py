"""The files that commands read: byte order marks, UTF-16, and what is no text, which is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.text.files import NotText, decode_properties, decode_text
from tests.cli.test_every_command import ended

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
LATIN_1 = "0,add,caf\u00e9\n".encode("latin-1")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_text_in_any_encoding(encoding: str) -> None:
    assert decode_text("0,add,node\n".encode(encoding)) == "0,add,node\n"
    assert decode_properties("acks=all\n".encode(encoding)) == "acks=all\n"


def test_properties_are_latin_1_as_javas() -> None:
    assert decode_properties("client.id=caf\u00e9".encode("latin-1")) == "client.id=caf\u00e9"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a\n" + LATIN_1, "is no UTF-8 text: byte 0xe9 in line 2; save it as UTF-8"),
        (b"\xff\xfea", "begins as UTF-16 and is no text"),
    ],
)
def test_what_is_no_text_is_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(NotText, match=sentence):
        decode_text(data)


@pytest.mark.parametrize(
    "line",
    [
        "pipeline what-if --churn {file} --out x",
        "lab study --churn {file} --out x",
        "topics reassign --plan {file}",
    ],
)
def test_a_file_in_latin_1_is_one_sentence(line: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(LATIN_1)
    end = ended(*line.format(file=file).split())
    assert (end.code, "is no UTF-8 text: byte 0xe9 in line 1" in end.sentence) == (2, True), end


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("line", "text", "sentence"),
    [
        ("broker --memory --properties {file}", "num.partitions=0\n", "num.partitions must be"),
        ("topics list --command-config {file}", "acks=7\n", "acks must be"),
    ],
)
def test_the_first_line_behind_a_mark_is_read(
    line: str, text: str, sentence: str, encoding: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(text.encode(encoding))
    end = ended(*line.format(file=file).split())
    assert (end.code, sentence in end.sentence) == (2, True), end
