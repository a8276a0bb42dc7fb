"""How `./run test` runs the files, and what it reports (tests/suite.py). What conftest.py does so that the suite takes
little time. Tests that are coroutine functions: their limit, and their parameters by a decorator."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from conftest import worker_share
from tests import async_tests, suite
from tests.awaiting import run_in_virtual_time
from tests.suite import DURATIONS, UNSEEN, lasting, longest_first, may_be_slow, scope_of

ROOT = Path(__file__).parents[2]
QUICK = "def test_three(): pass\n"
SLOW = "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\ndef test_quick(): pass\n"
FILES = [path for folder in ("tests", "conformance/tests") for path in (ROOT / folder).rglob("test_*.py")]


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


@pytest.mark.parametrize(("cores", "expected"), [(2, 4), (1, 3), (64, 8)])
def test_there_are_more_workers_than_cores(cores: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert suite.pytest_xdist_auto_num_workers() == expected


def test_short_files_have_no_duration() -> None:
    assert lasting([("b", 2.04), ("a", 0.5), ("c", 0.4)]) == '{\n"a": 0.5,\n"b": 2.0\n}\n'


def run_whole(folder: Path, which: str, quick: str = QUICK) -> subprocess.CompletedProcess[str]:
    """A suite of one slow file and one quick, as `./run test` runs it, and `./run test --slow`."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").write_text(SLOW)
    (folder / "tests" / "test_two.py").write_text(quick)
    options = ("-p", "no:cacheprovider", "-p", "tests.suite", "-n", "2", "--dist", "loadfile")
    command = [sys.executable, "-m", "pytest", *options, "-m", which, "tests"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_slow_run_leaves_out_the_files_without_a_slow_test(tmp_path: Path) -> None:
    ended = run_whole(tmp_path, "slow", "raise AssertionError('it is imported')")
    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout
    assert "are left" not in ended.stdout
    assert may_be_slow(ROOT / "conformance/tests/test_rooms.py")


def test_no_file_with_a_slow_test_would_be_left_out() -> None:
    """Among the files that this run collected; `./run test` collects every file."""
    assert not UNSEEN, "their text has no slow"


def test_a_file_whose_slow_tests_are_marked_elsewhere_is_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(getoption={"markexpr": "not slow"}.get)
    items: Any = [
        SimpleNamespace(config=config, nodeid=f"{path.name}::test", path=path)
        for path in (ROOT / "tests/wire/test_framing.py", Path(__file__))
    ]
    monkeypatch.setattr(suite, "UNSEEN", set[str]())
    suite.pytest_deselected(items)
    assert {"test_framing.py"} == suite.UNSEEN


def test_the_summary_has_the_slow_tests_that_are_left(tmp_path: Path) -> None:
    before = DURATIONS.read_text("utf-8")
    ended = run_whole(tmp_path, "not slow")
    assert ended.returncode == 0, ended.stdout
    assert "\n1 tests marked slow and conformance/tests are left for ./run test --all\n" in ended.stdout
    assert DURATIONS.read_text("utf-8") == before, "they are written with --record alone"


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


def test_only_a_test_that_stands_still_is_ended() -> None:
    async def steps() -> None:
        for _ in range(3):
            await asyncio.sleep(async_tests.LIMIT_S - 1)
            async_tests.went_on()

    run_in_virtual_time(async_tests._bounded(steps()))
    with pytest.raises(TimeoutError):
        run_in_virtual_time(async_tests._bounded(asyncio.sleep(async_tests.LIMIT_S + 1)))


def test_a_decorated_test_gets_its_first_parameters_by_the_decorator_and_the_others_as_fixtures() -> None:
    async def test(first: int, second: int, fixture: int) -> None:
        assert (first, second, fixture) == (1, 2, 3)

    decorated = async_tests.run_by(lambda test: asyncio.run(_awaited(test(1, 2))), given=2)(test)
    assert list(inspect.signature(decorated).parameters) == ["fixture"]
    decorated(fixture=3)
    with pytest.raises(AssertionError):
        decorated(fixture=4)


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
