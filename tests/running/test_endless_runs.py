"""`./run test` ends where one of its processes is killed, and where a test hangs: with the name of the test."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKERS = "2"
ENDS_WITHIN_S = 400  # it takes 3 s of an idle machine, and 30 s of one with six processes a core
TESTS = """
import os, signal, threading
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    if number == 1:
        {fault}
"""


def options() -> list[str]:
    """Of pytest, as `./run test` gives them."""
    given = re.search(r"all=\(-n auto (.*)\)", (ROOT / "run").read_text())
    assert given
    return ["-n", WORKERS, *given[1].split()]


def settings() -> list[str]:
    """What concerns a test that hangs, with a second in place of its minutes."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    kept = {name: value for name, value in table.items() if name.startswith("faulthandler")}
    kept["faulthandler_timeout"] = 1
    return [word for name, value in kept.items() for word in ("-o", f"{name}={value}")]


@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), signal.SIGKILL)", "threading.Event().wait(50)"])
def test_the_run_ends_and_names_the_test(fault: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_whole.py").write_text("def test_whole(): pass\n")
    (tmp_path / "test_faulty.py").write_text(TESTS.format(fault=fault))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options(), *settings()]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)
    assert ended.returncode == 1
    assert "crashed while running 'test_faulty.py::test_one[1]'" in ended.stdout
