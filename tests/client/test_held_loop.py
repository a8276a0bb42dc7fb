"""Which line the heartbeat thread blames for a loop that it found held: the user's, never the standard library's or none."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from coterie.client.heartbeat_thread import HeartbeatThread, Pulse, culprit
from coterie.wire.messages.heartbeat import HeartbeatRequest


def hold_with_sleep(end: threading.Event) -> None:
    while not end.is_set():
        time.sleep(0.01)


def hold_with_the_standard_library(end: threading.Event) -> None:
    """Two frames of it above this one, the innermost in `selectors`."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    threading.Thread(target=lambda: (end.wait(), child.kill()), daemon=True).start()
    child.communicate()


def blamed(work: Callable[[], None]) -> set[str | None]:
    """What is blamed while a loop in a thread of its own does this."""
    started = threading.Event()

    async def run() -> None:
        started.set()
        work()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    started.wait()
    time.sleep(0.3)
    assert thread.ident is not None
    return {culprit(thread.ident)}


@pytest.mark.parametrize("hold", [hold_with_sleep, hold_with_the_standard_library])
def test_the_innermost_line_outside_the_standard_library_is_blamed(hold: Callable[[threading.Event], None]) -> None:
    end = threading.Event()
    try:
        (blame,) = blamed(lambda: hold(end))
    finally:
        end.set()
    assert blame is not None
    assert "test_held_loop.py:" in blame
    assert blame.endswith(f" in {hold.__name__}")


def test_a_loop_that_waits_for_input_is_held_by_nothing() -> None:
    """Nor by the line that runs the loop."""
    waiting, thread_ids, stop = threading.Event(), list[int](), list[Callable[[], object]]()

    async def wait() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(end.set))
        thread_ids.append(threading.get_ident())
        loop.call_later(0.05, waiting.set)
        await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    waiting.wait()
    time.sleep(0.1)
    assert culprit(thread_ids[0]) is None
    stop[0]()
    thread.join()


def test_the_warning_about_a_loop_that_waits_again_blames_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """The code that held the loop has returned before the thread looked."""

    async def warn() -> None:
        thread = HeartbeatThread("c")
        thread._loop_thread = _idle_thread()
        pulse = Pulse(("127.0.0.1", 1), HeartbeatRequest("g", 1, "m"), 0.0, 0.1, time.monotonic() + 60)
        thread._stand_in(pulse)
        thread._tell_if_held(2.0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(warn())
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("the event loop was held and waits for input again: ")
    assert second == "a heartbeat is 2.0 s late: this process got no CPU time, or code that has returned held the GIL"
    assert "select" not in first + second


def _idle_thread() -> int:
    """A loop that waits until the process ends."""
    ready, ids = threading.Event(), list[int]()

    async def wait() -> None:
        ids.append(threading.get_ident())
        asyncio.get_running_loop().call_later(0.05, ready.set)
        await asyncio.sleep(3600)

    threading.Thread(target=lambda: asyncio.run(wait()), daemon=True).start()
    ready.wait()
    time.sleep(0.1)
    return ids[0]
