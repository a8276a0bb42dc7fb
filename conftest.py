"""Options and fixtures of the whole suite."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes one example slow; that is no failure of what the test asks.
settings.register_profile("coterie", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=30)  # of ./run test, and of --all
settings.load_profile("coterie")

# Reference cycles are collected after each module at the latest (tests/asyncio_complaints.py); looking for them oftener took a
# quarter of the collection of tests.
gc.set_threshold(50_000, 20, 100)

pytest_plugins = ["tests.async_tests", "tests.asyncio_complaints", "tests.suite"]

# The suite starts hundreds of processes; without bytecode each of them would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the traces of tests/spec again (then read the diff)")
    parser.addoption(
        "--closes", type=int, default=40, help="how many consumers tests/client/consumer/test_closing.py closes"
    )
    parser.addoption(
        "--pictures", metavar="DIRECTORY", help="write the console's pictures of the docs there (then look at each)"
    )
    parser.addoption("--copies", type=int, default=1, help="how many stories of each client tests/exactly_once runs")


def is_whole(config: pytest.Config) -> bool:
    """Whether no folder or file of the suite is named."""
    return set(config.args) <= set(config.getini("testpaths"))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "not slow" or (is_whole(config) and not config.getoption("markexpr")):
        settings.load_profile("quick")


# A JVM of Spark's lives for seconds in a test: it starts fast rather than runs fast, and does not verify the classes of its
# jars, a seventh of the processor time of a start. Processes of a test inherit this.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JVM_OPTIONS)
os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)


def worker_share(files: Sequence[Path], worker: int, workers: int) -> list[Path]:
    """The test files that one of the workers imports first; the shares are about equally large."""
    return sorted(files, key=lambda path: path.stat().st_size)[worker::workers]


def pytest_sessionstart(session: pytest.Session) -> None:
    """A worker of a whole run first imports a share of the test files. The import rewrites and compiles them, the greatest
    part of a collection; the other workers, which collect the same files, then read the bytecode."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or not is_whole(config):
        return
    from tests import suite  # a plugin, whose assertions pytest rewrites before its import

    files = [path for folder in config.args for path in (config.rootpath / folder).rglob("test_*.py")]
    files = [path for path in files if not suite.is_left_out(path, config)]
    for path in worker_share(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """The imports and the collection leave half a million objects, which live to the end: they are left out of all later
    garbage collections, which come after each file at least (tests/asyncio_complaints.py)."""
    gc.collect()
    gc.freeze()
