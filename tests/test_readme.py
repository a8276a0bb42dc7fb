"""The README's example runs as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.broker_process import BrokerProcess

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_python_example(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    example = next(b for b in blocks if "asyncio.run" in b)
    broker = BrokerProcess(tmp_path / "data")
    try:
        code = example.replace("127.0.0.1:9092", broker.address)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
        assert re.fullmatch(r"greetings \d b'hello'\n", done.stdout), done.stderr
    finally:
        broker.stop()


def test_every_command_it_names_exists() -> None:
    from coterie.cli import VERBS

    named = set(re.findall(r"\./run coterie ([a-z]+)|`coterie ([a-z|]+)", README))
    verbs = {verb for pair in named for words in pair for verb in words.split("|") if verb}
    assert verbs
    assert verbs <= set(VERBS), verbs
