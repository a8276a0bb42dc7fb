"""Who leads: Kafka's PartitionLeaderElectionAlgorithmsTest, by its names, and every small case. When a controller looks
for brokers that lead too few of their preferred partitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import pytest

from coterie.controller import nodes
from coterie.controller.elected.election import (
    after_failure,
    controlled_shutdown,
    first_state,
    narrowed,
    offline_leader,
    preferred,
)
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.machine import ControllerMachine
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import World
from coterie.replication.states import NO_LEADER, PartitionState
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, Operation, Read, Znode

REPLICAS = (2, 4)
PARTITION = ("t", 0)
STATE = paths.partition_state(*PARTITION)


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = REPLICAS) -> PartitionState:
    return PartitionState(leader, 3, isr, 1, 9, replicas)


@pytest.mark.parametrize(
    ("isr", "unclean", "leader"),
    [
        pytest.param((2, 4), False, 4, id="testOfflinePartitionLeaderElection"),
        pytest.param(
            (2,), False, NO_LEADER, id="testOfflinePartitionLeaderElectionLastIsrOfflineUncleanLeaderElectionDisabled"
        ),
        pytest.param((2,), True, 4, id="testOfflinePartitionLeaderElectionLastIsrOfflineUncleanLeaderElectionEnabled"),
    ],
)
def test_offline_partition_leader_election(isr: tuple[int, ...], unclean: bool, leader: int) -> None:
    """Replica 4 alone lives. An unclean leader is the whole ISR; else the ISR keeps its last member, dead or not."""
    assert offline_leader(REPLICAS, set(isr), {4}, unclean=unclean) == leader
    changed = after_failure(state(2, isr), {4}, 5, unclean=unclean)
    assert changed is not None
    assert (changed.leader, changed.isr) == (leader, isr if leader == NO_LEADER else (4,))


@pytest.mark.parametrize(
    ("isr", "live", "leader"),
    [
        pytest.param((2, 4), {4}, 4, id="testReassignPartitionLeaderElection"),
        pytest.param((2,), set(), NO_LEADER, id="testReassignPartitionLeaderElectionWithNoLiveIsr"),
        pytest.param((), {2}, NO_LEADER, id="testReassignPartitionLeaderElectionWithEmptyIsr"),
    ],
)
def test_reassign_partition_leader_election(isr: tuple[int, ...], live: set[int], leader: int) -> None:
    """Replica 1 leads and is removed. Where no replica of the target may lead, nothing is removed."""
    before = state(1, (1, *isr))
    changed = narrowed(before, live, {1}, 5, at_least=1)
    assert (NO_LEADER if changed is None else changed.leader) == leader
    assert changed is None or 1 not in changed.isr


@pytest.mark.parametrize(
    ("isr", "live", "leader"),
    [
        pytest.param((2, 4), {2, 4}, 2, id="testPreferredReplicaPartitionLeaderElection"),
        pytest.param((2,), set(), 4, id="testPreferredReplicaPartitionLeaderElectionPreferredReplicaInIsrNotLive"),
        pytest.param((2, 4), {4}, 4, id="preferred replica in the ISR, not live, beside one that lives"),
        pytest.param((4,), {2, 4}, 4, id="testPreferredReplicaPartitionLeaderElectionPreferredReplicaNotInIsrLive"),
        pytest.param((), set(), 4, id="testPreferredReplicaPartitionLeaderElectionPreferredReplicaNotInIsrNotLive"),
    ],
)
def test_preferred_replica_partition_leader_election(isr: tuple[int, ...], live: set[int], leader: int) -> None:
    """Where the preferred replica may not lead, the leader stays."""
    changed = preferred(state(4, isr), live, 5)
    assert (changed.leader if changed is not None else 4) == leader


@pytest.mark.parametrize(
    ("isr", "leaving", "after"),
    [
        pytest.param((2, 4), {2}, (4, (4,)), id="testControlledShutdownPartitionLeaderElection"),
        pytest.param((2,), {2}, None, id="testControlledShutdownPartitionLeaderElectionLastIsrShuttingDown"),
        pytest.param(
            (2, 4), {2, 4}, None, id="testControlledShutdownPartitionLeaderElectionAllIsrSimultaneouslyShutdown"
        ),
    ],
)
def test_controlled_shutdown_partition_leader_election(
    isr: tuple[int, ...], leaving: set[int], after: tuple[int, tuple[int, ...]] | None
) -> None:
    """Leader and ISR of the next epoch; without another member that stays, nothing changes."""
    changed = controlled_shutdown(state(2, isr), {2, 4}, leaving, 5)
    assert changed == (None if after is None else PartitionState(after[0], 4, after[1], 5, 9, REPLICAS))


def test_a_controlled_shutdown_leaves_min_insync_replicas_in_the_isr() -> None:
    changed = controlled_shutdown(state(2, (2, 4)), {2, 4}, {2}, 5, at_least=2)
    assert changed == PartitionState(4, 4, (2, 4), 5, 9, REPLICAS)


def test_a_dead_member_does_not_count_in_a_controlled_shutdown() -> None:
    """It may have lost what the broker that shuts down has on its disk (cluster seed 46244)."""
    replicas = (5, 2, 1)
    changed = controlled_shutdown(state(2, replicas, replicas), {1, 2}, {2}, 5, at_least=2)
    assert changed == PartitionState(1, 4, replicas, 5, 9, replicas)
    assert after_failure(state(1, replicas, replicas), {1}, 5, at_least=2) is None
    without_dead = controlled_shutdown(state(2, replicas, replicas), {1, 2, 5}, {2}, 5, at_least=2)
    assert without_dead == PartitionState(5, 4, (5, 1), 5, 9, replicas)


def test_new_partition_to_online_partition_transition() -> None:
    assert first_state((3, 1, 2), {1, 2}, 7) == PartitionState(1, 0, (1, 2), 7, -1, (3, 1, 2))
    assert first_state((3, 1, 2), {4}, 7) is None


def subsets(of: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(of, n) for n in range(len(of) + 1)))


def test_every_failure_of_three_replicas() -> None:
    """Whatever fails: the leader is a living member of the old ISR or none; no member is added; nothing changes in place."""
    replicas = (1, 2, 3)
    for isr in subsets(replicas)[1:]:
        for leader in (*isr, NO_LEADER):
            for live in map(set, subsets(replicas)):
                before = state(leader, isr, replicas)
                after = after_failure(before, live, 5)
                if after is None:
                    assert (leader in live and set(isr) <= live) or (leader == NO_LEADER and not live & set(isr))
                    continue
                floor = after_failure(before, live, 5, at_least=2)
                assert floor is None or (floor.leader == after.leader and len(floor.isr) >= min(2, len(isr)))
                assert floor is None or set(after.isr) <= set(floor.isr) <= set(isr)
                assert after.leader_epoch == before.leader_epoch + 1
                assert set(after.isr) <= set(isr)
                assert after.isr
                assert after.leader in live & set(isr) or (after.leader == NO_LEADER and not live & set(isr))
                assert after.leader == leader or leader not in live, "a leader that lives stays"
                assert set(after.isr) <= live or after.isr == isr
                assert after_failure(after, live, 5) is None


def test_a_replica_that_is_no_longer_assigned_holds_no_isr_together() -> None:
    """A controller that ended between the two steps of a completed reassignment leaves 9 in the ISR: it can never lead."""
    before = state(2, (2, 9))
    assert after_failure(before, {4, 9}, 5) == replace(before, leader=NO_LEADER, leader_epoch=4, controller_epoch=5)
    leaving = controlled_shutdown(state(2, (2, 4, 9)), {2, 4, 9}, {2}, 5, at_least=2)
    assert leaving is not None
    assert (leaving.leader, leaving.isr) == (4, (2, 4, 9)), "2 stays, as 9 does not count"


def test_changes_without_an_end_do_not_delay_the_rebalance() -> None:
    """Another change comes with each operation, 10 ms apart; the rebalance is due 5 s after the election."""
    server = ZooKeeperServer(World(1))
    session = server.connect(10**9, lambda path: None)
    server.apply(session, Create(paths.broker(2), nodes.broker("b2", 9092, None, 0)))
    server.apply(session, Create(paths.topic("t"), nodes.topic({0: (2, 1)}), ephemeral=False))
    state = PartitionState(1, 0, (1, 2), 0, 0, (2, 1))
    server.apply(session, Create(STATE, nodes.state(state), ephemeral=False))
    machine = ControllerMachine(ControllerConfig(1, nodes.broker("b1", 9092, None, 0)), 0)

    def leader() -> int:
        node = server.apply(session, Read(STATE))
        assert isinstance(node, Znode)
        return nodes.state_of(node, (2, 1)).leader

    for step in range(700):
        effect = machine.next(10 * step)
        result = server.apply(session, effect) if isinstance(effect, Operation) else None
        machine.respond(result)
        machine.changed(nodes.ISR_CHANGES)
        if step == 490:
            assert leader() == 1
    assert leader() == 2
