"""A log of `__consumer_offsets` with batches that cannot be read: the others are, and each one is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from coterie.cli.groups.offsets_dump import dump_offsets, offset_segments
from coterie.cli.pipeline.pipeline import _report_unreadable
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.pipeline.history.group_metadata import unreadable_row
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.reading.decoding import UNREADABLE, OffsetsDecoder
from coterie.pipeline.history.reading.record_sources import _commit_batches, _group_log_batches, log_ranges, read_range
from coterie.pipeline.history.reading.sound_batches import UnreadableBatch, unfolded
from coterie.pipeline.history.reading.topic_lookups import folder_ends
from coterie.pipeline.history.tables import COMMITS, GROUP_LOG
from coterie.pipeline.history.tables import UNREADABLE as UNREADABLE_BATCHES
from coterie.pipeline.tables.frame import arrow_schema
from coterie.records.arrow_arrays import table_of_rows
from coterie.records.encoding import encode_batch

COUNT = 6  # batches of one commit each, at the offsets 0 to 5


def commit(offset: int) -> bytes:
    record = to_record("g", OffsetStored("t", 0, CommittedOffset(offset, -1, "", 1000 + offset, -1)))
    assert record is not None
    return encode_batch([(1000 + offset, record.key, record.value, [])], base_offset=offset)


def batches() -> list[bytes]:
    return [commit(offset) for offset in range(COUNT)]


def folder(tmp_path: Path, data: bytes) -> Path:
    partition = tmp_path / "__consumer_offsets-3"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(data)
    return partition


def tables(partition: Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The committed offsets, and the rows of batches that cannot be read."""
    decoder = OffsetsDecoder(arrow_schema(COMMITS), arrow_schema(GROUP_LOG))
    offsets: list[int] = []
    rows: list[dict[str, Any]] = []
    for r in log_ranges([partition], {}):
        for piece in read_range(r, None):
            made = _commit_batches(decoder, piece, r)
            offsets += [] if made is None else made.column("offset").to_pylist()
            log = _group_log_batches(decoder, piece, r)
            for row in [] if log is None else log.to_pylist():
                assert row["kind"] == UNREADABLE
                rows.append(unreadable_row(row["value"], row["log_partition"]))
    return offsets, rows


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a changed byte": lambda batch: changed(batch, len(batch) - 1, bytes([batch[-1] ^ 1])),
    "a wrong length": lambda batch: changed(batch, 8, (2**30).to_bytes(4, "big")),
    "a negative length": lambda batch: changed(batch, 8, (-5).to_bytes(4, "big", signed=True)),
    "other bytes": lambda batch: b"\xff" * len(batch),
    "zeros": lambda batch: bytes(len(batch)),
    "an unknown format": lambda batch: changed(batch, 16, b"\x07"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_costs_its_own_records_alone(tmp_path: Path, damage: str) -> None:
    stored = batches()
    position = len(b"".join(stored[:2]))
    stored[2] = DAMAGES[damage](stored[2])
    partition = folder(tmp_path, b"".join(stored))
    offsets, [row] = tables(partition)
    assert offsets == [0, 1, 3, 4, 5]
    path = str(partition / "00000000000000000000.log")
    assert row.pop("why")
    assert row == {"log_partition": 3, "log_offset": 2, "last_offset": 2, "path": path, "position": position}


@pytest.mark.parametrize("damage", DAMAGES)
def test_so_do_the_first_and_a_second_one(tmp_path: Path, damage: str) -> None:
    stored = batches()
    for index in (0, 3):
        stored[index] = DAMAGES[damage](stored[index])
    offsets, rows = tables(folder(tmp_path, b"".join(stored)))
    assert offsets == [1, 2, 4, 5]
    assert [(row["log_offset"], row["last_offset"]) for row in rows] == [(0, 0), (3, 3)]


def test_the_number_of_records_behind_the_last_undamaged_batch_is_unknown(tmp_path: Path) -> None:
    stored = batches()
    stored[-1] = DAMAGES["a changed byte"](stored[-1])
    offsets, [row] = tables(folder(tmp_path, b"".join(stored)))
    assert offsets == [0, 1, 2, 3, 4]
    assert (row["log_offset"], row["last_offset"]) == (5, None)


@pytest.mark.parametrize("rest", [b"", bytes(4096), commit(COUNT)[:40], commit(COUNT)[:70]])
def test_what_a_crash_leaves_at_the_end_is_no_damage(tmp_path: Path, rest: bytes) -> None:
    assert tables(folder(tmp_path, b"".join(batches()) + rest)) == ([0, 1, 2, 3, 4, 5], [])


def test_of_the_batches_that_a_broker_sent_one_that_does_not_unfold_is_left_out() -> None:
    stored = batches()
    stored[2] = changed(stored[2], 57, (1000).to_bytes(4, "big"))  # the number of records
    pieces = list(unfolded(b"".join(stored)))
    assert sum(0 if isinstance(p, UnreadableBatch) or p.columns is None else len(p.columns) for p in pieces) == 5
    [bad] = [p for p in pieces if isinstance(p, UnreadableBatch)]
    assert (bad.path, bad.position, bad.first_offset, bad.last_offset) == (None, None, 2, 2)
    assert json.dumps(bad.why)


def test_the_command_names_what_the_tables_lack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    path = str(tmp_path / "00000000000000000000.log")
    row = {"log_partition": 3, "log_offset": 17, "last_offset": 20, "path": path, "position": 512, "why": "damaged"}
    (tmp_path / "unreadable").mkdir()
    rows = [row, row | {"log_offset": 30, "last_offset": None}]
    pq.write_table(table_of_rows(rows, arrow_schema(UNREADABLE_BATCHES)), tmp_path / "unreadable" / "0.parquet")
    with pytest.raises(click.ClickException, match="2 batches skipped: commits and group states in them are missing"):
        _report_unreadable(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"__consumer_offsets-3 ({path}, byte 512): offsets 17 to 20 cannot be read: damaged"
    assert "offsets from 30 on cannot be read" in lines[1]


@pytest.mark.parametrize("damage", DAMAGES)
def test_groups_dump_prints_what_is_behind_a_damaged_batch(tmp_path: Path, damage: str) -> None:
    stored = batches()
    stored[2] = DAMAGES[damage](stored[2])
    unread: list[str] = []
    lines = list(dump_offsets(offset_segments(folder(tmp_path, b"".join(stored))), unread))
    assert [line.split(":")[0] for line in lines if not line.startswith("!")] == ["0", "1", "3", "4", "5"]
    [bad] = [line for line in lines if line.startswith("!")]
    assert bad.startswith("! 2 to 2: ")
    assert len(unread) == 1


def test_the_end_of_a_topic_is_behind_a_damaged_batch(tmp_path: Path) -> None:
    stored = batches()
    stored[2] = DAMAGES["a wrong length"](stored[2])
    folder(tmp_path, b"".join(stored))
    assert list(folder_ends(tmp_path, [("__consumer_offsets", 3)], [9999])) == [("__consumer_offsets", 3, 9999, COUNT)]


def test_the_job_makes_the_tables_of_the_other_batches(tmp_path: Path) -> None:
    stored = batches()
    stored[2] = DAMAGES["a changed byte"](stored[2])
    partition = folder(tmp_path, b"".join(stored))
    counts = run_history(None, Sources(folders=(partition,)), tmp_path / "out")
    assert (counts["commits"], counts["unreadable"]) == (5, 1)
    again = run_history(None, Sources(folders=(partition,)), tmp_path / "out")
    assert (again["commits"], again["unreadable"]) == (5, 1)
