"""The event loop and the clock of a broker in the laboratory's virtual time, for tests of its parts. Connections to
brokers in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable

from coterie.broker.process.scheduling import Clock
from coterie.client.connection.connection import Connection
from coterie.laboratory.world import World
from coterie.testing.simulated import WorldBroker
from coterie.text.addresses import parse_address

BUSY_MS = 4  # of one piece of work, at most, by the time that the scheduler shows to it
REQUEST_S = 30.0


class VirtualTimer:
    """A call that is due later."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class WorldScheduler:
    """A `Scheduler`. While a call runs, each look at the time may show some milliseconds more, so work is cut into turns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._busy_ms = 0
        self._busy_at_ms = 0

    def time(self) -> float:
        """Virtual time (s), moved on a little with each call in a turn, as work takes time."""
        world = self._world
        if world.now_ms != self._busy_at_ms:
            self._busy_at_ms, self._busy_ms = world.now_ms, 0
        self._busy_ms += world.between(0, BUSY_MS)
        return (world.now_ms + self._busy_ms) / 1000

    def call_soon(self, callback: Callable[[], object], /) -> VirtualTimer:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> VirtualTimer:
        """``delay`` in seconds of virtual time."""
        timer = VirtualTimer()

        def due() -> None:
            if not timer.cancelled:
                self._busy_ms = 0
                callback()

        self._world.after(math.ceil(delay * 1000), due)
        return timer


class VirtualClock(Clock):
    """The time of the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.now_ms

    def jump(self, ms: int) -> None:
        raise AssertionError("virtual time is moved by its world")


async def connections(broker: WorldBroker, client_id: str = "test") -> list[Connection]:
    """One to each broker."""
    addresses = map(parse_address, broker.bootstrap_servers.split(","))
    return [await Connection.connect(host, port, client_id, REQUEST_S) for host, port in addresses]
