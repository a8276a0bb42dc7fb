"""What a broker does again and again: one timer for all that has the same interval, and no task that waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from coterie.broker.process.scheduling import Scheduler, Timer

logger = logging.getLogger(__name__)


class Periodic:
    """Calls each function for the first time after its interval, in ms, until `stop`. One that fails is called again."""

    def __init__(self, scheduler: Scheduler, every: Iterable[tuple[int, Callable[[], object]]]) -> None:
        self._scheduler = scheduler
        self._calls: dict[int, list[Callable[[], object]]] = {}
        for every_ms, call in every:
            self._calls.setdefault(every_ms, []).append(call)
        self._timers: dict[int, Timer] = {}
        self._is_over = False
        for every_ms in self._calls:
            self._wait(every_ms)

    def _wait(self, every_ms: int) -> None:
        self._timers[every_ms] = self._scheduler.call_later(every_ms / 1000, partial(self._due, every_ms))

    def _due(self, every_ms: int) -> None:
        for call in self._calls[every_ms]:
            try:
                call()
            except OSError as error:
                logger.error("%s failed: %s; it will be tried again", _name(call), error)
            except Exception:
                logger.exception("%s failed; it will be tried again", _name(call))
            if self._is_over:
                return
        self._wait(every_ms)

    def stop(self) -> None:
        """Calls none of them any more."""
        self._is_over = True
        for timer in self._timers.values():
            timer.cancel()


def _name(call: Callable[[], object]) -> str:
    return getattr(call, "__name__", str(call))
