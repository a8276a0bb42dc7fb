"""Sleeps in tests. A test waits for a condition (`tests/awaiting.py`), for an event, or moves a clock; it sleeps only where
the passing of real time is its subject, or where another process has nothing to wait for. A count may only fall."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent
SLEEPS = {
    "awaiting.py": 2,  # the waiting itself
    "broker/config_story.py": 3,  # recorded from Apache Kafka: a change goes from its controller to its broker
    "broker/test_bounds.py": 3,  # work that takes time
    "broker/test_descriptors.py": 2,  # a slow disk
    "broker/transaction_story.py": 3,  # markers follow a moment after the response, on Apache Kafka too
    "client/test_blocking.py": 1,  # a script that is busy for longer than its session, with a broker's process
    "client/test_closing.py": 1,  # the pace of a producer
    "client/test_committing.py": 1,  # requests in a stretch of real time
    "client/test_group.py": 2,  # user code that holds the loop
    "client/test_held_loop.py": 1,  # user code that holds the loop
    "client/test_hostile_broker.py": 1,  # the clock of a measurement
    "client/test_records.py": 1,  # the pace of a reader
    "docs/page_runner.py": 2,  # commands of a page
    "rocketmq/server.py": 1,  # the long poll of a RocketMQ broker
    "zookeeper/worker.py": 1,  # how often a process reports
}


def sleeps(text: str) -> int:
    """The calls of asyncio.sleep and time.sleep; asyncio.sleep(0) only gives the loop a turn."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return sum(
        ast.unparse(call.func) in ("asyncio.sleep", "time.sleep")
        and not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
        for call in calls
    )


def test_no_test_gains_a_sleep() -> None:
    """A count that has fallen is lowered here."""
    counts = {path.relative_to(ROOT).as_posix(): sleeps(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    assert {name: count for name, count in sorted(counts.items()) if count} == SLEEPS


def test_a_sleep_is_counted() -> None:
    text = "import time, asyncio\ntime.sleep(1)\nasync def f():\n    await asyncio.sleep(delay)\n    await asyncio.sleep(0)\n"
    assert sleeps(text) == 2
