"""One seed, one story: members come, go, crash, stall and return, the broker dies, connections break, writes fail.

Checked after every step by the checkers; at the end, with all faults off, the group must come to rest: Stable within
a bound, every living member in it, every partition owned by exactly one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Phase
from coterie.laboratory.actors import GROUP, BrokerActor, MemberActor
from coterie.laboratory.world import World
from coterie.member.machine import MemberConfig

SETTLE_MS = 180_000


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """What one seed came to."""

    seed: int
    events: int
    rebalances: int
    generation: int
    broker_crashes: int
    members: int


class FuzzFailure(AssertionError):
    """A checker's complaint, with the seed that brings it back."""


def run_seed(seed: int, minutes: float = 5.0) -> FuzzReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    try:
        return _Story(seed).run(int(minutes * 60_000))
    except AssertionError as error:
        raise FuzzFailure(f"seed {seed}: {error}") from error


class _Story:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        rng = self.world.random
        self.partitions = {"t": rng.randint(1, 12), "u": rng.randint(1, 4)}
        delay_ms = rng.choice([0, 500, 3_000])
        self.broker = BrokerActor(
            self.world, CoordinatorConfig(group_initial_rebalance_delay_ms=delay_ms), self.partitions
        )
        self.members = [self._member(n) for n in range(rng.randint(1, 6))]
        self.crashes = 0

    def _member(self, number: int) -> MemberActor:
        rng = self.world.random
        static = f"i{number}" if rng.random() < 0.4 else None
        config = MemberConfig(
            GROUP,
            static,
            session_timeout_ms=rng.choice([6_000, 10_000, 30_000]),
            heartbeat_interval_ms=rng.choice([500, 1_000, 2_000]),
            max_poll_interval_ms=rng.choice([10_000, 30_000]),
            assignors=("range", "roundrobin") if rng.random() < 0.7 else ("roundrobin", "range"),
        )
        topics = frozenset({"t"}) if rng.random() < 0.6 else frozenset({"t", "u"})
        return MemberActor(self.world, self.broker, f"m{number}", config, topics)

    def run(self, length_ms: int) -> FuzzReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        for member in self.members:
            world.after(world.random.randint(0, 20_000), member.start)
        self._trouble(end_ms)
        world.run_until(end_ms)
        world.faults.break_probability = 0.0
        if not self.broker.up:
            self.broker.start()
        self.broker.failing_appends = 0
        for member in self.members:
            member.stalled_until_ms = 0
            if not member.alive:
                member.start()
        world.run_until(end_ms + SETTLE_MS)
        self._at_rest()
        group = self.broker.shard.groups[GROUP]
        return FuzzReport(
            self.seed, world.events, self.broker.rebalances, group.generation, self.crashes, len(group.members)
        )

    def _trouble(self, end_ms: int) -> None:
        """Something goes wrong every few seconds, until the end."""
        world = self.world

        def strike() -> None:
            if world.now_ms >= end_ms:
                return
            self._one_trouble()
            world.after(world.random.randint(1_000, 15_000), strike)

        world.after(world.random.randint(1_000, 15_000), strike)

    def _one_trouble(self) -> None:
        world, rng = self.world, self.world.random
        member = rng.choice(self.members)
        kind = rng.choice(["crash", "leave", "stall", "return", "return", "broker", "disk"])
        if kind == "broker" and self.broker.up:
            self.broker.crash()
            self.crashes += 1
            world.after(rng.randint(100, 8_000), lambda: None if self.broker.up else self.broker.start())
        elif kind == "disk":
            self.broker.failing_appends = rng.randint(1, 3)
        elif kind == "return":
            if not member.alive:
                member.start()
        elif member.alive and kind == "crash":
            member.crash()
        elif member.alive and kind == "leave":
            member.leave()
        elif member.alive:
            member.stalled_until_ms = world.now_ms + rng.randint(1_000, 40_000)

    def _at_rest(self) -> None:
        group = self.broker.shard.groups.get(GROUP)
        assert group is not None, "the group is gone although members live"
        assert group.phase == Phase.STABLE, f"the group is {group.phase} {SETTLE_MS} ms after the last fault"
        alive = {m.machine.member_id for m in self.members}
        assert set(group.members) == alive, f"members are {set(group.members)}, alive are {alive}"
        for topic, count in self.partitions.items():
            takers = [m for m in self.members if topic in m.topics]
            for partition in range(count):
                owners = [m.name for m in takers if (topic, partition) in m.owned]
                assert len(owners) == (1 if takers else 0), f"{topic}-{partition} is owned by {owners}"
        self.broker.check_log()
        self.broker.committed.check(self.broker.shard)
