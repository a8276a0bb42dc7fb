"""Workers import the installed PySpark, not Spark's pyspark.zip, whose modules each process would compile again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from coterie.pipeline.workers import worker_python as module
from coterie.pipeline.workers.worker_python import worker_python

HOME = Path(pyspark.__file__).resolve().parent
SPARKS_OWN = [
    HOME / "python/lib/pyspark.zip",
    HOME / "python/lib/py4j-1.2-src.zip",
    HOME / "jars/spark-core_2.13-4.0.jar",
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([*SPARKS_OWN, "/my own", "/other"], "/my own:/other"),
        (SPARKS_OWN, ""),
        ([*SPARKS_OWN[:2], "/a%20folder/jars/spark-core_2.13-4.0.jar", "/mine"], "/mine"),
        ([*SPARKS_OWN, *SPARKS_OWN, "/mine"], "/mine"),  # where Spark looks data sources up
        (["/mine", *SPARKS_OWN], ":".join(map(str, ["/mine", *SPARKS_OWN]))),
        (["/mine"], "/mine"),
        (None, ""),
    ],
)
def test_the_zip_is_taken_off_the_path(given: list[object] | None, expected: str, tmp_path: Path) -> None:
    scratch = tmp_path / "a 'scratch' folder"
    scratch.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if given is not None:
        environment["PYTHONPATH"] = ":".join(map(str, given))
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:], sys.prefix, sep='|')"
    command = [worker_python(scratch), "-c", code, "two words"]
    assert command[0] != sys.executable
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{expected}|['two words']|{sys.prefix}"


def test_another_spark_has_its_own_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_python(tmp_path) == sys.executable


def test_nothing_can_be_executed_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert worker_python(tmp_path) == sys.executable


def test_the_shim_outlives_the_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query may start a worker after the folder was cleaned; another environment has a shim of its own."""
    kept = tmp_path / "__pycache__"
    monkeypatch.setattr(module, "bytecode_folder", lambda: kept)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    first = Path(worker_python(scratch))
    monkeypatch.setattr(sys, "executable", "/another/python")
    second = Path(worker_python(scratch))
    assert first.parent == second.parent == kept
    assert sorted(kept.iterdir()) == sorted({first, second})
    assert os.access(first, os.X_OK)


def test_a_package_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setattr(module, "bytecode_folder", lambda: tmp_path / "a file" / "__pycache__")
    assert Path(worker_python(tmp_path)).parent == tmp_path


def test_what_is_imported_is_kept_out_of_the_collections() -> None:
    """After each task, once more modules are there."""
    code = """
import gc, sys
from coterie.pipeline.workers import worker_daemon
worker_daemon._worker = lambda sock, authenticated: 0
assert gc.get_freeze_count() == 0
assert worker_daemon.worker(None, True) == 0
frozen, kept = gc.get_freeze_count(), [[] for _ in range(5000)]
assert frozen > 5000, frozen
worker_daemon.worker(None, True)
assert gc.get_freeze_count() <= frozen
import decimal, wave
worker_daemon.worker(None, True)
assert gc.get_freeze_count() > frozen + 5000
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_collections_of_a_planner_leave_out_what_is_imported() -> None:
    """In a worker of PySpark's daemon alone."""
    code = """
import gc, sys
from types import SimpleNamespace
from coterie.pipeline.workers.worker_daemon import adapt_planner
def planner(name):
    sys.modules["__main__"] = SimpleNamespace(__spec__=SimpleNamespace(name=name), gc=gc)
    adapt_planner()
    return sys.modules["__main__"].gc
assert planner("my.application") is gc
collector = planner("pyspark.daemon")
assert gc.get_freeze_count() == 0
collector.collect()
assert gc.get_freeze_count() > 5000, gc.get_freeze_count()
cycle = []
cycle.append(cycle)
del cycle
assert collector.collect() == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_worker_of_spark(spark: Any) -> None:
    def origin(_: Iterator[int]) -> Iterator[str]:
        import pyspark

        yield pyspark.__file__

    [file] = spark.sparkContext.parallelize([1], 1).mapPartitions(origin).collect()
    assert Path(file) == Path(pyspark.__file__)
