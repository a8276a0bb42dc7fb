"""Warnings about clients, of which one client may cause any number: a few lines a second are written, the others counted."""

from __future__ import annotations

import logging
from collections import Counter

from coterie.broker.process.scheduling import Scheduler, Timer

LINES_PER_SECOND = 10  # of one kind


class LogLines:
    """Writes warnings to a logger. Lines with the same format are of one kind."""

    def __init__(self, logger: logging.Logger, scheduler: Scheduler) -> None:
        self._logger, self._scheduler = logger, scheduler
        self._written: Counter[str] = Counter()
        self._timer: Timer | None = None

    def warning(self, text: str, *args: object) -> None:
        """Writes a line, or counts it where ten of its kind were written within this second."""
        self._written[text] += 1
        if self._written[text] <= LINES_PER_SECOND:
            self._logger.warning(text, *args)
        if self._timer is None:
            self._timer = self._scheduler.call_later(1.0, self.flush)

    def flush(self) -> None:
        """Ends the second and writes the counts."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        for text, count in self._written.items():
            if count > LINES_PER_SECOND:
                self._logger.warning("%d more lines within a second like: %s", count - LINES_PER_SECOND, text)
        self._written.clear()
