"""A broker's machine that reads notifications, on a simulated ZooKeeper that an administrator writes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from coterie.controller.session_script import NotificationScript
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import NetworkFaults, World
from coterie.zookeeper.operations import Create, Operation, ZooKeeperError

FOREVER_MS = 10**9
M = TypeVar("M", bound=NotificationScript)
E = TypeVar("E")


class NotificationReader(Generic[M, E]):
    """``make`` makes the machine at a time; ``changed`` gets it with the path of a watch that fired; ``effect`` is the class of
    what the broker applies. ``loses``: the error of the next operation. ``clock_offset_ms``: of the broker's clock from
    ZooKeeper's."""

    def __init__(self, make: Callable[[int], M], changed: Callable[[M, str], None], effect: type[E]) -> None:
        self.world = World(1)
        self.world.faults = NetworkFaults(0, 0)
        self.server = ZooKeeperServer(self.world)
        self.admin = self.server.connect(FOREVER_MS, lambda _: None)
        self.machine = make(self.world.now_ms)
        self.session = self.server.connect(FOREVER_MS, lambda path: changed(self.machine, path))
        self.loses: type[ZooKeeperError] | None = None
        self.clock_offset_ms = 0
        self._effect = effect

    def apply(self, operation: Operation) -> object:
        """As an administrator."""
        return self.server.apply(self.admin, operation)

    def notify_by(self, path: str, data: str) -> None:
        self.apply(Create(path, data, ephemeral=False, sequential=True))

    def effects(self, after_ms: int) -> list[E]:
        """What the broker is to apply then."""
        self.world.run_until(self.world.now_ms + after_ms)
        effects: list[E] = []
        while (effect := self.machine.next(self.world.now_ms + self.clock_offset_ms)) is not None:
            if isinstance(effect, self._effect):
                effects.append(effect)
                self.machine.respond()
            elif self.loses is not None:
                self.machine.refuse(self.loses())
                self.loses = None
            else:
                self.machine.respond(self.server.apply(self.session, effect))
        return effects
