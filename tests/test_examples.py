"""Every program in examples/ prints what its page claims, beside the others on one broker, and when it is run again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbclient import NotebookClient

from tests.broker_process import BrokerProcess

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 600  # Spark starts a JVM, which takes minutes on a machine that is busy with other things

# Program -> its whole output, as a pattern.
OUTPUTS = {
    "produce_and_consume.py": ", ".join(f"order {n}" for n in range(10)) + "\n",
    "blocking.py": "acknowledged at offset \\d+\nhello, good morning, good night\n",
    "move_in_transactions.py": "100 receipts, each once\n",
    "static_member.py": r"first start: generation (\d+), 4 partitions\nrestart: generation \1, 4 partitions\n",
    "leave_for_good.py": "worker-1 has all partitions\none generation later\n",
    "cooperative_listener.py": (
        "anna: 6 assigned\n(anna: 3 revoked\nben: 3 assigned|ben: 3 assigned\nanna: 3 revoked)\n3 partitions each\n"
        "ben: 3 revoked\nanna: 3 revoked\n"
    ),
    "explain_group.py": (r"Stable, generation \d+: .+\nanna: session times out after 45000 ms of silence\n"),
    "weighted_assignor.py": "van: 2 partitions, truck: 4\n",
    "spark_group.py": "1000 readings, lag 0\n",
}


NOTEBOOK = "group_history.ipynb"
ONCE = {"spark_group.py"}  # starts a JVM, and makes its topic as the others do
RUNS = [(name, run) for run in ("first", "again") for name in sorted(OUTPUTS) if run == "first" or name not in ONCE]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    one = BrokerProcess(tmp_path_factory.mktemp("examples") / "data")
    yield one
    one.stop()


@pytest.mark.parametrize(("name", "run"), RUNS)
@pytest.mark.slow
def test_program(broker: BrokerProcess, name: str, run: str) -> None:
    command = [sys.executable, str(EXAMPLES / name), broker.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(OUTPUTS[name], done.stdout), done.stdout


TESTS = {"test_orders.py": 2, "test_dead_member.py": 10}  # program -> how many tests pass
SPARK_TESTS = {"test_spark_job.py": 2}


def test_the_examples_of_tests() -> None:
    _pass(TESTS)


@pytest.mark.slow
def test_the_example_of_a_test_of_a_spark_job() -> None:
    _pass(SPARK_TESTS)


def _pass(tests: dict[str, int]) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(EXAMPLES / test) for test in tests),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"{'.' * sum(tests.values())} "), done.stdout


@pytest.mark.slow
def test_the_notebook_prints_what_its_page_shows() -> None:
    notebook = nbformat.read(EXAMPLES / NOTEBOOK, as_version=4)
    published, _ = _tables(notebook)
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()
    rebalances, owned = _tables(notebook)
    # Without the index: generation, cause, members, moved. The columns behind them are times.
    assert [row[1:5] for row in rebalances] == [row[1:5] for row in published]
    undetected_ms = [int(row[-1]) for row in rebalances[1:]]
    assert [n for n in undetected_ms if n] == [max(undetected_ms)], "only of the member that was killed"
    assert owned[0][1:] == ["anna", "ben", "carl"]
    assert sum("image/svg+xml" in data for data in _outputs(notebook)) == 1


def _outputs(notebook: nbformat.NotebookNode) -> list[dict[str, str]]:
    return [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]


def _tables(notebook: nbformat.NotebookNode) -> list[list[list[str]]]:
    """The cells of each DataFrame that a notebook shows, row by row, the heading first."""
    pages = [data["text/html"] for data in _outputs(notebook) if "text/html" in data]
    tables = [page[page.index("<table") : page.index("</div>")] for page in pages]  # pandas' style before it is not XML
    return [[[cell.text or "" for cell in row] for row in ElementTree.fromstring(table).iter("tr")] for table in tables]


def test_every_example_is_run_here() -> None:
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert programs == {*OUTPUTS, *TESTS, *SPARK_TESTS, NOTEBOOK}
    assert programs == set(
        re.findall(r"^\| \[(\w+\.(?:py|ipynb))\]\(\1\) ", (EXAMPLES / "README.md").read_text(), re.M)
    )
