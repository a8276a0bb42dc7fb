"""Virtual time under one seed: an event queue, a clock, and a network that delays, loses and cuts off; the timer of a simulated
process, and the requests to servers, counted, and served one after the other.

Everything random comes from `World.random`; the same seed gives the same run, whatever the machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

_CLOCK_DRIFT = 0.1  # by how much a process's clock may run too fast or too slow
_Event = tuple[int, int, Callable[[], None]]  # (time, number, action)


@dataclass(slots=True)
class NetworkFaults:
    """The faults of the network. Every message has a delay of its own, so that those of different connections overtake
    each other. A broken connection loses the request or its response, and the client notices later."""

    min_delay_ms: int = 1
    max_delay_ms: int = 20
    break_probability: float = 0.0
    notice_ms: int = 500


class WorldFlight(NamedTuple):
    """A message between a member and what coordinates its group, with the times (ms) of its way; ``arrives_ms`` None: it is
    lost. ``message``: the request, the response or the notice; of a script its effect, both ways."""

    leaves_ms: int
    arrives_ms: int | None
    member: str
    kind: str  # request, response, notice
    message: object


class World:
    """The queue of what will happen. Times in ms since 1970, beginning at ``start_ms``."""

    def __init__(self, seed: int, start_ms: int = 1_700_000_000_000) -> None:
        self.random = random.Random(seed)
        self.now_ms = start_ms
        self.start_ms = start_ms
        self.faults = NetworkFaults()
        self.clock_drift = _CLOCK_DRIFT
        self.events = 0
        self.on_flight: Callable[[WorldFlight], None] | None = None  # sees each message, and changes nothing
        self._queue: list[_Event] = []
        self._sequence = 0

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Has ``action`` happen at that time; equal times keep the order of the calls."""
        self._sequence += 1
        heappush(self._queue, (time_ms if time_ms > self.now_ms else self.now_ms, self._sequence, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._queue, (self.now_ms + delay_ms if delay_ms > 0 else self.now_ms, self._sequence, action))

    def next_ms(self) -> int | None:
        """When the next event is due."""
        return self._queue[0][0] if self._queue else None

    def run_until(self, time_ms: int) -> None:
        """Runs everything up to and at that time."""
        queue, pop, events = self._queue, heappop, 0
        while queue and queue[0][0] <= time_ms:
            self.now_ms, _, action = pop(queue)
            events += 1
            action()
        self.events += events
        self.now_ms = time_ms

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included; several times as fast as randint, and called often."""
        return low + int(self.random.random() * (high - low + 1))

    def delay_ms(self) -> int:
        return self.between(self.faults.min_delay_ms, self.faults.max_delay_ms)

    def fresh_id(self) -> str:
        """Stands in for a UUID."""
        return f"{self.random.getrandbits(64):016x}"


class EarliestTimer:
    """Calls ``fire`` at the earliest of the times that were set since it last did."""

    def __init__(self, world: World, fire: Callable[[], None]) -> None:
        self._world, self._fire = world, fire
        self._due_ms = -1  # none

    def forget(self) -> None:
        """No time is set any more: a new life of the process begins."""
        self._due_ms = -1

    def set(self, due_ms: int) -> None:
        """An earlier time that is set stays; a time that is over is now."""
        world = self._world
        if world.now_ms < self._due_ms <= due_ms:
            return
        due_ms = max(due_ms, world.now_ms)
        self._due_ms = due_ms

        def fire() -> None:
            if self._due_ms == due_ms:
                self._due_ms = -1
                self._fire()

        world.at(due_ms, fire)


class Traffic:
    """Messages either way, in bytes and by second, at one server or at all of a kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.messages = self.bytes = 0
        self.by_second: dict[int, int] = {}

    def passed(self, messages: int, size: int) -> None:
        """``size``: of all of them together."""
        self.messages += messages
        self.bytes += size
        second = self._world.now_ms // 1000
        self.by_second[second] = self.by_second.get(second, 0) + messages

    def passed_over_time(self, messages: int, size: int) -> None:
        """Counted afterwards: they were spread over seconds of which no busiest one is made."""
        self.messages += messages
        self.bytes += size


class Service:
    """A server that takes up one thing after the other, so many in a second."""

    def __init__(self, world: World, per_s: int) -> None:
        self._world, self._per_s = world, per_s
        self._busy_until_s = 0.0

    def serve(self, operations: int = 1) -> None:
        self._busy_until_s = max(self._busy_until_s, self._world.now_ms / 1000) + operations / self._per_s

    def ready_ms(self) -> int:
        """When the response to the last request leaves."""
        return max(int(self._busy_until_s * 1000), self._world.now_ms)
