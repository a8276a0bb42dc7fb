"""What an elected controller does: it reads the cluster, and answers each change with new leaders and requests to brokers.

It ends with `Moved` when another controller was elected: each of its writes names the version of /controller_epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from coterie.controller import nodes
from coterie.controller.config import ControllerConfig
from coterie.controller.election import NEW_VERSION, after_failure, controlled_shutdown, first_state
from coterie.controller.requests import (
    LeaderAndIsr,
    Request,
    RequestBatch,
    ShutdownAllowed,
    StopReplica,
    UpdateMetadata,
)
from coterie.replication.states import PartitionState, TopicPartition
from coterie.script import Steps
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

_Change = Callable[[PartitionState], PartitionState | None]


class Candidate(Protocol):
    """What an office uses of its `ControllerMachine`."""

    config: ControllerConfig
    events: deque[str | int]

    def ask(self, operation: Operation) -> Steps[Any]: ...

    def wait(self, until_ms: int | None) -> Steps[None]: ...


class Moved(Exception):
    """Another broker is the controller now."""


class Office:
    """``live``: brokers and their epochs; ``states``: the partitions that have one, of those in ``assigned``."""

    def __init__(self, machine: Candidate, epoch: int, epoch_version: int) -> None:
        self._machine, self.epoch, self._epoch_version = machine, epoch, epoch_version
        self.broker_id = machine.config.broker_id
        self.live: dict[int, int] = {}
        self.registrations: dict[int, str] = {}
        self.leaving: set[int] = set()
        self.assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self.states: dict[TopicPartition, PartitionState] = {}

    def run(self) -> Steps[None]:
        """Raises Moved, SessionExpired."""
        yield from self._begin()
        events = self._machine.events
        while True:
            while not events:
                yield from self._machine.wait(None)
            event = events.popleft()
            if isinstance(event, int):
                yield from self._shut_down(event)
            elif event == nodes.CONTROLLER:
                yield from self._check_office()
            elif event == paths.BROKERS or event.startswith(f"{paths.BROKERS}/"):
                yield from self._brokers_changed()
            elif event == nodes.ISR_CHANGES:
                yield from self._isr_changed()
            elif event.startswith(paths.TOPICS):
                yield from self._topics_changed()

    def _check_office(self) -> Steps[None]:
        node: Znode | None = yield from self._ask(Read(nodes.CONTROLLER, watch=True))
        if node is None or not node.mine:
            raise Moved

    # -- taking office --------------------------------------------------------------------------------------------------

    def _begin(self) -> Steps[None]:
        """Watches first, so that no change is missed; then everything is read, and everybody gets everything."""
        yield from self._check_office()
        for name in (yield from self._ask(List(nodes.ISR_CHANGES, watch=True))):
            yield from self._delete(f"{nodes.ISR_CHANGES}/{name}")
        self.live = yield from self._read_brokers()
        yield from self._read_topics()
        batch = RequestBatch()
        for partition, state in self.states.items():
            batch.decided(partition, state)
        yield from self._send(batch, everybody=True)
        yield from self._elect()

    def _elect(self, *, everybody: bool = False) -> Steps[None]:
        """Every partition gets the leader and the ISR that the living brokers allow, new partitions their first state."""
        batch = RequestBatch()
        for partition in list(self.states):
            yield from self._decide(partition, self._after_failure, batch)
        yield from self._create_states(batch)
        yield from self._send(batch, everybody=everybody)

    def _read_brokers(self) -> Steps[dict[int, int]]:
        live: dict[int, int] = {}
        for name in (yield from self._ask(List(paths.BROKERS, watch=True))):
            node: Znode | None = yield from self._ask(Read(f"{paths.BROKERS}/{name}", watch=True))
            if node is not None:
                live[int(name)] = node.created
                self.registrations[int(name)] = node.data
        return live

    def _read_topics(self) -> Steps[None]:
        """Topics and partitions that are new to this controller, with their states."""
        for name in (yield from self._ask(List(paths.TOPICS, watch=True))):
            node: Znode | None = yield from self._ask(Read(paths.topic(name), watch=True))
            if node is None:
                continue
            for number, replicas in sorted(nodes.replicas_of(node.data).items()):
                if (name, number) not in self.assigned:
                    self.assigned[name, number] = replicas
                    yield from self._read_state((name, number))

    def _read_state(self, partition: TopicPartition) -> Steps[PartitionState | None]:
        node: Znode | None = yield from self._ask(Read(paths.partition_state(*partition)))
        if node is None:
            return None
        state = nodes.state_of(node, self.assigned[partition])
        if state.controller_epoch > self.epoch:
            raise Moved
        self.states[partition] = state
        return state

    # -- changes --------------------------------------------------------------------------------------------------------

    def _brokers_changed(self) -> Steps[None]:
        """A broker that came back between two looks has another epoch: it failed, and is new."""
        now = yield from self._read_brokers()
        bounced = {b for b in now if b in self.live and self.live[b] != now[b]}
        new = {b: epoch for b, epoch in now.items() if b not in self.live or b in bounced}
        failed = {b for b in self.live if b not in now} | bounced
        if failed:
            self.leaving -= failed
            self.live = {b: epoch for b, epoch in self.live.items() if b not in failed}
            yield from self._elect(everybody=True)
        if new:
            yield from self._brokers_started(new)

    def _brokers_started(self, new: dict[int, int]) -> Steps[None]:
        self.live = {**self.live, **new}
        batch = RequestBatch(metadata=dict(self.states))
        for partition, state in self.states.items():
            for broker in new:
                if broker in state.replicas:
                    batch.states.setdefault(broker, {})[partition] = state
        yield from self._send(batch, everybody=True)
        yield from self._elect()

    def _topics_changed(self) -> Steps[None]:
        yield from self._read_topics()
        batch = RequestBatch()
        yield from self._create_states(batch)
        yield from self._send(batch)

    def _isr_changed(self) -> Steps[None]:
        """Leaders have changed ISRs: everybody's metadata follows."""
        batch = RequestBatch()
        for name in (yield from self._ask(List(nodes.ISR_CHANGES, watch=True))):
            path = f"{nodes.ISR_CHANGES}/{name}"
            node: Znode | None = yield from self._ask(Read(path))
            for partition in [] if node is None else nodes.isr_change_of(node.data):
                state = (yield from self._read_state(partition)) if partition in self.assigned else None
                if state is not None:
                    batch.metadata[partition] = state
            yield from self._delete(path)
        yield from self._send(batch)

    def _shut_down(self, broker: int) -> Steps[None]:
        """KafkaController.doControlledShutdown: its partitions get other leaders, and its followers stop."""
        self.leaving.add(broker)
        batch = RequestBatch()
        for partition in [p for p, s in self.states.items() if broker in s.replicas and len(s.replicas) > 1]:
            yield from self._decide(partition, self._controlled_shutdown, batch)
            state = self.states[partition]
            if broker not in (state.leader, *state.isr):
                batch.stop(broker, partition, state.leader_epoch)
        yield from self._send(batch)
        left = [p for p, s in self.states.items() if s.leader == broker and len(s.replicas) > 1]
        yield ShutdownAllowed(broker, tuple(left))

    # -- decisions ------------------------------------------------------------------------------------------------------

    def _after_failure(self, state: PartitionState) -> PartitionState | None:
        config = self._machine.config
        unclean, at_least = config.unclean_leader_election_enable, config.min_insync_replicas
        return after_failure(state, self.live, self.epoch, at_least=at_least, unclean=unclean)

    def _controlled_shutdown(self, state: PartitionState) -> PartitionState | None:
        at_least = self._machine.config.min_insync_replicas
        return controlled_shutdown(state, self.live, self.leaving, self.epoch, at_least=at_least)

    def _decide(self, partition: TopicPartition, change: _Change, batch: RequestBatch) -> Steps[None]:
        """Writes the partition's next state, if there is one. Where the leader has written the ISR meanwhile, the decision
        is made anew from what it has written."""
        while (state := change(self.states[partition])) is not None:
            path = paths.partition_state(*partition)
            try:
                yield from self._write(Write(path, nodes.state(state), state.version))
            except BadVersion:
                before = self.states[partition]
                node: Znode | None = yield from self._ask(Read(path))
                if node is not None and node.data == nodes.state(state) and node.version == before.version + 1:
                    pass  # its own write, whose answer was lost
                else:
                    yield from self._read_state(partition)
                    continue
            self.states[partition] = replace(state, version=state.version + 1)
            batch.decided(partition, self.states[partition])

    def _create_states(self, batch: RequestBatch) -> Steps[None]:
        """Of the partitions that have none yet."""
        for partition, replicas in self.assigned.items():
            if partition in self.states or (state := first_state(replicas, self.live, self.epoch)) is None:
                continue
            path = paths.partition_state(*partition)
            yield from self._make_parents(path)
            try:
                yield from self._write(Create(path, nodes.state(state), ephemeral=False))
                self.states[partition] = replace(state, version=NEW_VERSION + 1)
            except NodeExists:
                yield from self._read_state(partition)
            batch.decided(partition, self.states[partition])

    def _make_parents(self, path: str) -> Steps[None]:
        for parent in (path.rpartition("/")[0].rpartition("/")[0], path.rpartition("/")[0]):
            with suppress(NodeExists):
                yield from self._ask(Create(parent, "", ephemeral=False))

    # -- ZooKeeper and brokers ------------------------------------------------------------------------------------------

    def _ask(self, operation: Any) -> Steps[Any]:
        return (yield from self._machine.ask(operation))

    def _write(self, operation: Create | Write | Delete) -> Steps[None]:
        """With the check that this controller is still the one in office. Raises Moved, and what ZooKeeper refuses with."""
        try:
            yield from self._ask(Multi((CheckVersion(nodes.CONTROLLER_EPOCH, self._epoch_version), operation)))
        except MultiRefused as refused:
            if refused.index == 0:
                raise Moved from refused
            raise refused.error from refused

    def _delete(self, path: str) -> Steps[None]:
        with suppress(NoNode):
            yield from self._write(Delete(path))

    def _send(self, batch: RequestBatch, *, everybody: bool = False) -> Steps[None]:
        """LeaderAndIsr before UpdateMetadata. ``everybody``: the brokers have changed, and all hear of it."""
        for broker, epoch in self.live.items():
            sender = (broker, epoch, self.broker_id, self.epoch)
            requests: list[Request] = []
            if broker in batch.states:
                states = batch.states[broker]
                leaders = {s.leader: self.registrations[s.leader] for s in states.values() if s.leader in self.live}
                requests.append(LeaderAndIsr(*sender, states, frozenset(batch.new.get(broker, ())), leaders))
            if batch.metadata or everybody:
                requests.append(UpdateMetadata(*sender, self._live_registrations(), dict(batch.metadata)))
            if broker in batch.stopped:
                requests.append(StopReplica(*sender, batch.stopped[broker]))
            yield from requests

    def _live_registrations(self) -> dict[int, str]:
        return {broker: self.registrations[broker] for broker in sorted(self.live)}
