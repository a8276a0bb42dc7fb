"""An event loop in a thread of its own, and calls into it from any other: what runs a `LocalBroker` or a `LocalProxy`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")
START_S = 10.0
WAIT_S = 10.0
LOOK_EVERY_S = 0.005


class LoopThread:
    """``what`` it runs, for the error of a call before the start or after the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"coterie-{self._what}", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        assert self._loop is not None, "it ran"
        assert self._thread is not None, "it ran"
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    def _call(self, what: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return what()

        self._require_running()
        result: T = self._on_loop(on_loop(), START_S)
        return result

    def _require_running(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            raise RuntimeError(f"the {self._what} does not run: use it in a with-block, or call start")

    def _on_loop(self, work: Any, timeout_s: float) -> Any:
        assert self._loop is not None, "it has not started"
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(timeout_s)
        except TimeoutError:
            if running.done():
                raise
            raise TimeoutError(f"the {self._what}'s thread has not ended a call within {timeout_s:g} s") from None

    def _until(self, done: Callable[[], T], wanted: str, why: Callable[[], str], timeout_s: float) -> T:
        deadline_s = time.monotonic() + timeout_s
        while True:
            result: T = self._call(done)
            if result:
                return result
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{wanted} after {timeout_s:g} s. {why()}".rstrip())
            time.sleep(LOOK_EVERY_S)
