"""The clock and the randomness of a client's machines, and the only places where its threads sleep; on the event loop:
`loop_clock`."""

from __future__ import annotations

import random
import time


def now_ms() -> float:
    """Milliseconds of no epoch; they never go back."""
    return time.monotonic() * 1000


def jitter() -> float:
    """The share of a pause's randomness that an attempt gets, between -1 and 1."""
    return random.uniform(-1, 1)


def pause_thread(seconds: float) -> None:
    """Sleeps before another attempt."""
    time.sleep(seconds)


def until_due_thread(due_ms: float) -> None:
    """Until a machine's deadline, which no input can bring forward."""
    time.sleep(max(due_ms - now_ms(), 0) / 1000)
