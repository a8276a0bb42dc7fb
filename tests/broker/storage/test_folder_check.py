"""`coterie log check`: the findings of a start, without one."""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.cli import main
from coterie_conformance.fuzzing.disk import FaultyFileSystem
from tests.broker.storage.test_damaged_folder import folder, loaded


def written(fs: FaultyFileSystem, path: Path) -> Path:
    for name, file in fs.files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(file.data)
    return path


def contents(path: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in path.rglob("*") if p.is_file()}


def check(path: Path, *options: str) -> Result:
    before = contents(path)
    result = CliRunner().invoke(main, ["log", "check", str(path), *options])
    assert contents(path) == before, "the check changed something"
    return result


@pytest.mark.parametrize("orderly", [True, False])
def test_an_undamaged_folder(tmp_path: Path, orderly: bool) -> None:
    result = check(written(folder(orderly=orderly), tmp_path))
    assert result.exit_code == 0, result.output
    assert result.output.startswith("3 logs with ")
    assert "nothing is damaged" in result.output


def test_checkpoints_that_kafka_has_not_filled_yet(tmp_path: Path) -> None:
    """Apache Kafka makes its checkpoint files empty; ours is not beside them. Empty where ours has offsets: damaged."""
    fs = folder(orderly=True)
    for name in ("log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        fs.write_file(name, b"")
    lost = check(written(fs, tmp_path / "ours"), "--json")
    files = {row["file"] for row in json.loads(lost.output)["findings"]}
    assert files >= {"log-start-offset-checkpoint", "cleaner-offset-checkpoint"}
    for name in ("topics.json", "log-checkpoint.json", "producer_ids"):
        fs.lose(name)
    result = check(written(fs, tmp_path / "kafkas"))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("kafkas", [False, True])
@pytest.mark.parametrize("orderly", [True, False])
def test_the_findings_are_those_of_a_start(tmp_path: Path, orderly: bool, kafkas: bool) -> None:
    """In a closed segment and in the last one, also of a folder without our own files, as Apache Kafka leaves it."""
    fs = folder(orderly=orderly)
    if kafkas:
        for name in ("topics.json", "log-checkpoint.json", "producer_ids"):
            fs.lose(name)
    logs = sorted(path for path in fs.files if path.startswith("plain-1/") and path.endswith(".log"))
    fs.flip(logs[0], 5, 0)  # a base offset
    fs.flip(logs[-1], fs.files[logs[-1]].size() - 5, 0)
    fs.flip(logs[1], 300, 3)
    result = check(written(fs, tmp_path), "--json")
    assert result.exit_code == 1, result.output
    reported = {(row["file"], row["action"]) for row in json.loads(result.output)["findings"]}
    assert {file for file, _ in reported} >= {logs[0], logs[1], logs[-1]}
    topics, _ = loaded(fs)
    for log in topics.every_log():
        log.verify()
    assert reported == {(finding.file, finding.action) for finding in topics.findings}


def test_a_file_that_ends_a_start(tmp_path: Path) -> None:
    fs = folder(orderly=True)
    fs.flip("topics.json", 40, 1)
    result = check(written(fs, tmp_path))
    assert result.exit_code == 1
    assert "topics.json: " in result.output
    assert "the broker does not start: restore it from a backup" in result.output


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    written(folder(orderly=True), tmp_path)
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = check(tmp_path)
    assert result.exit_code == 1
    assert "a broker uses the data folder" in result.output


@pytest.mark.parametrize("name", ["acls.json", "delegation_tokens.json", "scram_credentials.json"])
def test_a_file_that_would_end_the_start_is_named(tmp_path: Path, name: str) -> None:
    path = written(folder(orderly=True), tmp_path)
    (path / name).write_bytes(b"[{}]")
    result = check(path, "--json")
    assert result.exit_code == 1
    assert name in {row["file"] for row in json.loads(result.output)["findings"]}
