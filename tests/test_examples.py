"""Every program in examples/ prints what its page claims, beside the others on one broker, and when it is run again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


TESTS = ("test_orders.py", "test_dead_member.py")


def test_the_examples_of_tests() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(EXAMPLES / test) for test in TESTS),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"{'.' * 12} "), done.stdout


def test_every_example_is_run_here() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == {*OUTPUTS, *TESTS}
    assert programs == set(re.findall(r"^\| \[(\w+\.py)\]\(\1\) ", (EXAMPLES / "README.md").read_text(), re.M))
