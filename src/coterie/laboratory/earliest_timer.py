"""The timer of a simulated process whose machines name a next deadline after every input."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.world import World


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
