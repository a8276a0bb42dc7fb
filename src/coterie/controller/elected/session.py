"""The means of an elected controller: its view of the cluster, writes that are refused once it is replaced, and requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.commands import Command
from coterie.controller.elected.election import NEW_VERSION, first_state
from coterie.controller.elected.view import ControllerConfig, ControllerView, Replica, with_replicas
from coterie.controller.requests import LeaderAndIsr, Offline, Request, RequestBatch, StopReplica, UpdateMetadata
from coterie.machines.script import Steps
from coterie.replication.states import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    PartitionState,
    TopicPartition,
)
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    BadVersion,
    CheckVersion,
    Create,
    Delete,
    List,
    Multi,
    MultiRefused,
    NodeExists,
    NoNode,
    Operation,
    Read,
    Write,
    Znode,
)

Change = Callable[[PartitionState], PartitionState | None]


class Candidate(Protocol):
    """What an office uses of its `ControllerMachine`."""

    config: ControllerConfig
    now_ms: int
    events: deque[str | Command]

    def perform(self, operation: Operation) -> Steps[Any]: ...

    def wait(self, until_ms: int | None) -> Steps[None]: ...


class Moved(Exception):
    """Another broker is the controller now."""


class OfficeSession:
    """Each write names the version of /controller_epoch. Its steps raise Moved and SessionExpired."""

    def __init__(self, machine: Candidate, epoch: int, epoch_version: int) -> None:
        self.machine, self.epoch, self._epoch_version = machine, epoch, epoch_version
        self.view = ControllerView(machine.config)

    # -- ZooKeeper ------------------------------------------------------------------------------------------------------

    def perform(self, operation: Operation) -> Steps[Any]:
        return (yield from self.machine.perform(operation))

    def write(self, *operations: Create | Write | Delete) -> Steps[None]:
        """All of them or none, with the check that this controller is still the one in office. Raises Moved, and the error
        with which ZooKeeper refuses."""
        try:
            yield from self.perform(Multi((CheckVersion(nodes.CONTROLLER_EPOCH, self._epoch_version), *operations)))
        except MultiRefused as refused:
            if refused.index == 0:
                raise Moved from refused
            raise refused.error from refused

    def delete(self, path: str) -> Steps[None]:
        with suppress(NoNode):
            yield from self.write(Delete(path))

    def delete_below(self, path: str) -> Steps[None]:
        """All nodes below that one, the deepest first."""
        for name in (yield from self.perform(List(path))):
            yield from self.delete_below(f"{path}/{name}")
            yield from self.delete(f"{path}/{name}")

    # -- the states of partitions ---------------------------------------------------------------------------------------

    def read_state(self, partition: TopicPartition) -> Steps[PartitionState | None]:
        """Raises Moved where a later controller has written it."""
        node: Znode | None = yield from self.perform(Read(paths.partition_state(*partition)))
        if node is None:
            self.view.states.pop(partition, None)
            return None
        assignment = self.view.assigned[partition]
        state = with_replicas(nodes.state_of(node, assignment.replicas), assignment)
        if state.controller_epoch > self.epoch:
            raise Moved
        self.view.states[partition] = state
        return state

    def decide(self, partition: TopicPartition, change: Change, batch: RequestBatch) -> Steps[bool]:
        """Writes the partition's next state, if there is one; returns whether there was. Where the leader has written the ISR
        meanwhile, the decision is made again from what it has written. Where the node has the decided leader epoch, it was this
        write, whose response was lost; a broker that lost power may have left the ISR since."""
        states = self.view.states
        while partition in states and (state := change(states[partition])) is not None:
            _check_next(states[partition], state)
            path = paths.partition_state(*partition)
            try:
                yield from self.write(Write(path, nodes.state(state), state.version))
            except (BadVersion, NoNode):
                held = yield from self.read_state(partition)
                if held is None or held.leader_epoch != state.leader_epoch:
                    continue
                states[partition] = replace(state, leader=held.leader, isr=held.isr, version=held.version)
            else:
                states[partition] = replace(state, version=state.version + 1)
            lost = [r for r in states[partition].replicas if self.view.is_in_offline_dir(r, partition)]
            batch.decided(partition, states[partition], lost=lost)
            return True
        return False

    def create_states(self, batch: RequestBatch) -> Steps[None]:
        """Writes the states of the partitions that have none yet."""
        view = self.view
        for partition, assignment in list(view.assigned.items()):
            if partition in view.states or not view.needs_leaders(partition[0]):
                continue
            state = first_state(assignment.replicas, view.online_replicas(partition), self.epoch)
            if state is not None:
                yield from self._create_state(partition, with_replicas(state, assignment), batch)

    def _create_state(self, partition: TopicPartition, state: PartitionState, batch: RequestBatch) -> Steps[None]:
        path, states = paths.partition_state(*partition), self.view.states
        try:
            yield from self._make_parents(path)
            yield from self.write(Create(path, nodes.state(state), ephemeral=False))
            states[partition] = replace(state, version=NEW_VERSION + 1)
        except NoNode:
            return  # the topic is gone
        except NodeExists:
            if (yield from self.read_state(partition)) is None:
                return
        written = states[partition]
        is_new = (written.leader_epoch, written.isr) == (state.leader_epoch, state.isr)
        leaving = [r for r in written.replicas if r in self.view.leaving]  # roles come with the next start
        batch.decided(partition, written, new=written.replicas if is_new else (), lost=leaving if is_new else ())

    def _make_parents(self, path: str) -> Steps[None]:
        """Raises NoNode where there is no such topic."""
        for parent in (path.rpartition("/")[0].rpartition("/")[0], path.rpartition("/")[0]):
            with suppress(NodeExists):
                yield from self.write(Create(parent, "", ephemeral=False))

    def write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[bool]:
        """Into the topic's node, beside what others have written there; returns whether there is such a node."""
        topic, number = partition
        path = paths.topic(topic)
        while (node := (yield from self.perform(Read(path)))) is not None:
            assignments = {**nodes.assignments_of(node.data), number: assignment}
            data = nodes.assignments(assignments, nodes.topic_id_of(node.data))
            if data == node.data:
                return True
            with suppress(BadVersion, NoNode):
                yield from self.write(Write(path, data, node.version))
                return True
        return False

    # -- requests -------------------------------------------------------------------------------------------------------

    def stop(self, batch: RequestBatch, replicas: Iterable[Replica], *, delete: bool) -> None:
        """StopReplica for these; not sent to brokers that are not live."""
        for partition, broker in replicas:
            state = self.view.states.get(partition)
            epoch = NO_EPOCH if state is None else state.leader_epoch
            batch.stop(
                broker,
                partition,
                EPOCH_DURING_DELETE if partition[0] in self.view.deleting else epoch,
                delete=delete,
            )

    def remove_replicas(self, replicas: Collection[Replica]) -> Steps[None]:
        """They stop, and then their logs are removed."""
        for delete in (False, True):
            batch = RequestBatch()
            self.stop(batch, replicas, delete=delete)
            yield from self.send(batch)

    def send(self, batch: RequestBatch) -> Steps[None]:
        """LeaderAndIsr before UpdateMetadata before StopReplica, to live brokers."""
        view = self.view
        metadata = self._metadata(batch.metadata)
        offline = self._offline(metadata)
        for broker in view.live:
            requests: list[Request] = []
            if broker in batch.states:
                states = batch.states[broker]
                leaders = {s.leader: view.registrations[s.leader] for s in states.values() if s.leader in view.live}
                new = frozenset(batch.new.get(broker, ()))
                requests.append(LeaderAndIsr(*self._sender(broker), states, new, leaders))
            if metadata:
                requests.append(self._update(broker, metadata, offline))
            if broker in batch.stopped:
                requests.append(StopReplica(*self._sender(broker), batch.stopped[broker]))
            yield from requests

    def send_brokers(self, new: Collection[int] = ()) -> Steps[None]:
        """The brokers of the cluster have changed: UpdateMetadata to all, to ``new`` ones with all partitions."""
        states = self._metadata(self.view.states)
        offline = self._offline(states) if new else {}
        for broker in self.view.live:
            yield self._update(broker, states, offline) if broker in new else self._update(broker, {}, {})

    def _update(self, broker: int, states: Mapping[TopicPartition, PartitionState], offline: Offline) -> UpdateMetadata:
        live = {b: self.view.registrations[b] for b in sorted(self.view.live)}
        return UpdateMetadata(*self._sender(broker), live, states, offline)

    def _offline(self, states: Mapping[TopicPartition, PartitionState]) -> Offline:
        """The offline replicas of the partitions that have some. A broker that shuts down counts, as in Kafka."""
        online = self.view.is_replica_online
        offline = {p: tuple(r for r in state.replicas if not online(r, p)) for p, state in states.items()}
        return {partition: replicas for partition, replicas in offline.items() if replicas}

    def _sender(self, broker: int) -> tuple[int, int, int, int]:
        return broker, self.view.live[broker], self.machine.config.broker_id, self.epoch

    def _metadata(self, states: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, PartitionState]:
        """Partitions of a topic that is deleted go from the brokers' metadata, and their logs with them: not before the end of
        a reassignment that the deletion waits for, which needs them. Kafka 2.6 removes the metadata at once."""
        return {
            partition: state if self.view.needs_leaders(partition[0]) else replace(state, leader=LEADER_DURING_DELETE)
            for partition, state in states.items()
        }


def _check_next(before: PartitionState, state: PartitionState) -> None:
    """What brokers rely on, and the checker of the stories watches from outside: an epoch has one leader, which has all that
    was acknowledged. What ZooKeeper held before may be another controller's."""
    assert state.leader_epoch == before.leader_epoch + 1, "each state has a leader epoch of its own"
    assert state.isr, "a partition without an ISR has lost its records"
    assert state.leader in (NO_LEADER, before.leader, *state.isr), "a new leader is in the ISR"
