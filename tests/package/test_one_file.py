"""The one file's launcher around a small program: unpacked at the first start, and the process is the program's own."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """#!/bin/sh
echo "$$ $* $(cat "$(dirname "$0")"/_internal/text)"
exec sleep "${SLEEP:-0}"
"""
TEXT = "hello " * 1000


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "coterie").write_text(PROGRAM)
    (folder / "coterie").chmod(0o755)
    (folder / "_internal" / "deep").mkdir(parents=True)
    (folder / "_internal" / "deep" / "text").write_text(TEXT)
    (folder / "_internal" / "text").symlink_to("deep/text")
    made: Path = runpy.run_path(str(ROOT / "release" / "packing.py"))["pack"](
        folder, tmp_path_factory.mktemp("dist") / "coterie"
    )
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(one_file: Path, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **variables}
    return subprocess.run([one_file, *words], env=environment, capture_output=True, text=True, check=False, timeout=60)


def unpacked(folder: Path) -> dict[str, int]:
    """The time of change of each file below it."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.name: path.stat().st_mtime_ns for path in files}


def test_it_unpacks_itself_once(one_file: Path, home: Path) -> None:
    first = run(one_file, home, "a", "b c")
    assert first.stdout.split(" ", 1)[1] == f"a b c {TEXT}\n", first.stderr
    files = unpacked(home / ".cache" / "coterie")
    assert files.keys() == {"coterie", "text"}
    assert run(one_file, home).returncode == 0
    assert unpacked(home / ".cache" / "coterie") == files


def test_what_is_missing_or_cut_is_unpacked_again(one_file: Path, home: Path) -> None:
    run(one_file, home)
    (text,) = (home / ".cache" / "coterie").rglob("deep/text")
    text.unlink()
    assert TEXT.strip() in run(one_file, home).stdout
    text.write_text("hel")
    assert TEXT.strip() in run(one_file, home).stdout


def test_the_process_is_the_program(one_file: Path, home: Path) -> None:
    """One that is killed leaves nothing running."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SLEEP": "60"}
    with subprocess.Popen([one_file], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[0] == str(process.pid)
        process.kill()
        assert process.wait(10) == -signal.SIGKILL


def test_a_folder_that_others_may_write_to_is_not_used(one_file: Path, home: Path, tmp_path: Path) -> None:
    cache = home / ".cache" / "coterie"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert run(one_file, home, TMPDIR=str(tmp_path)).returncode == 0
    assert unpacked(cache) == {}
    assert unpacked(tmp_path / f"coterie-{os.geteuid()}").keys() == {"coterie", "text"}


def test_without_a_folder_it_says_so(one_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(one_file, tmp_path / "file", TMPDIR=str(tmp_path / "file"))
    assert done.returncode == 1
    base = f"{tmp_path}/file/coterie-{os.geteuid()}"
    assert done.stderr == f"coterie: cannot run in {base}: Not a directory; TMPDIR names another folder\n"


def test_a_file_that_is_cut_short_says_so(one_file: Path, home: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(one_file.read_bytes()[:-10])
    cut.chmod(0o755)
    done = run(cut, home)
    assert (done.returncode, done.stderr) == (1, "coterie: the file is cut short\n")
