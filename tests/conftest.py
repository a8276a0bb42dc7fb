"""Options and fixtures of the whole suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A busy machine makes one example slow; that is no failure of what the test asks.
settings.register_profile("coterie", deadline=None)
settings.load_profile("coterie")

pytest_plugins = ["tests.asyncio_complaints"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the traces of tests/spec anew (then read the diff)")
    parser.addoption("--closes", type=int, default=40, help="how many consumers tests/client/test_closing.py closes")


# Files with few tests and long ones; with several workers they go first, so that none is left with one at the end.
LONG_FILES = (
    "tests/pipeline/test_history.py",
    "tests/pipeline/test_spark_modes.py",
    "tests/docs/test_pages_run.py",
    "tests/pipeline/test_ends.py",
    "tests/test_package.py",
    "tests/test_examples.py",
    "tests/docs/test_site.py",
    "tests/broker/test_hostile.py",
    "tests/test_clients.py",
    "tests/conformance/test_commands.py",
    "tests/laboratory/test_study.py",
)
MOST_WORKERS = 4  # each may have a Spark session of its own


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The workers of `-n auto`: as many as there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order = {name: number for number, name in enumerate(LONG_FILES)}
        items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
