"""What a reader of the rows gets: all, then what changed. The console that looks from outside: a broker that dies and
comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer
from coterie.text.quantity import STALLED_AFTER_MS
from coterie.web.feeds.observed_feed import ObservedFeed
from coterie.web.group_memory import POINT_EVERY_MS, POINTS, GroupCourse, JournalMemory
from coterie.web.live_rows import FLAPS_WITHIN_MS, LiveRows, marks
from tests.web.feeds import line, row

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "read"]), st.sampled_from("abcd"), st.integers(0, 3)), max_size=40
)
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@given(STEPS)
def test_a_reader_has_what_there_is_after_each_read(steps: list[tuple[str, str, int]]) -> None:
    rows, expected = LiveRows(), dict[str, Any]()
    seen, revision = dict[str, Any](), 0
    for step, group, lag in [*steps, ("read", "", 0)]:
        if step == "put":
            rows.put(row(group, lag=lag))
            expected[group] = row(group, lag=lag)
        elif step == "remove":
            rows.remove(group)
            expected.pop(group, None)
        else:
            text, revision = rows.changes(revision), rows.revision
            if text is not None:
                change = json.loads(text)
                seen = {} if change["reset"] else seen
                for name in change["removed"]:
                    seen.pop(name, None)
                seen |= {changed["group"]: changed for changed in change["rows"]}
            assert seen == expected


def test_what_did_not_change_is_not_sent() -> None:
    rows = LiveRows()
    for name in "abc":
        rows.put(row(name))
    revision = rows.revision
    rows.put(row("b"))
    assert rows.changes(revision) is None
    rows.put(row("b", lag=9))
    change = json.loads(rows.changes(revision) or "")
    assert [r["group"] for r in change["rows"]] == ["b"]


def test_the_memory_of_the_journal_is_bounded() -> None:
    memory = JournalMemory(most=10)
    for number in range(8):
        memory.add(line("quiet", time_ms=number))
    for number in range(8):
        memory.add(line("loud", time_ms=number))
    assert memory.of("quiet") == []
    assert [kept.time_ms for kept in memory.of("loud")] == list(range(8))


def test_the_course_of_a_group() -> None:
    course, partition = GroupCourse(), ("t", 0)
    for number in range(POINTS + 5):
        course.measured([(partition, 7, number)], (number - POINTS - 4) * POINT_EVERY_MS)
    assert course.lags == list(range(5, POINTS + 5))
    course.measured([(partition, 7, 50)], POINT_EVERY_MS - 1)
    assert course.lags[-2:] == [POINTS + 3, 50]
    course.measured([(partition, 9, 50)], 0)
    assert course.unmoved_ms(partition, 10_000) == 10_000
    assert not course.stalls(STALLED_AFTER_MS - 1)
    assert course.stalls(STALLED_AFTER_MS)
    course.measured([(partition, 8, 3)], STALLED_AFTER_MS)
    assert not course.stalls(STALLED_AFTER_MS)


def test_the_marks_of_a_group() -> None:
    def shown(state: str, in_state_ms: int, rebalances_ms: list[int], *, stalls: bool = False) -> list[str]:
        return marks(state, in_state_ms, rebalances_ms, FLAPS_WITHIN_MS, stalls=stalls, is_lost=False)

    assert shown("Stable", 10**6, []) == []
    assert shown("PreparingRebalance", 999, []) == []
    assert shown("PreparingRebalance", 1_000, []) == ["waits"]
    assert shown("Stable", 0, [0, 1, 2]) == []
    assert shown("Stable", 0, [1, 1, 2], stalls=True) == ["flaps", "stalls"]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["true", "false"])
async def test_a_broker_dies_and_comes_back(tmp_path: Path, journal: str) -> None:
    """With the broker's own journal, and by the observer's lines alone."""
    settings = BrokerSettings(SETTINGS | {"coterie.journal.enable": journal})
    broker = Broker(settings, tmp_path)
    host, port = await broker.start("127.0.0.1", 0)
    client = {"bootstrap.servers": f"{host}:{port}"}
    async with Admin(client) as admin:
        await admin.create_topic("t", 2)
    feed, stop = ObservedFeed(client, lambda _: None), asyncio.Event()
    running = asyncio.create_task(feed.run(stop))
    try:
        async with Consumer(client | {"group.id": "crew"}) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
            await consumer.commit({("t", 0): 0})
            await until(lambda: (row := feed.memory.rows.get("crew")) and row["members"] == 1)
        # The observer begins at the end of the log, and may have seen no more of the join than its result.
        await until(lambda: any(line.event == "empty" for line in feed.memory.journal.of("crew")))
        before = len(feed.memory.journal.of("crew"))
        await broker.stop()
        await until(lambda: feed.trouble)
        broker = Broker(settings, tmp_path)
        await broker.start(host, port)
        await until(lambda: not feed.trouble)
        async with Consumer(client | {"group.id": "later"}) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
            await until(lambda: (row := feed.memory.rows.get("later")) and row["state"] == "Stable")
            explanation = await feed.explain("later")
            assert explanation is not None
            assert len(explanation["members"]) == 1
        assert await feed.explain("none") is None
        assert len(feed.memory.journal.of("crew")) >= before
    finally:
        stop.set()
        await running
        await broker.stop()
