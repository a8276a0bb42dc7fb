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

from coterie.client.consumer.heartbeat_thread import HeartbeatThread, Pulse, culprit
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from tests.awaiting import until_in_thread


def hold_with_sleep(end: threading.Event) -> None:
    while not end.is_set():
        time.sleep(0.01)


def hold_with_the_standard_library(end: threading.Event) -> None:
    """Two frames of it above this one, the innermost in `selectors`."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    threading.Thread(target=lambda: (end.wait(), child.kill()), daemon=True).start()
    child.communicate()


def until_running(thread: threading.Thread, function: str) -> int:
    """The thread's id, once the innermost frame of its Python code is that function's."""

    def runs() -> bool:
        frame = sys._current_frames().get(thread.ident or -1)
        return frame is not None and frame.f_code.co_name == function

    until_in_thread(runs, f"the thread is in {function}")
    assert thread.ident is not None
    return thread.ident


def blamed(work: Callable[[], None], innermost: str) -> str | None:
    """What is blamed while a loop in a thread of its own does this, with a function of that name as the innermost frame."""

    async def run() -> None:
        work()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    return culprit(until_running(thread, innermost))


@pytest.mark.parametrize(
    ("hold", "innermost"), [(hold_with_sleep, "hold_with_sleep"), (hold_with_the_standard_library, "select")]
)
def test_the_innermost_line_outside_the_standard_library_is_blamed(
    hold: Callable[[threading.Event], None], innermost: str
) -> None:
    end = threading.Event()
    try:
        blame = blamed(lambda: hold(end), innermost)
    finally:
        end.set()
    assert blame is not None
    assert "test_held_loop.py:" in blame
    assert blame.endswith(f" in {hold.__name__}")


def test_a_loop_that_waits_for_input_is_held_by_nothing() -> None:
    """Nor by the line that runs the loop."""
    waiting, stop = threading.Event(), list[Callable[[], object]]()

    async def wait() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(end.set))
        loop.call_later(0.05, waiting.set)
        await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    waiting.wait()
    assert culprit(until_running(thread, "select")) is None
    stop[0]()
    thread.join()


def test_the_warning_about_a_loop_that_waits_again_blames_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """The code that held the loop has returned before the thread looked."""

    async def warn() -> None:
        thread = HeartbeatThread("c", print)
        thread._loop_thread = _idle_thread()
        pulse = Pulse(("127.0.0.1", 1), HeartbeatRequest("g", 1, "m"), 0.0, 0.1)
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
    ready = threading.Event()

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.05, ready.set)
        await asyncio.Event().wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait()), daemon=True)
    thread.start()
    ready.wait()
    return until_running(thread, "select")
