"""Waiting for a condition, with a bound and without sleeping for luck; `tests/test_house.py` counts the sleeps elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from unittest.mock import patch

PATIENCE_S = 20.0
QUIET_TURNS = 20


async def until(
    done: Callable[[], object] | Callable[[], Awaitable[object]],
    what: str | Callable[[], object] = "what the test waits for",
    patience_s: float = PATIENCE_S,
) -> None:
    """Returns once ``done()`` is true; fails with ``what``, or what it returns, after ``patience_s``. Other tasks of the loop
    go on meanwhile."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        result = done()
        if await result if inspect.isawaitable(result) else result:
            return
        assert loop.time() < deadline_s, f"not within {patience_s:g} s: {what() if callable(what) else what}"
        await asyncio.sleep(0.005)


def until_in_thread(
    done: Callable[[], object],
    what: str | Callable[[], object],
    patience_s: float = PATIENCE_S,
    every_s: float = 0.005,
) -> float:
    """As `until`, for a test without an event loop: seconds until ``done()`` was true."""
    started_s = time.monotonic()
    while not done():
        waited_s = time.monotonic() - started_s
        assert waited_s < patience_s, f"not within {patience_s:g} s: {what() if callable(what) else what}"
        time.sleep(every_s)
    return time.monotonic() - started_s


async def quiet() -> None:
    """Returns once the running loop has nothing left to do but wait for time to pass or for a thread: in `QUIET_TURNS` turns
    in a row no callback was ready and no socket readable. What both ends in this loop would do at once, they have done."""
    loop: Any = asyncio.get_running_loop()
    deadline_s, turns = loop.time() + PATIENCE_S, 0
    while turns < QUIET_TURNS:
        assert loop.time() < deadline_s, f"the loop is not quiet within {PATIENCE_S:g} s"
        await asyncio.sleep(0)
        # A turn adds the callbacks of sockets and timers after this task's step: what is left there is work.
        turns = 0 if loop._ready else turns + 1


class LoopClock:
    """Moves the running loop's clock on, and with it every timer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._time, self._ahead_s = self._loop.time, 0.0
        self._loop.time = lambda: self._time() + self._ahead_s  # type: ignore[method-assign]

    def jump(self, seconds: float) -> None:
        self._ahead_s += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, moves the time on to it."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None and timeout > 0:
            self.now_s += timeout
        return ready


def run_in_virtual_time(story: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run, for a story without sockets, threads and processes. Its time, that of the loop and of time.monotonic,
    stands still while a callback is ready: a timeout depends on the story alone, never on the speed of the machine."""
    selector = _JumpingSelector()
    with (
        patch("time.monotonic", lambda: selector.now_s),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner,
    ):
        runner.run(story)
