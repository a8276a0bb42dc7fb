"""One seed, one story of a group of the consumer protocol: members join, leave, stall, are cut off, killed and come back, some
of them static, in some stories some of the classic protocol; topics grow; the broker dies, its disk fails, its log is cleaned.

Checked after every step: the group's parts, its epochs, that no accepted commit is of a partition that another member has,
and that nobody uses a partition that the coordinator holds free. At the end, with all faults off, the group must be Stable
within a bound, with every living member in it and one owner for every partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.consumer.state import ConsumerGroupState
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.laboratory.brokers.broker_actor import Durability
from coterie.laboratory.brokers.consumer_broker_actor import ConsumerBrokerActor, GroupKind
from coterie.laboratory.checking.consumer_group_checker import check_user
from coterie.laboratory.members.consumer_member_actor import ConsumerMemberActor
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.members.member_actor import MemberActor
from coterie.laboratory.ownership import Ownership
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie_conformance.group_stories.seed import holds, naming_seed

SETTLE_MS = 180_000
TOPICS = frozenset({"t", "u"})
Actor = ConsumerMemberActor | MemberActor


@dataclass(frozen=True, slots=True)
class ConsumerFuzzReport:
    """The result of one seed; ``conversions`` are changes of the group's protocol. ``with_...``: whether the group ever had
    members of the classic protocol alone, of the consumer protocol alone, of both, and a conversion."""

    seed: int
    events: int
    epochs: int
    members: int
    fenced: int
    commits: int
    conversions: int
    broker_crashes: int
    compactions: int
    with_classic: bool
    with_consumer: bool
    with_mixed: bool
    with_conversion: bool


def run_consumer_seed(seed: int, minutes: float = 4.0) -> ConsumerFuzzReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed):
        return _ConsumerStory(seed).run(int(minutes * 60_000))


class _ConsumerStory:
    def __init__(self, seed: int) -> None:
        self.seed, self.world = seed, World(seed)
        rng = self.world.random
        config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=0,
            group_consumer_session_timeout_ms=rng.choice([6_000, 20_000]),
            group_consumer_assignment_interval_ms=rng.choice([0, 1_000, 3_000]),
        )
        durability = rng.choice([Durability.PROCESS, Durability.PROCESS, Durability.POWER, Durability.LYING])
        partitions = {"t": rng.randint(1, 10), "u": rng.randint(1, 4)}
        self.broker = ConsumerBrokerActor(self.world, config, partitions, durability)
        self.ownership = Ownership()
        self.members = [self._member(number) for number in range(rng.randint(2, 6))]
        classic = rng.randint(1, 3) if rng.random() < 0.4 else 0
        self.classic = [self._classic_member(number) for number in range(classic)]

    def _member(self, number: int) -> ConsumerMemberActor:
        rng = self.world.random
        topics = TOPICS if rng.random() < 0.5 else frozenset({"t"})
        config = ConsumerMemberConfig(
            GROUP,
            "",
            group_instance_id=f"i{number}" if rng.random() < 0.3 else None,
            max_poll_interval_ms=rng.choice([6_000, 30_000, 60_000]),
            remote_assignor=rng.choice([None, "uniform", "range"]),
        )
        actor = ConsumerMemberActor(self.world, self.broker, f"m{number}", config, topics, self.ownership)
        actor.listener_ms = rng.choice([0, 0, 100, 3_000])
        return actor

    def _classic_member(self, number: int) -> MemberActor:
        config = MemberConfig(
            GROUP,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=30_000,
            assignors=("range", "cooperative-sticky"),
        )
        return MemberActor(self.world, self.broker, f"c{number}", config, TOPICS, self.ownership)

    def _everyone(self) -> list[Actor]:
        return [*self.members, *self.classic]

    def run(self, length_ms: int) -> ConsumerFuzzReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.max_delay_ms = world.random.choice([5, 50, 300])
        for member in self._everyone():
            world.after(world.random.randint(0, 20_000), member.start)
        world.strike_until(end_ms, 10_000, self._one_fault)
        if self.classic:
            world.at(world.start_ms + length_ms // 3, self._bounce)
        self._check_often(end_ms + 2 * SETTLE_MS)
        world.run_until(end_ms)
        world.faults.break_probability = 0.0
        broker = self.broker
        broker.failing_appends = broker.failing_syncs = broker.forgetful_syncs = 0
        if not broker.up:
            broker.start()
        for member in self._everyone():
            member.stalled_until_ms = member.cut_off_until_ms = 0
            if not member.alive:
                member.start()
        world.run_to_rest(SETTLE_MS, self._is_at_rest)
        for ended in self._ended():
            ended.start()
        world.run_to_rest(SETTLE_MS, self._is_at_rest)
        self._check_at_rest()
        broker.check_log()
        broker.committed.check(broker.shard)
        group = broker.shard.consumer_groups[GROUP]
        return ConsumerFuzzReport(
            self.seed,
            world.events,
            broker.epochs_raised,
            len(group.members),
            fenced=sum(m.fenced for m in self.members),
            commits=sum(m.accepted for m in self.members),
            conversions=broker.conversions,
            broker_crashes=broker.crashes,
            compactions=broker.compactions,
            with_classic=GroupKind.CLASSIC in broker.kinds,
            with_consumer=GroupKind.CONSUMER in broker.kinds,
            with_mixed=GroupKind.MIXED in broker.kinds,
            with_conversion=broker.conversions > 0,
        )

    def _bounce(self) -> None:
        """Every member of the consumer protocol leaves, one after the other, and comes back: the group goes down and up."""
        for index, member in enumerate(self.members):
            self.world.after(index * 1_000, lambda member=member: member.leave() if member.alive else None)  # type: ignore[misc]
            self.world.after(30_000 + index * 1_000, lambda member=member: None if member.alive else member.start())  # type: ignore[misc]

    def _ended(self) -> list[Actor]:
        """A static member may have been fenced by its own successor's late request: its supervisor starts it again."""
        return [m for m in self._everyone() if not m.alive]

    def _one_fault(self) -> None:
        world, rng = self.world, self.world.random
        member = rng.choice(self._everyone())
        match rng.choice(["crash", "leave", "stall", "cut", "return", "return", "broker", "disk", "subscribe", "grow"]):
            case "broker" if self.broker.up:
                self.broker.crash()
                world.after(rng.randint(100, 8_000), self.broker.restart)
            case "disk":
                self.broker.fail_disk()
            case "return" if not member.alive:
                member.start()
            case "cut":
                member.cut_off_until_ms = world.now_ms + rng.randint(500, 40_000)
            case "crash" if member.alive:
                member.crash()
            case "leave" if member.alive:
                member.leave()
            case "stall" if member.alive:
                member.stalled_until_ms = world.now_ms + rng.randint(1_000, 40_000)
            case "subscribe" if isinstance(member, ConsumerMemberActor):
                member.subscribe(rng.choice([TOPICS, frozenset({"t"}), frozenset({"u"})]))
            case "grow":
                topic = rng.choice(["t", "u"])
                count = self.broker.topics.topics[topic].partitions + 1
                self.broker.partitions[topic] = count
                self.broker.set_partitions(topic, count)

    def _check_often(self, end_ms: int) -> None:
        def check() -> None:
            self._check_users()
            if self.world.now_ms < end_ms:
                self.world.after(500, check)

        self.world.after(500, check)

    def _check_users(self) -> None:
        """Who is in the group, under its present epoch or the one before, uses nothing that is free for others. A disk that
        forgot what it acknowledged keeps no promise."""
        group = self.broker.shard.consumer_groups.get(GROUP)
        if group is None or not self.broker.up or self.broker.durability == Durability.LYING:
            return
        for actor in self.members:
            if actor.alive:
                check_user(group, actor.name, actor.member_id, actor.epoch, actor.uses)

    def _is_at_rest(self) -> bool:
        return self.broker.up and holds(self._check_at_rest)

    def _check_at_rest(self) -> None:
        group = self.broker.shard.consumer_groups.get(GROUP)
        assert group is not None, "the group is gone although members live"
        assert group.phase == ConsumerGroupState.STABLE, f"the group is {group.phase} after the last fault"
        alive = {m.member_id for m in self.members} | {m.machine.member_id for m in self.classic}
        assert set(group.members) == alive, f"members are {set(group.members)}, alive are {alive}"
        for topic, image in self.broker.topics.topics.items():
            for number in range(image.partitions):
                users = [m.name for m in self.members if (image.topic_id, number) in m.uses]
                users += [m.name for m in self.classic if (topic, number) in m.owned]
                takers = [m for m in self._everyone() if topic in m.topics]
                assert len(users) == (1 if takers else 0), f"{topic}-{number} is used by {users}"
        for actor in self.members:
            assert actor.uses == group.members[actor.member_id].current.assigned.keys()
