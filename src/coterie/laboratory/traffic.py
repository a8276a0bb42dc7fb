"""The requests to servers of the laboratory: counted, and served one after the other."""

from __future__ import annotations

from coterie.laboratory.world import World


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
