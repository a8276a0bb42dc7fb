"""The net under the whole suite (tests/asyncio_complaints.py) holds: each of these tests would pass without it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SILENT_FAILURES = """
import asyncio
import gc
import threading


def test_a_task_is_destroyed():
    async def forever():
        await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    loop.create_task(forever())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gc.collect()


def test_an_exception_is_never_retrieved():
    async def failing():
        raise ValueError("lost")

    async def story():
        asyncio.create_task(failing())
        await asyncio.sleep(0)

    asyncio.run(story())
    gc.collect()


def test_a_callback_raises():
    async def story():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)

    asyncio.run(story())


def test_an_exception_cannot_be_raised():
    class Broken:
        def __del__(self):
            raise ValueError("unraisable")

    Broken()
    gc.collect()


def test_a_thread_ends_with_an_exception():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


def test_nothing_is_wrong():
    asyncio.run(asyncio.sleep(0))


left = []


def test_only_the_module_end_finds_it():
    async def failing():
        raise ValueError("left behind")

    async def story():
        task = asyncio.create_task(failing())
        left.append(task)
        left.append(left)  # a cycle, which only the collector breaks
        await asyncio.sleep(0)

    asyncio.run(story())
    globals()["left"] = None
"""
FAILURE_OF_A_SESSION = """
import asyncio

import pytest

outliving = []


@pytest.fixture(scope="session")
def forgotten_at_the_end():
    yield
    globals()["outliving"] = None


def test_only_the_end_of_the_run_finds_it(forgotten_at_the_end):
    async def failing():
        raise ValueError("outlives its module")

    async def story():
        outliving.extend([asyncio.create_task(failing()), outliving])
        await asyncio.sleep(0)

    asyncio.run(story())
"""


def test_each_silent_failure_fails(tmp_path: Path) -> None:
    (tmp_path / "test_silent.py").write_text(SILENT_FAILURES)
    (tmp_path / "test_z.py").write_text(FAILURE_OF_A_SESSION)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings =\n" + _filters())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.asyncio_complaints", "-p", "no:cacheprovider", "-rA"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE))
    assert failed == {
        "test_a_task_is_destroyed",
        "test_an_exception_is_never_retrieved",
        "test_a_callback_raises",
        "test_an_exception_cannot_be_raised",
        "test_a_thread_ends_with_an_exception",
        "test_only_the_module_end_finds_it",
        "test_only_the_end_of_the_run_finds_it",
    }, done.stdout


def _filters() -> str:
    """Those of this project."""
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    return "".join(f"    {line}\n" for line in settings["filterwarnings"])
