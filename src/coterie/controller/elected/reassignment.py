"""The reassignment of partitions to other brokers (KIP-455; Kafka 2.6's onPartitionReassignment).

Phase A: the partition has the replicas of both, in a new leader epoch, and the new ones catch up. Phase B, once the target's
are all in the ISR: the others leave the ISR and the leadership, in one write of the partition's state; they are stopped and
deleted; then the topic's node has the target alone. Kafka 2.6 takes them out of the ISR one by one, whatever is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.commands import (
    AlterReassignments,
    ListReassignments,
    ReassignmentsAltered,
    ReassignmentsListed,
    ReplicasStopped,
)
from coterie.controller.elected.election import narrowed, renewed
from coterie.controller.elected.session import OfficeSession
from coterie.controller.elected.topics import TopicDeletion
from coterie.controller.elected.view import with_replicas
from coterie.controller.requests import RequestBatch
from coterie.machines.script import Steps
from coterie.replication.states import PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Corrupt, NoNode, Read, Write, Znode

Target = tuple[int, ...]


class Reassignments:
    """Those in progress are in the view."""

    def __init__(self, session: OfficeSession, deletion: TopicDeletion) -> None:
        self._session, self._view, self._deletion = session, session.view, deletion
        self._stopping: dict[TopicPartition, set[int]] = {}  # brokers that have yet to delete their replica
        # The same, of a reassignment that was replaced by one in progress.
        self._leaving: dict[TopicPartition, set[int]] = {}

    def begin(self) -> Steps[None]:
        """At the start of an office: the legacy node's, and the ones that a former controller has begun."""
        begun = yield from self.legacy_changed()
        for partition in sorted(self._view.reassigning - begun):
            yield from self._advance(partition, self._view.assigned[partition])

    def alter(self, command: AlterReassignments) -> Steps[None]:
        """The latest takes precedence, over those of the legacy node as well."""
        results: dict[TopicPartition, ErrorCode] = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in command.targets.items():
            assignment = self._wanted(partition, target, may_change_factor=command.may_change_factor)
            if isinstance(assignment, ErrorCode):
                results[partition] = assignment
            else:
                wanted[partition] = assignment
        yield from self._forget(lambda partition, _: partition in wanted)
        for partition, assignment in wanted.items():
            results[partition] = yield from self._advance(partition, assignment)
        yield ReassignmentsAltered(command.token, results)

    def list(self, command: ListReassignments) -> Steps[None]:
        wanted = self._view.reassigning if command.partitions is None else set(command.partitions)
        assigned = {p: self._view.assigned[p] for p in sorted(self._view.reassigning & wanted)}
        yield ReassignmentsListed(command.token, {p: a for p, a in assigned.items() if a.is_reassigned})

    def legacy_changed(self) -> Steps[set[TopicPartition]]:
        """/admin/reassign_partitions; returns the partitions whose reassignment has begun."""
        begun: set[TopicPartition] = set()
        targets = yield from self._legacy(watch=True)
        for partition, target in targets.items():
            assignment = self._known(partition)
            if partition in self._view.reassigning and self._view.assigned[partition].target == target:
                continue  # its own removal of another partition from the node
            if isinstance(assignment, ReplicaAssignment):
                error = yield from self._advance(partition, assignment.reassigned_to(target))
                if error is ErrorCode.NONE:
                    begun.add(partition)
        in_progress = begun | self._view.reassigning
        yield from self._forget(lambda partition, _: partition in targets and partition not in in_progress)
        return begun

    def state_changed(self, partition: TopicPartition) -> Steps[None]:
        """The partition's ISR may have changed (PartitionReassignmentIsrChange)."""
        if partition not in self._view.reassigning or partition in self._stopping:
            return
        if (yield from self._is_caught_up(partition)):
            yield from self._advance(partition, self._view.assigned[partition])

    def brokers_started(self, brokers: Collection[int]) -> Steps[None]:
        """Reassignments to these go on."""
        for partition in sorted(self._view.reassigning):
            assignment = self._view.assigned[partition]
            if partition not in self._stopping and set(assignment.target) & set(brokers):
                yield from self._advance(partition, assignment)

    def brokers_failed(self, brokers: Collection[int]) -> Steps[None]:
        """These brokers have failed: their replicas are not waited for."""
        for partition in [*self._stopping, *self._leaving]:
            yield from self._deleted(partition, brokers)

    def stopped(self, response: ReplicasStopped) -> Steps[None]:
        """The response of a broker that has deleted replicas."""
        for partition, one in response.request.stopped.items():
            if one.delete:
                yield from self._deleted(partition, {response.request.broker})

    # -- what is wanted -------------------------------------------------------------------------------------------------

    def _wanted(
        self, partition: TopicPartition, target: Target | None, *, may_change_factor: bool = True
    ) -> ReplicaAssignment | ErrorCode:
        view, assignment = self._view, self._known(partition)
        if isinstance(assignment, ErrorCode):
            return assignment
        if target is None:
            is_none = not assignment.is_reassigned
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS if is_none else assignment.reassigned_to(assignment.origin)
        wanted = assignment.reassigned_to(target)
        if not target or len(set(target)) < len(target) or not all(map(view.is_online, wanted.adding)):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not may_change_factor and len(target) != len(assignment.target):
            return ErrorCode.INVALID_REPLICATION_FACTOR
        return wanted

    def _known(self, partition: TopicPartition) -> ReplicaAssignment | ErrorCode:
        if partition not in self._view.assigned or partition[0] in self._view.deleting:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._view.assigned[partition]

    # -- its course -----------------------------------------------------------------------------------------------------

    def _advance(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[ErrorCode]:
        """Begins a reassignment, or goes on with it, or completes it."""
        view = self._view
        if partition in self._stopping:
            self._leave(partition, self._stopping[partition])
            yield from self._stopped(partition, view.live)
        self._leaving.get(partition, set()).difference_update(assignment.replicas)
        before = view.assigned[partition].replicas
        unneeded = [r for r in before if r not in assignment.replicas]
        if unneeded:  # of a reassignment that this one replaces
            if not (yield from self._remove(partition, assignment, unneeded, in_sync=())):
                return ErrorCode.NOT_ENOUGH_REPLICAS
            self._leave(partition, self._stopping.get(partition, set(unneeded) & set(view.live)))
            yield from self._write(partition)
            if not assignment.is_reassigned:
                return ErrorCode.NONE
        elif view.assigned[partition] != assignment:
            if not (yield from self._write(partition, assignment)):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            view.assign(partition, assignment)
        if not assignment.is_reassigned:
            yield from self._renew(partition)
            yield from self._ended(partition)
        elif (yield from self._is_caught_up(partition)):
            completed = ReplicaAssignment(assignment.target)
            yield from self._remove(partition, completed, assignment.removing, in_sync=assignment.target)
        else:
            yield from self._renew(partition, new=() if unneeded else set(assignment.replicas) - set(before))
        return ErrorCode.NONE

    def _is_caught_up(self, partition: TopicPartition) -> Steps[bool]:
        """Whether all of the target are in the ISR; the partition's node is watched from now on."""
        yield from self._session.perform(Read(paths.partition_state(*partition), watch=True))
        state: PartitionState | None = yield from self._session.read_state(partition)
        return state is not None and set(self._view.assigned[partition].target) <= set(state.isr)

    def _renew(self, partition: TopicPartition, new: Collection[int] = ()) -> Steps[None]:
        """All replicas learn of each other in a new leader epoch. ``new``: replicas that learn of the partition at all."""
        view, batch = self._view, RequestBatch()

        def change(state: PartitionState) -> PartitionState:
            return renewed(with_replicas(state, view.assigned[partition]), self._session.epoch)

        if (yield from self._session.decide(partition, change, batch)):
            batch.decided(partition, view.states[partition], new=new)
        yield from self._session.send(batch)

    def _remove(
        self,
        partition: TopicPartition,
        assignment: ReplicaAssignment,
        removed: Collection[int],
        in_sync: Collection[int],
    ) -> Steps[bool]:
        """These leave the ISR, the assignment and their brokers; returns False, and nothing changes, where the rest does not
        suffice, or is not ``in_sync``."""
        session, view, batch = self._session, self._view, RequestBatch()
        at_least = min(view.min_insync_replicas(partition[0]), len(assignment.replicas))

        def without(state: PartitionState) -> PartitionState | None:
            state = with_replicas(state, assignment)
            live = view.live_replicas(partition)
            epoch, leaving = session.epoch, view.leaving
            return narrowed(state, live, removed, epoch, at_least=at_least, in_sync=in_sync, leaving=leaving)

        if not (yield from session.decide(partition, without, batch)):
            return False
        new = set(assignment.replicas) - set(view.assigned[partition].replicas)
        batch.decided(partition, view.states[partition], new=new)
        view.assign(partition, assignment)
        yield from session.send(batch)
        yield from session.remove_replicas([(partition, replica) for replica in removed])
        if not assignment.is_reassigned:
            self._stopping[partition] = set(removed) | self._leaving.pop(partition, set())
            yield from self._stopped(partition, set(removed) - set(view.live))
        return True

    def _stopped(self, partition: TopicPartition, brokers: Collection[int]) -> Steps[None]:
        """These are not waited for any more. The topic's node has the removed replicas until they are deleted, or their brokers
        are down: the next controller stops them again. In Kafka 2.6 the requests are lost with the controller."""
        self._stopping[partition] -= set(brokers)
        if not self._stopping[partition]:
            del self._stopping[partition]
            yield from self._write(partition)
            yield from self._ended(partition)

    def _leave(self, partition: TopicPartition, brokers: Collection[int]) -> None:
        """Their replicas go, whatever becomes of the reassignment that is now in progress."""
        self._leaving.setdefault(partition, set()).update(brokers)

    def _deleted(self, partition: TopicPartition, brokers: Collection[int]) -> Steps[None]:
        """These have no replica any more, or are down."""
        leaving = self._leaving.get(partition, set())
        if leaving & set(brokers):
            leaving -= set(brokers)
            if not leaving and partition not in self._stopping:
                yield from self._write(partition)
        if partition in self._stopping:
            yield from self._stopped(partition, brokers)

    def _write(self, partition: TopicPartition, assignment: ReplicaAssignment | None = None) -> Steps[bool]:
        """To the topic's node, the present assignment unless another one is given; False where the topic is gone."""
        wanted = assignment or self._view.assigned[partition]
        written: bool = yield from self._session.write_assignment(
            partition, wanted.with_leaving(self._leaving.get(partition, ()))
        )
        return written

    def _ended(self, partition: TopicPartition) -> Steps[None]:
        view = self._view
        view.reassigning.discard(partition)
        replicas = view.assigned[partition].replicas
        yield from self._forget(lambda other, target: (other, target) == (partition, replicas))
        yield from self._deletion.resume_for({partition[0]})

    # -- the legacy node ------------------------------------------------------------------------------------------------

    def _legacy(self, *, watch: bool = False) -> Steps[Mapping[TopicPartition, Target]]:
        node: Znode | None = yield from self._session.perform(Read(nodes.REASSIGNED, watch=watch))
        try:
            return {} if node is None else nodes.reassigned_of(node.data)
        except Corrupt:  # a tool's mistake; Kafka passes it over as well
            return {}

    def _forget(self, forgotten: Callable[[TopicPartition, Target], bool]) -> Steps[None]:
        """Removes partitions from the node, and the node when it is empty."""
        path = nodes.REASSIGNED
        while (node := (yield from self._session.perform(Read(path)))) is not None:
            targets = yield from self._legacy()
            rest = {p: target for p, target in targets.items() if not forgotten(p, target)}
            if targets and rest == targets:
                return
            try:
                if rest:
                    yield from self._session.write(Write(path, nodes.reassigned(rest), node.version))
                else:
                    yield from self._session.delete(path)
                return
            except (BadVersion, NoNode):
                continue
