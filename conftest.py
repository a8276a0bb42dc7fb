"""Options and fixtures of the whole suite."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from coterie.runtime.edition import COMPILED, edition

# A busy machine makes one example slow; that is no failure of what the test asks.
settings.register_profile("coterie", deadline=None)
settings.load_profile("coterie")

pytest_plugins = ["tests.asyncio_complaints"]

# The suite starts hundreds of processes; without bytecode each of them would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the traces of tests/spec anew (then read the diff)")
    parser.addoption("--closes", type=int, default=40, help="how many consumers tests/client/test_closing.py closes")
    parser.addoption("--copies", type=int, default=1, help="how many stories of each client tests/exactly_once runs")


# A JVM of Spark's lives for seconds in a test: it starts fast rather than runs fast. Processes of a test inherit this.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JVM_OPTIONS)
os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)

# The files whose tests share a Spark session (tests/test_conftest.py). They go to one worker, which starts one JVM.
SPARK_FILES = (
    "tests/pipeline/test_cluster.py",
    "tests/pipeline/test_consumer_group_history.py",
    "tests/pipeline/test_history.py",
    "tests/pipeline/test_option_cases.py",
    "tests/pipeline/test_sentences.py",
    "tests/pipeline/test_spark.py",
    "tests/pipeline/test_spark_load.py",
    "tests/pipeline/test_spark_modes.py",
    "tests/pipeline/test_unreadable_batches.py",
    "tests/pipeline/test_what_if.py",
    "tests/pipeline/test_worker_python.py",
)
# The longest files, the longest first (CPU time, with that of their processes): with several workers they go first, so that
# none is left with one at the end.
LONG_FILES = (
    *SPARK_FILES,
    "tests/laboratory/test_study.py",
    "tests/docs/test_site.py",
    "tests/docs/test_pages_run.py",
    "tests/test_house.py",
    "tests/test_package.py",
    "conformance/tests/everything/test_everything.py",
    "tests/laboratory/test_cluster_fuzz.py",
    "tests/test_edition.py",
    "tests/cli/test_endings.py",
    "tests/laboratory/test_transaction_cluster_fuzz.py",
    "tests/test_cli.py",
    "tests/assignors/test_sticky.py",
    "tests/zookeeper/test_real_zookeeper.py",
    "tests/pipeline/test_ends.py",
    "tests/test_examples.py",
    "conformance/tests/tools/test_commands.py",
    "tests/broker/cluster/test_processes.py",
    "tests/test_compiled_source.py",
    "tests/cli/test_cluster.py",
    "tests/laboratory/test_clients_fuzz.py",
    "tests/laboratory/test_cluster_directories.py",
    "tests/test_clients.py",
    "conformance/tests/fuzzing/test_targets.py",
    "tests/controller/test_transitions.py",
    "tests/coordinator/test_write_queue.py",
    "tests/laboratory/test_cluster_drift.py",
    "tests/testing/test_cluster_transactions.py",
    "tests/client/test_hostile_broker.py",
    "conformance/tests/hostile/test_hostile.py",
    "tests/broker/cluster/test_real_zookeeper.py",
    "conformance/tests/bench/test_cluster.py",
    "conformance/tests/histories/test_history_workload.py",
    "tests/broker/cluster/test_consumer_bounce.py",
    "tests/client/test_cancelled_consumer.py",
    "tests/broker/test_damaged_folder.py",
    "conformance/tests/members/test_members.py",
    "conformance/tests/bench/test_client_cpu.py",
    "conformance/tests/bench/test_rebalance.py",
    "tests/client/test_column_sender.py",
    "tests/client/test_committing.py",
    "tests/client/test_consumer_protocol.py",
    "tests/test_readme.py",
)
MOST_WORKERS = 4  # each may have a Spark session of its own


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The workers of `-n auto`: one more than there are cores, since a third of the suite's time is waiting for processes,
    timeouts and sockets."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, MOST_WORKERS)


def scope(nodeid: str) -> str:
    """The file of the test, which one worker runs; the files with Spark are one scope."""
    file = nodeid.partition("::")[0]
    return "spark" if file in SPARK_FILES else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`, by `scope`."""
    from xdist.scheduler import LoadFileScheduling

    class ScopeScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    return ScopeScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def worker_share(files: Sequence[Path], worker: int, workers: int) -> list[Path]:
    """The test files that one of the workers imports first; the shares are about equally large."""
    return sorted(files, key=lambda path: path.stat().st_size)[worker::workers]


def pytest_sessionstart(session: pytest.Session) -> None:
    """A worker of a whole run first imports a share of the test files. The import rewrites and compiles them, the greatest
    part of a collection; the other workers, which collect the same files, then read the bytecode."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    files = [path for folder in config.args for path in (config.rootpath / folder).rglob("test_*.py")]
    for path in worker_share(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """The imports and the collection leave half a million objects, which live to the end: they are left out of all later
    garbage collections, which come after each file at least (tests/asyncio_complaints.py)."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if edition() == COMPILED:
        for item in items:
            if item.get_closest_marker("switches_off"):
                item.add_marker(
                    pytest.mark.skip("compiled modules call the function that the test replaces all the same")
                )
    if hasattr(config, "workerinput"):
        order = {name: number for number, name in enumerate(LONG_FILES)}
        items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
