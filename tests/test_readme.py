"""Every Python block of the README runs as printed; what it names exists; it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.broker_process import BrokerProcess

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
LINES = 150


def block(word: str) -> str:
    """The only Python block with that word."""
    (only,) = [text for text in BLOCKS if word in text]
    return only


def python(code: str, timeout_s: float = 30) -> str:
    """What the program prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_python_block_is_run() -> None:
    """The last one by `tests/pipeline/spark/test_spark.py`, which has a Spark session."""
    assert {block("asyncio.run"), block("coterie_broker"), block("make_session")} == set(BLOCKS)


def test_the_client(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    try:
        printed = python(block("asyncio.run").replace("127.0.0.1:9092", broker.address))
        assert re.fullmatch(r"greetings \d b'hello'\n", printed)
    finally:
        broker.stop()


def test_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(block("coterie_broker"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout, done.stdout[-3000:]


def test_every_command_it_names_exists() -> None:
    from coterie.cli import VERBS

    named = set(re.findall(r"^\$ coterie ([a-z]+)|`coterie ([a-z|]+)", README, re.M))
    verbs = {verb for pair in named for words in pair for verb in words.split("|") if verb}
    assert verbs
    assert verbs <= set(VERBS), verbs


def test_it_stays_short() -> None:
    assert README.count("\n") <= LINES, "move it to docs/features, and leave a link"
