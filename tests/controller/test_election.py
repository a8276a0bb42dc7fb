"""Who leads: Kafka's PartitionLeaderElectionAlgorithmsTest, by its names, and every small case."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from coterie.controller.election import after_failure, controlled_shutdown, first_state, offline_leader, preferred
from coterie.replication.states import NO_LEADER, PartitionState

REPLICAS = (2, 4)


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = REPLICAS) -> PartitionState:
    return PartitionState(leader, 3, isr, 1, 9, replicas)


def test_offline_partition_leader_election() -> None:
    assert offline_leader(REPLICAS, {2, 4}, {4}, unclean=False) == 4


def test_offline_partition_leader_election_last_isr_offline_unclean_leader_election_disabled() -> None:
    assert offline_leader(REPLICAS, {2}, {4}, unclean=False) == NO_LEADER


def test_offline_partition_leader_election_last_isr_offline_unclean_leader_election_enabled() -> None:
    assert offline_leader(REPLICAS, {2}, {4}, unclean=True) == 4
    changed = after_failure(state(2, (2,)), {4}, 5, unclean=True)
    assert changed is not None
    assert (changed.leader, changed.isr) == (4, (4,))


@pytest.mark.parametrize(
    ("isr", "live", "leader"),
    [((2, 4), {2, 4}, 2), ((2, 4), {4}, 4), ((4,), {2, 4}, 4), ((), set[int](), 4)],
)
def test_preferred_replica_partition_leader_election(isr: tuple[int, ...], live: set[int], leader: int) -> None:
    """...PreferredReplicaInIsrNotLive, ...NotInIsrLive, ...NotInIsrNotLive: then the leader stays"""
    changed = preferred(state(4, isr), live, 5)
    assert (changed.leader if changed is not None else 4) == leader


def test_controlled_shutdown_partition_leader_election() -> None:
    changed = controlled_shutdown(state(2, (2, 4)), {2, 4}, {2}, 5)
    assert changed == PartitionState(4, 4, (4,), 5, 9, REPLICAS)


def test_controlled_shutdown_partition_leader_election_last_isr_shutting_down() -> None:
    assert controlled_shutdown(state(2, (2,)), {2, 4}, {2}, 5) is None


def test_controlled_shutdown_partition_leader_election_all_isr_simultaneously_shutdown() -> None:
    assert controlled_shutdown(state(2, (2, 4)), {2, 4}, {2, 4}, 5) is None


def test_a_controlled_shutdown_leaves_min_insync_replicas_in_the_isr() -> None:
    changed = controlled_shutdown(state(2, (2, 4)), {2, 4}, {2}, 5, at_least=2)
    assert changed == PartitionState(4, 4, (2, 4), 5, 9, REPLICAS)


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
