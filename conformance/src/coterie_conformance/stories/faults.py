"""What may happen to a story: one table, a row for each fault, with its weight and what it does.

A fault that lasts has a length of its own, at the end of which it is mended; `StoryFaults.mend` ends all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coterie.simulation.disk import ProcessEnded
from coterie.simulation.loop import MAX_EXECUTOR_S
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.testing.simulated import SimulatedWorld, WorldBroker

LENGTHS_S = (0.5, 3.0, 9.0, 18.0)
SLOW_SYNCS_S = (0.05, 1.5)
PROCESS_LENGTHS_S = (0.5, 3.0, 9.0, 40.0)  # longer than a session


class StoryFaults:
    """The faults of one story. ``programs`` are names of processes, which ``start`` starts again."""

    def __init__(
        self,
        world: SimulatedWorld,
        broker: WorldBroker,
        rng: random.Random,
        programs: list[str],
        start: Callable[[str], None],
        table: Sequence[FaultRow],
        *,
        synced: bool,
        pace: float = 1.0,
    ) -> None:
        self.world, self.broker, self.rng = world, broker, rng
        self.programs, self.start, self.synced, self._pace = programs, start, synced, pace
        self.count: Counter[str] = Counter()
        self.broker_crashes = 0  # kills, and losses of power
        self.loses_unsynced = False  # a lone broker's machine lost power, and what it had not synced is gone
        self.numbers = broker.broker_ids
        self._ends: list[tuple[float, Callable[[], None]]] = []
        self._down: set[int] = set()  # brokers that have not been started again
        self._paused: set[int] = set()
        self._cut_off: set[int] = set()  # brokers that ZooKeeper does not hear
        self._uncertain: set[int] = set()  # whose machine lost power, until their replicas are in sync again
        self._table = [row for row in table if row.of_cluster is None or row.of_cluster == (len(self.numbers) > 1)]

    def strike(self) -> None:
        """One fault, and the end of the faults that have lasted."""
        self.end_due()
        row = self.rng.choices(self._table, [row.weight for row in self._table])[0]
        if row.strike(self):
            self.count[row.name] += 1

    def end_due(self) -> None:
        """Ends the faults whose time is over."""
        due = [end for end in self._ends if end[0] <= self.world.now_s]
        self._ends = [end for end in self._ends if end[0] > self.world.now_s]
        for _, mend in due:
            mend()

    def mend(self) -> None:
        """Ends all faults; every broker and every program runs again."""
        self._cut_off.clear()
        while self._ends:  # the end of one may begin another
            ends, self._ends = self._ends, []
            for _, mend in ends:
                mend()
        self.broker.faults.rules.clear()
        self.world.loop.executor_s = MAX_EXECUTOR_S
        self.world.network.heal()
        for number in self.numbers:
            self.start_broker(number)
        for name in self.programs:
            self._start_program(name)

    def later(self, lengths_s: tuple[float, ...], mend: Callable[[], None]) -> None:
        """Has ``mend`` called after one of the lengths."""
        self._ends.append((self.world.now_s + self.rng.choice(lengths_s) * self._pace, mend))

    # -- brokers ----------------------------------------------------------------------------------------------------------

    def running_broker(self) -> int | None:
        """The id of one of them; None where none runs."""
        running = self.running_brokers()
        return self.rng.choice(running) if running else None

    def running_brokers(self) -> list[int]:
        """The brokers that are neither down nor paused. One that ended by itself is started again later."""
        for number in self.numbers:
            if number not in self._down and not self.broker.is_alive(number):
                self.down(number, lambda _: None)
        return [number for number in self.numbers if number not in self._down | self._paused]

    def down(self, number: int, stop: Callable[[int], None]) -> bool:
        """Stops a broker, and starts it again later."""
        self._down.add(number)
        self.broker_crashes += stop != self.stop
        stop(number)
        self.later(LENGTHS_S, lambda: self.start_broker(number))
        return True

    def stop(self, number: int) -> None:
        """In order; one whose shutdown does not end, or whose process ends within it, is killed."""
        try:
            self.broker.stop(number)
        except (TimeoutError, ProcessEnded):
            if self.broker.is_alive(number):
                self.broker.kill(number)

    def cut_off(self, number: int, *, is_cut_off: bool) -> None:
        """Notes whether ZooKeeper hears the broker."""
        (self._cut_off.add if is_cut_off else self._cut_off.discard)(number)

    def pause_broker(self, number: int) -> None:
        """For a while."""
        self._paused.add(number)
        self.broker.pause(number)
        self.later(LENGTHS_S, lambda: self._resume_broker(number))

    def _resume_broker(self, number: int) -> None:
        self._paused.discard(number)
        self.broker.resume(number)

    def start_broker(self, number: int) -> None:
        """Unless it runs."""
        self._down.discard(number)
        if not self.broker.is_alive(number):
            self.world.disk(f"broker-{number}").mend()
            self.broker.restart(number)

    def may_lose_power(self, number: int) -> bool:
        """Of the machines that have what was acknowledged, one at a time loses what it has not synced."""
        if self.synced:
            return True
        if self.numbers == [1]:
            self.loses_unsynced = True
            return True
        if self._uncertain_brokers() - {number} or not self._leaves_whole_replicas(number):
            return False
        self._uncertain.add(number)
        return True

    def may_stop(self, number: int) -> bool:
        """Not beside a machine without power whose session lives: no controller can know what it has lost."""
        return self.synced or not self._uncertain_brokers() - {number}

    def _uncertain_brokers(self) -> set[int]:
        """A replica whose machine lost power is whole again once it has come back and joined."""
        self._uncertain = {n for n in self._uncertain if n in self._down or not self.broker.is_in_sync(n)}
        return self._uncertain

    def _leaves_whole_replicas(self, number: int) -> bool:
        """Whether of each partition another broker that runs and reaches the others has all that the ISR must have."""
        whole = set(self.running_brokers()) - {number} - self._cut_off
        return all(number not in isr or set(isr) & whole for isr in self.cluster.isrs().values())

    @property
    def cluster(self) -> ClusterBrokers:
        """The brokers, of a story that has several."""
        return self.broker.cluster

    def clustered(self, number: int) -> ClusteredBroker:
        """One of them."""
        return self.cluster.brokers[number]

    # -- programs ---------------------------------------------------------------------------------------------------------

    def program(self) -> str | None:
        """One that runs."""
        alive = [name for name in self.programs if self.world.processes[name].is_alive]
        return self.rng.choice(alive) if alive else None

    def _start_program(self, name: str) -> None:
        if not self.world.processes[name].is_alive:
            self.start(name)

    def restart_later(self, name: str) -> None:
        """After a program was killed."""
        self.later(PROCESS_LENGTHS_S, lambda: self._start_program(name))


@dataclass(frozen=True, slots=True)
class FaultRow:
    """``strike`` returns whether it struck; ``of_cluster``: only with several brokers, only with one, or None."""

    name: str
    weight: int
    strike: Callable[[StoryFaults], bool]
    of_cluster: bool | None = None


def _kill_broker(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    return number is not None and faults.down(number, faults.broker.kill)


def _stop_broker(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    return number is not None and faults.may_stop(number) and faults.down(number, faults.stop)


def _cut_power(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    return number is not None and faults.may_lose_power(number) and faults.down(number, faults.broker.power_cut)


def _kill_all(faults: StoryFaults) -> bool:
    numbers = faults.running_brokers()
    for number in numbers:
        faults.down(number, faults.broker.kill)
    return bool(numbers)


def _pause_broker(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    if number is None:
        return False
    faults.pause_broker(number)
    return True


def _cut_off_broker(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    if number is None:
        return False
    faults.broker.partition(number)
    faults.cut_off(number, is_cut_off=True)

    def heal() -> None:
        faults.clustered(number).heal()
        faults.cut_off(number, is_cut_off=False)

    faults.later(LENGTHS_S, heal)
    return True


def _move_coordinator(faults: StoryFaults) -> bool:
    if not faults.running_brokers():
        return False
    for group in faults.rng.sample(("readers", "copiers"), 1):
        faults.broker.move_coordinator(group)
    return True


def _kill_program(faults: StoryFaults) -> bool:
    name = faults.program()
    if name is None:
        return False
    faults.world.processes[name].kill()
    faults.restart_later(name)
    return True


def _pause_program(faults: StoryFaults) -> bool:
    name = faults.program()
    if name is None:
        return False
    process = faults.world.processes[name]
    process.pause()
    faults.later(PROCESS_LENGTHS_S, lambda: process.resume() if process.is_alive else None)
    return True


def _cut_program(faults: StoryFaults) -> bool:
    name, number = faults.program(), faults.rng.choice(faults.numbers)
    if name is None:
        return False
    faults.world.network.cut(name, f"broker-{number}", both_ways=faults.rng.random() < 0.7)
    faults.later(PROCESS_LENGTHS_S, lambda: faults.world.network.heal(name, f"broker-{number}"))
    return True


def _reset_program(faults: StoryFaults) -> bool:
    name = faults.program()
    return name is not None and faults.world.network.reset_connections(name) > 0


def _disk(faults: StoryFaults, attribute: str, value: object) -> bool:
    number = faults.running_broker()
    return number is not None and _disk_of(faults, number, attribute, value)


def _disk_of(faults: StoryFaults, number: int, attribute: str, value: object) -> bool:
    disk = faults.world.disk(f"broker-{number}")
    setattr(disk, attribute, value)
    faults.later(LENGTHS_S[:3], disk.mend)
    return True


def _fail_syncs(faults: StoryFaults) -> bool:
    """As the loss of power: what was not synced is not on the disk, and the broker's process ends."""
    number = faults.running_broker()
    if number is None or not faults.may_lose_power(number):
        return False
    return _disk_of(faults, number, "failing_syncs", 1)


def _die_in_an_operation(faults: StoryFaults) -> bool:
    """The broker's process ends in the middle of one of its next writes."""
    number = faults.running_broker()
    return number is not None and _disk_of(faults, number, "dies_in", faults.rng.randint(1, 30))


def _slow_syncs(faults: StoryFaults) -> bool:
    faults.world.loop.executor_s = faults.rng.choice(SLOW_SYNCS_S)

    def end() -> None:
        faults.world.loop.executor_s = MAX_EXECUTOR_S

    faults.later(LENGTHS_S, end)
    return True


def _cut_power_while_syncs_are_slow(faults: StoryFaults) -> bool:
    """What was answered, or given to a reader, before it was synced is gone."""

    def cut() -> None:
        number = faults.running_broker()
        if number is not None and faults.may_lose_power(number):
            faults.down(number, faults.broker.power_cut)

    faults.later(LENGTHS_S[:2], cut)
    return _slow_syncs(faults)


TABLE = (
    FaultRow("broker_killed", 3, _kill_broker),
    FaultRow("broker_stopped", 2, _stop_broker),
    FaultRow("power_cut", 3, _cut_power),
    FaultRow("all_brokers_killed", 1, _kill_all, of_cluster=True),
    FaultRow("broker_paused", 2, _pause_broker),
    FaultRow("broker_cut_off", 2, _cut_off_broker, of_cluster=True),
    FaultRow("coordinator_moved", 1, _move_coordinator, of_cluster=False),
    FaultRow("disk_full", 1, lambda faults: _disk(faults, "full", True)),
    FaultRow("disk_writes_fail", 1, lambda faults: _disk(faults, "failing_writes", faults.rng.randint(1, 4))),
    FaultRow("disk_syncs_fail", 1, _fail_syncs),
    FaultRow("broker_dies_in_an_operation", 2, _die_in_an_operation),
    FaultRow("syncs_slow", 1, _slow_syncs),
    FaultRow("power_cut_while_syncs_are_slow", 2, _cut_power_while_syncs_are_slow),
    FaultRow("program_killed", 5, _kill_program),
    FaultRow("program_paused", 3, _pause_program),
    FaultRow("program_cut_off", 3, _cut_program),
    FaultRow("connections_reset", 3, _reset_program),
)
