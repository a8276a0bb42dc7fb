"""Experiments in virtual time: what a rebalance costs under each protocol, and how a group moves from one to the other.

Real member machines, a real coordinator, no faults; a member's listener takes its time to give partitions up, as code
that commits and flushes does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Phase
from coterie.laboratory.brokers.broker_actor import BrokerActor
from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.members.member_actors import MemberActor
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig

TOPIC = "t"
SETTLE_MS = 60_000
PATIENCE_MS = 600_000


@dataclass(frozen=True, slots=True)
class Handover:
    """The cost of one more member, as `coterie.machines.ownership` defines it: partitions that were unowned, for how long in
    sum, at most and one by one, how many moved, how many members paused, and how many rebalances it took."""

    assignor: str
    protocol: str
    unowned: int
    unowned_ms: int
    longest_ms: int
    moved: int
    paused: int
    rebalances: int
    unowned_ms_by_partition: dict[str, int]


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """The group after something was done to it."""

    what: str
    assignor: str
    protocol: str
    members: int
    rebalances: int
    refused: int
    complete: bool


class ExperimentGroup:
    """A broker and members that can be added, bounced and waited for."""

    def __init__(self, partitions: int, listener_ms: int, seed: int) -> None:
        self.world = World(seed)
        self.broker = BrokerActor(
            self.world, CoordinatorConfig(group_initial_rebalance_delay_ms=0), {TOPIC: partitions}
        )
        self.partitions, self.listener_ms = partitions, listener_ms
        self.ownership = Ownership()
        self.members: list[MemberActor] = []

    def add(self, assignors: tuple[str, ...]) -> MemberActor:
        """One more member; not started yet."""
        config = MemberConfig(GROUP, assignors=assignors)
        name = f"m{len(self.members):03}"
        member = MemberActor(self.world, self.broker, name, config, frozenset({TOPIC}), self.ownership)
        member.listener_ms = self.listener_ms
        self.members.append(member)
        return member

    def settle(self) -> bool:
        """Runs until all is at rest; whether every partition then has one owner."""
        until_ms = self.world.now_ms + PATIENCE_MS
        while self.world.now_ms < until_ms:
            self.world.run_until(self.world.now_ms + SETTLE_MS)
            group = self.broker.shard.groups.get(GROUP)
            owned = [partition for m in self.members if m.alive for partition in m.owned]
            if group is not None and group.phase == Phase.STABLE and len(set(owned)) == self.partitions == len(owned):
                return True
        return False

    def assignor(self) -> str:
        """The one in force."""
        return self.broker.shard.groups[GROUP].protocol or "-"

    def protocol(self) -> str:
        """The rebalance protocols of the live members, joined by +."""
        return "+".join(sorted({m.machine.rebalance_protocol.name.lower() for m in self.members if m.alive}))


def handover(assignor: str, members: int = 19, partitions: int = 20, listener_ms: int = 100, seed: int = 1) -> Handover:
    """One more member joins a group at rest."""
    group = ExperimentGroup(partitions, listener_ms, seed)
    for _ in range(members):
        group.add((assignor,)).start()
    assert group.settle(), "the group did not come to rest"
    group.ownership.begin(group.world.now_ms)
    before = group.broker.rebalances
    newcomer = group.add((assignor,))
    newcomer.start()
    assert group.settle(), "the group did not come to rest again"
    unowned_ms = group.ownership.unowned_ms
    return Handover(
        assignor,
        newcomer.machine.rebalance_protocol.name.lower(),
        len(unowned_ms),
        unowned_ms=sum(unowned_ms.values()),
        longest_ms=max(unowned_ms.values(), default=0),
        moved=group.ownership.moves,
        paused=len(group.ownership.pause_ms),
        rebalances=group.broker.rebalances - before,
        unowned_ms_by_partition={f"{topic}-{partition}": ms for (topic, partition), ms in sorted(unowned_ms.items())},
    )


def migration(members: int = 3, partitions: int = 12, *, bounces: int = 2, seed: int = 1) -> Iterator[MigrationStep]:
    """From eager range to cooperative sticky: first every member lists both, then only the new one. With ``bounces`` 1 the
    first is left out, to show what it is for: those who list only the new one are refused."""
    group = ExperimentGroup(partitions, 100, seed)
    for _ in range(members):
        group.add(("range",)).start()
    settled = group.settle()
    yield MigrationStep(
        "all members list range",
        group.assignor(),
        group.protocol(),
        members,
        rebalances=group.broker.rebalances,
        refused=0,
        complete=settled,
    )
    lists = [("cooperative-sticky", "range"), ("cooperative-sticky",)][2 - bounces :]
    for assignors in lists:
        before = group.broker.rebalances
        for member in group.members:
            member.leave()
            member.config.assignors = assignors
            member.start()
            settled = group.settle()
        alive = [m for m in group.members if m.alive]
        yield MigrationStep(
            f"each restarted with {','.join(assignors)}",
            group.assignor(),
            group.protocol(),
            members=len(alive),
            rebalances=group.broker.rebalances - before,
            refused=len(group.members) - len(alive),
            complete=settled,
        )
