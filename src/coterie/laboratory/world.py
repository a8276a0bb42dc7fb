"""Virtual time under one seed: an event queue, a clock, and a network that delays and breaks.

Everything random comes from `World.random`; the same seed gives the same run, whatever the machine.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class NetworkFaults:
    """How bad the network is. A broken connection loses the request or its answer; the client notices later."""

    min_delay_ms: int = 1
    max_delay_ms: int = 20
    break_probability: float = 0.0
    notice_ms: int = 500


class World:
    """The queue of what will happen. Times in ms since 1970, beginning at ``start_ms``."""

    def __init__(self, seed: int, start_ms: int = 1_700_000_000_000) -> None:
        self.random = random.Random(seed)
        self.now_ms = start_ms
        self.start_ms = start_ms
        self.faults = NetworkFaults()
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Has ``action`` happen at that time; equal times keep the order in which they were asked for."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(time_ms, self.now_ms), self._sequence, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run_until(self, time_ms: int) -> None:
        """Runs everything up to and at that time."""
        while self._queue and self._queue[0][0] <= time_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
        self.now_ms = time_ms

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def delay_ms(self) -> int:
        return self.random.randint(self.faults.min_delay_ms, self.faults.max_delay_ms)

    def fresh_id(self) -> str:
        """Stands in for a UUID."""
        return f"{self.random.getrandbits(64):016x}"
