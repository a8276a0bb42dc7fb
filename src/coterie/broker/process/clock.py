"""The broker's clock: wall time at start, moved on by the monotonic clock, so that sessions survive a clock that jumps."""

from __future__ import annotations

import time


class Clock:
    """One broker's; a test moves it by `jump`."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.monotonic() + self._offset_s) * 1000)

    def jump(self, ms: int) -> None:
        """Moves the clock, as a test of timeouts does instead of waiting."""
        self._offset_s += ms / 1000
