"""Whole consumers against a whole coordinator in virtual time. Names are those of Kafka's system test consumer_test.py."""

from __future__ import annotations

import pytest

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Phase
from coterie.laboratory.brokers.broker_actor import BrokerActor
from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.members.member_actors import MemberActor
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig
from coterie.wire.errors import ErrorCode

PARTITIONS = 12
SESSION_MS = 10_000


class Lab:
    """A broker and so many consumers of one topic, without faults."""

    def __init__(self, seed: int = 1, static: bool = False, members: int = 3, assignor: str = "range") -> None:
        self.world = World(seed)
        self.broker = BrokerActor(self.world, CoordinatorConfig(group_initial_rebalance_delay_ms=0), {"t": PARTITIONS})
        self.static, self.assignor = static, assignor
        self.ownership = Ownership()
        self.members = [self.member(n) for n in range(members)]

    def member(self, number: int, instance: str | None = None) -> MemberActor:
        if instance is None and self.static:
            instance = f"i{number}"
        config = MemberConfig(GROUP, instance, session_timeout_ms=SESSION_MS, assignors=(self.assignor,))
        return MemberActor(self.world, self.broker, f"m{number}", config, frozenset({"t"}), self.ownership)

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now_ms + int(seconds * 1000))

    def started(self) -> Lab:
        for member in self.members:
            member.start()
        self.run(30)
        self.settled()
        return self

    def settled(self) -> None:
        """Stable, every living consumer in it, each partition with one owner: complete and without overlap."""
        group = self.broker.shard.groups[GROUP]
        alive = [m for m in self.members if m.alive]
        assert group.phase == Phase.STABLE
        assert set(group.members) == {m.machine.member_id for m in alive}
        owned = [partition for m in alive for partition in m.owned]
        assert sorted(owned) == [("t", p) for p in range(PARTITIONS)]

    def commits_hold(self) -> None:
        """No committed position is behind one that was acknowledged."""
        self.broker.committed.check(self.broker.shard)
        self.broker.check_log()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_each_join_leaves_a_valid_assignment(assignor: str) -> None:
    """test_valid_assignment, test_group_consumption: after each join, with each strategy, complete and without overlap."""
    lab = Lab(members=5, assignor=assignor)
    for number, member in enumerate(lab.members):
        member.start()
        lab.run(20)
        lab.settled()
        assert len(lab.broker.shard.groups[GROUP].members) == number + 1
    lab.commits_hold()


def test_a_consumer_that_dies_is_replaced_after_its_session() -> None:
    """test_consumer_failure: its partitions move after the session timeout, and commits are right."""
    lab = Lab().started()
    generation = lab.broker.shard.groups[GROUP].generation
    lab.members[0].crash()
    lab.run(SESSION_MS / 1000 - 4)
    assert lab.broker.shard.groups[GROUP].generation == generation
    lab.run(15)
    assert lab.broker.shard.groups[GROUP].generation == generation + 1
    lab.settled()
    lab.commits_hold()


@pytest.mark.parametrize("clean", [True, False])
def test_consumers_bounce_one_after_the_other(clean: bool) -> None:
    """test_consumer_bounce: each stops, cleanly or not, and starts again; the rest take over in time."""
    lab = Lab().started()
    for member in lab.members:
        member.leave() if clean else member.crash()
        lab.run(5 if clean else 25)
        lab.settled()
        member.start()
        lab.run(25)
        lab.settled()
    lab.commits_hold()


def test_static_consumers_bounce_without_a_rebalance() -> None:
    """test_static_consumer_bounce_with_eager_assignment: back within the session, not one rebalance more."""
    lab = Lab(static=True).started()
    before = (lab.broker.rebalances, lab.broker.shard.groups[GROUP].generation)
    for member in lab.members:
        member.crash()
        lab.run(2)
        member.start()
        lab.run(5)
        lab.settled()
    assert (lab.broker.rebalances, lab.broker.shard.groups[GROUP].generation) == before
    lab.commits_hold()


def test_a_static_member_s_new_id_survives_a_broker_restart() -> None:
    """test_static_consumer_persisted_after_rejoin"""
    lab = Lab(static=True).started()
    lab.members[0].crash()
    lab.run(1)
    lab.members[0].start()
    lab.run(5)
    before = lab.broker.rebalances
    lab.broker.crash()
    lab.broker.start()
    lab.run(20)
    lab.settled()
    assert lab.broker.rebalances == before


@pytest.mark.parametrize("stable_first", [True, False])
def test_of_several_processes_with_one_instance_id_one_stays(stable_first: bool) -> None:
    """test_fencing_static_consumer: before or after the group is stable, exactly one of them stays."""
    lab = Lab(static=True, members=2)
    rivals = [lab.member(n, instance="i0") for n in (7, 8)]
    if stable_first:
        lab.started()
        for rival in rivals:
            rival.start()
    else:
        for member in [*lab.members, *rivals]:
            member.start()
    lab.run(60)
    named = [lab.members[0], *rivals]
    assert [m.alive for m in named].count(True) == 1
    assert all(m.failed is not None and m.failed.code == ErrorCode.FENCED_INSTANCE_ID for m in named if not m.alive)
    lab.members += rivals
    lab.settled()


def test_the_broker_dies_and_consumption_goes_on() -> None:
    """test_broker_failure: the coordinator comes back, the members stay in, no rebalance by itself."""
    lab = Lab().started()
    generation = lab.broker.shard.groups[GROUP].generation
    lab.broker.crash()
    lab.run(5)
    lab.broker.start()
    lab.run(20)
    lab.settled()
    assert lab.broker.shard.groups[GROUP].generation == generation
    lab.commits_hold()


def test_brokers_bounce_again_and_again() -> None:
    """test_broker_rolling_bounce: no more rebalances than bounces explain, positions never go back behind a commit."""
    lab = Lab(members=4).started()
    generation, bounces = lab.broker.shard.groups[GROUP].generation, 6
    for _ in range(bounces):
        lab.broker.crash()
        lab.run(3)
        lab.broker.start()
        lab.run(12)
        lab.settled()
        lab.commits_hold()
    assert lab.broker.shard.groups[GROUP].generation <= generation + bounces
