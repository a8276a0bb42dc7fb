"""The clock of a client's machines, and the only places where its threads sleep; on the event loop: `loop_clock`."""

from __future__ import annotations

import time


def now_ms() -> float:
    """Of no epoch; it never goes back."""
    return time.monotonic() * 1000


def pause_thread(seconds: float) -> None:
    """Before another attempt."""
    time.sleep(seconds)


def until_due_thread(due_ms: float) -> None:
    """Until a machine's deadline, which no input can bring forward."""
    time.sleep(max(due_ms - now_ms(), 0) / 1000)
