"""One seed, one story: members come, go, crash, stall and return on clocks that are off; the broker dies, or its machine
does; the network breaks, doubles and cuts off; writes fail, syncs fail or lie; the log is compacted meanwhile.

Checked after every step by the checkers; at the end, with all faults off, the group must come to rest: Stable within
a bound, every living member in it, every partition owned by exactly one of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Phase
from coterie.laboratory.brokers.broker_actor import BrokerActor, Durability
from coterie.laboratory.members.member_actor import GROUP, MemberActor
from coterie.laboratory.ownership import Ownership
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig
from coterie.wire.errors import ErrorCode
from coterie_conformance.group_stories.recording import Recorder, failure_of, shrink
from coterie_conformance.group_stories.seed import holds, naming_seed

SETTLE_MS = 120_000
TURNS_MS = (None, 0, 20)  # how long the broker collects what it writes as one batch
# The assignors of one story's members: eager, cooperative, or one after the other in two rolling bounces. All list the
# same in one order or another, since a group that was loaded from its log knows only the protocol it had chosen.
ASSIGNORS_OF_KIND: dict[str, tuple[tuple[str, ...], ...]] = {
    "range": (("range", "roundrobin"), ("roundrobin", "range")),
    "sticky": (("sticky", "range"),),
    "both": (("range", "cooperative-sticky"), ("cooperative-sticky", "range")),
    "cooperative": (("cooperative-sticky",),),
    "migration": (("range",),),
}
BOUNCES = (("cooperative-sticky", "range"), ("cooperative-sticky",))


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """The result of one seed."""

    seed: int
    events: int
    rebalances: int
    generation: int
    broker_crashes: int
    compactions: int
    members: int


def run_seed(seed: int, minutes: float = 5.0) -> FuzzReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed):
        return _Story(seed).run(int(minutes * 60_000))


def shrunk_scenario(seed: int, minutes: float) -> tuple[list[str], bool]:
    """A failing seed's story in the language of tests/spec, as short as it could be made; and whether it breaks a rule
    there as well. One that does not (it takes the members' part, or the end of the story) is given whole."""
    story = _Story(seed, record=True)
    with suppress(AssertionError):
        story.run(int(minutes * 60_000))
    assert story.recorder is not None
    story.recorder.ended(story.broker.now_ms())
    lines = story.recorder.lines
    return (shrink(lines), True) if failure_of(lines) else (lines, False)


class _Story:
    def __init__(self, seed: int, *, record: bool = False) -> None:
        self.seed = seed
        self.world = World(seed)
        rng = self.world.random
        self.partitions = {"t": rng.randint(1, 12), "u": rng.randint(1, 4)}
        delay_ms = rng.choice([0, 500, 3_000])
        self.recorder = Recorder({"group_initial_rebalance_delay_ms": delay_ms}) if record else None
        durability = rng.choice([Durability.PROCESS, Durability.PROCESS, Durability.POWER, Durability.LYING])
        config = CoordinatorConfig(group_initial_rebalance_delay_ms=delay_ms)
        turn_ms = TURNS_MS[seed % len(TURNS_MS)]
        self.broker = BrokerActor(self.world, config, self.partitions, durability, self.recorder, turn_ms=turn_ms)
        self.kind = rng.choice(list(ASSIGNORS_OF_KIND))
        self.ownership = Ownership()
        self.members = [self._member(n) for n in range(rng.randint(1, 6))]

    def _member(self, number: int) -> MemberActor:
        rng = self.world.random
        static = f"i{number}" if rng.random() < 0.4 else None
        config = MemberConfig(
            GROUP,
            static,
            session_timeout_ms=rng.choice([6_000, 10_000, 30_000]),
            heartbeat_interval_ms=rng.choice([500, 1_000, 2_000]),
            max_poll_interval_ms=rng.choice([10_000, 30_000]),
            assignors=rng.choice(ASSIGNORS_OF_KIND[self.kind]),
        )
        topics = frozenset({"t"}) if rng.random() < 0.6 else frozenset({"t", "u"})
        actor = MemberActor(self.world, self.broker, f"m{number}", config, topics, self.ownership)
        actor.listener_ms = rng.choice([0, 0, 50, 1_000])
        return actor

    def run(self, length_ms: int) -> FuzzReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.double_probability = world.random.choice([0.0, 0.0, 0.02])
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        for member in self.members:
            world.after(world.random.randint(0, 20_000), member.start)
        self.world.strike_until(end_ms, 15_000, self._one_fault)
        if self.kind == "migration":
            for third, assignors in enumerate(BOUNCES, 1):
                world.at(world.start_ms + length_ms * third // 3, lambda to=assignors: self._bounce(to))  # type: ignore[misc]
        world.run_until(end_ms)
        world.faults.break_probability = world.faults.double_probability = 0.0
        broker = self.broker
        broker.failing_appends = broker.failing_syncs = broker.forgetful_syncs = 0
        if not broker.up:
            broker.start()
        for member in self.members:
            member.stalled_until_ms = member.cut_off_until_ms = 0
            if not member.alive:
                member.start()
        world.run_to_rest(SETTLE_MS, self._is_at_rest)
        if self._start_the_failed():
            world.run_to_rest(SETTLE_MS, self._is_at_rest)
        self._check_at_rest()
        self.broker.check_log()
        self.broker.committed.check(self.broker.shard)
        group = self.broker.shard.groups[GROUP]
        return FuzzReport(
            self.seed,
            world.events,
            broker.rebalances,
            group.generation,
            broker_crashes=broker.crashes,
            compactions=broker.compactions,
            members=len(group.members),
        )

    def _bounce(self, assignors: tuple[str, ...]) -> None:
        """Every member is stopped and started again with other assignors, one after the other."""

        def one(member: MemberActor) -> None:
            was_alive = member.alive
            if was_alive:
                member.leave()
            member.config.assignors = assignors
            if was_alive:
                member.start()

        for index, member in enumerate(self.members):
            self.world.after(index * 2_000, lambda member=member: one(member))  # type: ignore[misc]

    def _one_fault(self) -> None:
        world, rng = self.world, self.world.random
        member = rng.choice(self.members)
        kind = rng.choice(["crash", "leave", "stall", "cut", "return", "return", "broker", "disk"])
        if kind == "broker" and self.broker.up:
            self.broker.crash()
            world.after(rng.randint(100, 8_000), self.broker.restart)
        elif kind == "disk":
            self.broker.fail_disk()
        elif kind == "return":
            if not member.alive:
                member.start()
        elif kind == "cut":
            member.cut_off_until_ms = world.now_ms + rng.randint(500, 40_000)
        elif member.alive and kind == "crash":
            member.crash()
        elif member.alive and kind == "leave":
            member.leave()
        elif member.alive:
            member.stalled_until_ms = world.now_ms + rng.randint(1_000, 40_000)

    def _start_the_failed(self) -> bool:
        """A static member may rightly be fenced by a late request of its own former process, or where a disk forgot
        its newest id: its supervisor starts it again. Nothing else may have ended a member."""
        ended = [m for m in self.members if not m.alive]
        for member in ended:
            assert member.failed is not None, f"{member.name} ended without a word"
            may = {ErrorCode.FENCED_INSTANCE_ID}
            if self.kind == "migration":  # one that had crashed may still have been listed with its old assignors
                may.add(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            assert member.failed.code in may, f"{member.name} failed: {member.failed}"
            member.start()
        return bool(ended)

    def _is_at_rest(self) -> bool:
        return self.broker.up and holds(self._check_at_rest)

    def _check_at_rest(self) -> None:
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
        for member in self.members:
            unknown = member.commits.offsets.unknown()
            assert not unknown, f"{member.name} has no position in {unknown} {SETTLE_MS} ms after the last fault"
            assert set(member.commits.offsets.positions) == member.owned
