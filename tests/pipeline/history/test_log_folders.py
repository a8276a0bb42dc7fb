"""Pieces of segment files: every whole batch, or an error for what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.pipeline.reading import log_folders
from coterie.pipeline.reading.log_folders import FileRange, pieces
from coterie.records.batch import BatchError
from coterie.records.encoding import encode_batch

BATCH = encode_batch([(5, b"key", b"value", ())])
# Format 0: 34 bytes, shorter than a batch's header.
OLD_MESSAGE = bytes(8) + (22).to_bytes(4, "big") + b"\1\2\3\4" + bytes(18)


def read(folder: Path, data: bytes) -> bytes:
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    return b"".join(pieces(FileRange(str(path), 0, len(data))))


@pytest.mark.parametrize("rest", [b"", BATCH[:-1], BATCH[:30], BATCH[:5], bytes(5), bytes(500)], ids=len)
def test_what_is_cut_short_or_set_aside_is_left_out(tmp_path: Path, rest: bytes) -> None:
    assert read(tmp_path, BATCH * 3 + rest) == BATCH * 3


@pytest.mark.parametrize("rest", [OLD_MESSAGE, OLD_MESSAGE * 9, b"\xff" * 100], ids=["old", "old ones", "damaged"])
@pytest.mark.parametrize("before", [b"", BATCH * 3], ids=["first", "later"])
def test_what_is_no_batch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, rest: bytes
) -> None:
    monkeypatch.setattr(log_folders, "PIECE_BYTES", len(BATCH))
    with pytest.raises(BatchError, match=f"no record batch at byte {len(before)}: messages of formats 0 and 1"):
        read(tmp_path, before + rest + BATCH)


@pytest.mark.parametrize("piece_bytes", [1, len(BATCH), len(BATCH) + 1, 10_000])
def test_pieces_are_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(log_folders, "PIECE_BYTES", piece_bytes)
    assert read(tmp_path, BATCH * 5) == BATCH * 5
