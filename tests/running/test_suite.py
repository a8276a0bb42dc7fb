"""How `./run test` runs the files, and what it reports (tests/suite.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.suite import DURATIONS, lasting, longest_first, scope_of

ROOT = Path(__file__).parents[2]
SLOW = "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\ndef test_quick(): pass\n"


def test_the_files_with_spark_are_one_scope() -> None:
    assert (
        scope_of("tests/pipeline/spark/test_spark.py")
        == scope_of("tests/pipeline/spark/test_spark_modes.py")
        == "spark"
    )
    assert scope_of("tests/cli/test_command_line.py") == "tests/cli/test_command_line.py"


def test_the_files_of_the_longest_scope_are_first() -> None:
    scopes = {"new": "new", "b": "spark", "c": "c", "a": "spark"}
    assert longest_first(scopes, {"a": 2, "b": 2, "c": 3.9, "gone": 9}) == ["a", "b", "c", "new"]


def test_short_files_have_no_duration() -> None:
    assert lasting([("b", 2.04), ("a", 0.5), ("c", 0.4)]) == '{\n"a": 0.5,\n"b": 2.0\n}\n'


def test_the_summary_has_the_slow_tests_that_are_left(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(SLOW)
    before = DURATIONS.read_text("utf-8")
    options = ("-p", "no:cacheprovider", "-p", "tests.suite", "-n", "2", "--dist", "loadfile")
    command = [sys.executable, "-m", "pytest", *options, "-m", "not slow", "tests"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "\n1 tests marked slow and conformance/tests are left for ./run test --all\n" in ended.stdout
    assert DURATIONS.read_text("utf-8") == before, "they are written with --record alone"
