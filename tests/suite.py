"""How `./run test` runs: the files by their recorded durations (tests/durations.json), each on one worker; at its end, which
tests are left for `./run test --all`."""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.json")  # file: seconds
LEAST_S = 0.5  # of a file in it
# More than there are cores: half of a worker's time is waiting for processes, timeouts and sockets. With six more, --all took
# 24 minutes of two cores, busy all the time, where `./run test` and --slow with two more took 20 (30 November 2026).
MORE_WORKERS = 2
MOST_WORKERS = 8  # a process of half a GB each, beside the JVMs and browsers of its tests
# Files with slow tests that `./run test --slow` would leave out; tests/running/test_suite.py wants none.
UNSEEN: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write how long each file took into tests/durations.json")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The workers of `-n auto`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + MORE_WORKERS, MOST_WORKERS)


@functools.cache
def may_be_slow(path: Path) -> bool:
    """Whether a test of that file is marked slow, by its text, or by its folder (conformance/tests/conftest.py)."""
    return "conformance" in path.parts or "slow" in path.read_text("utf-8")


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Of `./run test --slow`: a file without a slow test need not be imported."""
    return config.getoption("markexpr") == "slow" and path.name.startswith("test_") and not may_be_slow(path)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.is_file() and is_left_out(collection_path, config) else None


def file_of(nodeid: str) -> str:
    """The path of a test's file."""
    return nodeid.partition("::")[0]


@functools.cache
def scope_of(file: str) -> str:
    """What one worker runs: a file, or all the files with the fixture `spark`, which share a JVM."""
    return "spark" if "spark: Any" in Path(file).read_text("utf-8") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`, by `scope_of`."""
    from xdist.scheduler import LoadFileScheduling

    class ScopeScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(str(config.rootpath / file_of(nodeid)))

    return ScopeScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def longest_first(scopes: Mapping[str, str], seconds: Mapping[str, float]) -> list[str]:
    """The files, those of the longest scope first: of several workers none is left with it at the end."""
    sums = defaultdict[str, float](float)
    for file, scope in scopes.items():
        sums[scope] += seconds.get(file, 0)
    return sorted(scopes, key=lambda file: (-sums[scopes[file]], scopes[file], file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        scopes = {file_of(item.nodeid): scope_of(str(item.path)) for item in items}
        order = {file: n for n, file in enumerate(longest_first(scopes, json.loads(DURATIONS.read_text("utf-8"))))}
        items.sort(key=lambda item: order[file_of(item.nodeid)])


def pytest_deselected(items: list[pytest.Item]) -> None:
    config = items[0].config
    if config.getoption("markexpr") == "not slow":
        UNSEEN.update(file_of(item.nodeid) for item in items if not may_be_slow(item.path))
        if hasattr(config, "workeroutput"):
            config.workeroutput["left"] = len(items)


def lasting(seconds: Iterable[tuple[str, float]]) -> str:
    """The text of the durations."""
    kept = {file: round(each, 1) for file, each in sorted(seconds) if each >= LEAST_S}
    return json.dumps(kept, indent=0) + "\n"


class Controller:
    """What the process that starts the workers sums up, or the only one."""

    def __init__(self) -> None:
        self._left = 0
        self._seconds = defaultdict[str, float](float)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left = max(self._left, getattr(node, "workeroutput", {}).get("left", 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if self._left:
            others = " and conformance/tests" if config.args == ["tests"] else ""
            terminalreporter.write_line(f"{self._left} tests marked slow{others} are left for ./run test --all")
        if config.getoption("record"):
            DURATIONS.write_text(lasting(self._seconds.items()), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Controller(), "suite of tests")
