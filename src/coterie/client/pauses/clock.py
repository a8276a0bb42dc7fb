"""The clock and the randomness of a client's machines, and the only places where its threads sleep; on the event loop:
`loop_clock`.

`Waits` puts what a client waits for into its log. Attempts that fail are repeated for as long as the caller waits, which may be
for ever: the poll of a consumer only returns nothing. A warning says what is missing once it has been for _FIRST_S, and again
after pauses that double; Kafka's clients warn at each attempt.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coterie.wire.errors import error_of

logger = logging.getLogger(__name__)
_FIRST_S = 1.0  # leaders and coordinators move in less
AGAIN_S, LONGEST_S = 5.0, 300.0
_FORGOTTEN_S = 60.0  # without a failure: the caller has given up, and the next wait is another


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


@dataclass(slots=True)
class _Wait:
    since_ms: float
    last_ms: float
    due_ms: float
    again_s: float = AGAIN_S


class Waits:
    """``client``: as the lines name it. ``what`` is a noun, such as "topic t". ``clock`` in ms."""

    def __init__(self, client: str, clock: Callable[[], float] = now_ms) -> None:
        self._client, self._clock = client, clock
        self._waits: dict[str, _Wait] = {}

    def failed(self, what: str, why: object, since_ms: float | None = None) -> None:
        """An attempt to get it failed, which began then (None: now), and another may follow."""
        now = self._clock()
        wait = self._waits.get(what)
        if wait is None or now - wait.last_ms > (_FORGOTTEN_S + wait.again_s) * 1000:
            began_ms = now if since_ms is None else since_ms
            wait = self._waits[what] = _Wait(began_ms, now, began_ms + _FIRST_S * 1000)
        wait.last_ms = now
        if now >= wait.due_ms:
            waited_s = (now - wait.since_ms) / 1000
            logger.warning("%s has been waiting for %s for %.0f s: %s", self._client, what, waited_s, why)
            wait.due_ms, wait.again_s = now + wait.again_s * 1000, min(2 * wait.again_s, LONGEST_S)

    def succeeded(self, what: str) -> None:
        """It is there."""
        if self._waits:
            self._waits.pop(what, None)

    def responded(self, what: str, code: int) -> None:
        """A response has it, or an error code: one that does not pass ends the wait as well."""
        error = error_of(code)
        if error.retriable:
            self.failed(what, error.text)
        else:
            self.succeeded(what)

    def responded_each(self, what: str, topic: str, codes: Iterable[tuple[int, int]]) -> None:
        """As `responded`, of the partitions of a topic in a response: number and error code."""
        for partition, code in codes:
            if code or self._waits:
                self.responded(f"{what} {topic}-{partition}", code)
