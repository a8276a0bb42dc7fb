"""Who leads a partition (Kafka's PartitionLeaderElectionAlgorithms and ReplicaStateMachine).

Each function returns the partition's next state, in the next leader epoch, or None where nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import replace

from coterie.replication.states import NO_LEADER, PartitionState

NEW_VERSION = -1  # of a node that does not exist yet


def first_state(replicas: Sequence[int], online: Container[int], controller_epoch: int) -> PartitionState | None:
    """A new partition: its online replicas are the ISR, the first of them leads. None while none is online."""
    isr = tuple(r for r in replicas if r in online)
    return PartitionState(isr[0], 0, isr, controller_epoch, NEW_VERSION, tuple(replicas)) if isr else None


def offline_leader(replicas: Sequence[int], isr: Container[int], live: Container[int], *, unclean: bool) -> int:
    """The first replica, in the order of the assignment, that is in the ISR and lives; with unclean election any that lives
    where there is none."""
    clean = next((r for r in replicas if r in live and r in isr), NO_LEADER)
    return next((r for r in replicas if r in live), NO_LEADER) if clean == NO_LEADER and unclean else clean


def _shutdowns_last(replicas: Sequence[int], leaving: Container[int]) -> list[int]:
    """In the order of the assignment, but for brokers that shut down."""
    return sorted(replicas, key=lambda replica: replica in leaving)


def after_failure(
    state: PartitionState,
    live: Container[int],
    controller_epoch: int,
    *,
    leaving: Container[int] = (),
    at_least: int = 1,
    unclean: bool = False,
) -> PartitionState | None:
    """A living member of the ISR leads, one that shuts down only where there is no other (in Kafka 2.6 none leads then). Dead
    replicas leave the ISR where at least ``at_least`` are left. Else all stay: each has all that was acknowledged, the dead
    ones too, unless its machine lost power, which the controller does not know."""
    living = {r for r in state.within_assignment().isr if r in live}
    leader = state.leader
    if leader not in living:
        leader = offline_leader(_shutdowns_last(state.replicas, leaving), living, live, unclean=unclean)
    unclean_isr = (leader,) if leader != NO_LEADER and leader not in living else None
    isr = tuple(r for r in state.isr if r in living) if len(living) >= max(at_least, 1) else state.isr
    return _changed(state, leader, unclean_isr or isr, controller_epoch)


def controlled_shutdown(
    state: PartitionState, live: Container[int], leaving: Container[int], controller_epoch: int, *, at_least: int = 1
) -> PartitionState | None:
    """Brokers that shut down give up their partitions while others of the ISR live; None as well where there is no other. They
    stay in the ISR where fewer than ``at_least`` others of it live."""
    staying = {r for r in state.within_assignment().isr if r not in leaving}
    leader = state.leader
    if leader in leaving:
        leader = next((r for r in state.replicas if r in staying and r in live), NO_LEADER)
    if leader == NO_LEADER or not staying:
        return None
    is_enough = sum(r in live for r in staying) >= at_least
    isr = tuple(r for r in state.isr if r in staying) if is_enough else state.isr
    return _changed(state, leader, isr, controller_epoch)


def narrowed(
    state: PartitionState,
    live: Container[int],
    removed: Container[int],
    controller_epoch: int,
    *,
    at_least: int,
    in_sync: Collection[int] = (),
    leaving: Container[int] = (),
) -> PartitionState | None:
    """Replicas are removed, and a living member of the ISR leads, one that shuts down only where there is no other. None where
    ``in_sync`` are not all in the ISR, or where the ISR loses members and fewer than ``at_least`` are left, or none that
    lives."""
    isr = tuple(r for r in state.isr if r not in removed)
    leader = state.leader
    if leader in removed or leader not in live:
        leader = next((r for r in _shutdowns_last(state.replicas, leaving) if r in isr and r in live), NO_LEADER)
    is_enough = isr == state.isr or (leader != NO_LEADER and len(isr) >= at_least)
    if not is_enough or not set(in_sync) <= set(isr):
        return None
    return renewed(replace(state, leader=leader, isr=isr), controller_epoch)


def renewed(state: PartitionState, controller_epoch: int) -> PartitionState:
    """The same in the next leader epoch."""
    return replace(state, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch)


def preferred(state: PartitionState, live: Container[int], controller_epoch: int) -> PartitionState | None:
    """The first of the assignment leads again, if it is in the ISR and lives."""
    first = state.replicas[0]
    leader = first if first in live and first in state.isr else state.leader
    return _changed(state, leader, state.isr, controller_epoch)


def _changed(state: PartitionState, leader: int, isr: tuple[int, ...], controller_epoch: int) -> PartitionState | None:
    if (leader, isr) == (state.leader, state.isr):
        return None
    return renewed(replace(state, leader=leader, isr=isr), controller_epoch)
