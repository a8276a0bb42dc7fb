"""What conftest.py does so that the suite takes little time."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

from conftest import worker_share

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("tests", "conformance/tests") for path in (ROOT / folder).rglob("test_*.py")]


def test_processes_of_a_test_keep_their_bytecode() -> None:
    command = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
    assert not sys.dont_write_bytecode


def test_objects_of_the_collection_are_not_collected_again() -> None:
    # Not beside gc.get_objects(): a failure would have pytest write out every object, 20 GB of text.
    frozen = gc.get_freeze_count()
    assert frozen > 10_000


def test_each_file_is_in_the_share_of_one_worker() -> None:
    shares = [worker_share(FILES, number, 3) for number in range(3)]
    assert sorted(path for share in shares for path in share) == sorted(FILES)
    sizes = [sum(path.stat().st_size for path in share) for share in shares]
    assert max(sizes) < 1.1 * min(sizes)


def test_a_quick_run_tries_fewer_examples() -> None:
    quick, whole = settings.get_profile("quick"), settings.get_profile("coterie")
    assert quick.max_examples < whole.max_examples
    assert quick.deadline is whole.deadline is None, "a slow machine is no failure"
