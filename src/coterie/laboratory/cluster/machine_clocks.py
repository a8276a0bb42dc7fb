"""The clocks of a cluster's machines: wall clocks that jump, and monotonic ones that run too fast or too slow."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.world import World

OWN_CLOCKS_FROM, CLOCK_JUMP_EVERY_MS = 140_000, 8_000
DRIFTING_CLOCKS_FROM = 160_000
CLOCK_JUMPS_MS = (1_000, 40_000, 20 * 60_000, 5 * 3_600_000)


class MachineClocks:
    """The clocks of the machines, in the seeds from `OWN_CLOCKS_FROM` on; before, all machines have the world's."""

    def __init__(self, world: World, brokers: Mapping[int, ClusterBroker], report: ClusterReport) -> None:
        self._world, self._brokers, self._report = world, brokers, report
        if report.seed >= OWN_CLOCKS_FROM:
            for _ in brokers:
                self.jump()
        if report.seed >= DRIFTING_CLOCKS_FROM:
            for broker in brokers.values():
                self.drift(broker)

    def strike_until(self, end_ms: int) -> None:
        """The last one jumps before then."""
        if self._report.seed >= OWN_CLOCKS_FROM:
            self._world.strike_until(end_ms, CLOCK_JUMP_EVERY_MS, self.jump)

    def jump(self) -> None:
        """Moves a machine's clock, forward or back. A process that runs does not see it."""
        self._report.clock_jumps += 1
        machine, random = self._world.random.choice(list(self._brokers.values())), self._world.random
        machine.wall_offset_ms += random.choice((-1, 1)) * random.choice(CLOCK_JUMPS_MS)

    def drift(self, broker: ClusterBroker) -> None:
        """For as long as the machine runs."""
        most = self._world.clock_drift
        broker.clock_rate = 1 - most + 2 * most * self._world.random.random()
