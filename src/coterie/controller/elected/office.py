"""What an elected controller does: it reads the cluster, and responds to each change with new leaders and requests to brokers.

It ends with `Moved` when another controller was elected: each of its writes names the version of /controller_epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from coterie.controller import nodes
from coterie.controller.commands import (
    AlterReassignments,
    Command,
    DefaultsConfigured,
    ElectLeaders,
    ListReassignments,
    ReplicasStopped,
    RolesAssumed,
    ShutDown,
    TopicConfigured,
)
from coterie.controller.elected import election
from coterie.controller.elected.leader_changes import LeaderElections
from coterie.controller.elected.reassignment import Reassignments
from coterie.controller.elected.session import Candidate, Moved, OfficeSession
from coterie.controller.elected.topics import TopicChanges, TopicDeletion
from coterie.controller.requests import RequestBatch, ShutdownAllowed
from coterie.machines.script import Steps
from coterie.replication.states import PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Corrupt, List, Read, Znode

REBALANCED_FIRST_MS = 5_000  # auto.leader.rebalance.enable, after the election


class ActiveController:
    """``view``: the cluster as this controller knows it. Kafka's KafkaController, but for its elections, topics, deletions and
    reassignments, which are rooms of their own."""

    def __init__(self, machine: Candidate, epoch: int, epoch_version: int) -> None:
        self._machine, self.epoch = machine, epoch
        self._session = OfficeSession(machine, epoch, epoch_version)
        self.view = self._session.view
        self._topics = TopicChanges(self._session)
        self._elections = LeaderElections(self._session)
        self._deletion = TopicDeletion(self._session)
        self._reassignments = Reassignments(self._session, self._deletion)

    def run(self) -> Steps[None]:
        """Raises Moved, SessionExpired."""
        yield from self._begin()
        machine, config = self._machine, self._machine.config
        rebalanced_ms = machine.now_ms + REBALANCED_FIRST_MS if config.auto_leader_rebalance_enable else None
        while True:
            if rebalanced_ms is not None and machine.now_ms >= rebalanced_ms:
                yield from self._elections.rebalance()
                rebalanced_ms = machine.now_ms + 1_000 * config.leader_imbalance_check_interval_seconds
            elif machine.events:
                event = machine.events[0]
                yield from self._changed(event) if isinstance(event, str) else self._commanded(event)
                machine.events.popleft()
            else:
                yield from machine.wait(rebalanced_ms)

    def _changed(self, path: str) -> Steps[None]:
        """A watch fired."""
        parts = path.removeprefix(f"{paths.TOPICS}/").split("/")
        if path == nodes.CONTROLLER:
            yield from self._check_office()
        elif path == paths.BROKERS or path.startswith(f"{paths.BROKERS}/"):
            yield from self._brokers_changed()
        elif path == nodes.ISR_CHANGES:
            yield from self._isr_changed()
        elif path == nodes.LOG_DIR_EVENTS:
            yield from self._log_dirs_failed()
        elif path == nodes.DELETED_TOPICS:
            yield from self._deletion.changed()
        elif path == nodes.REASSIGNED:
            yield from self._reassignments.legacy_changed()
        elif path == nodes.PREFERRED_ELECTION:
            yield from self._elections.legacy_requested()
        elif path == paths.TOPICS:
            yield from self._topics.changed()
        elif path.startswith(paths.TOPICS) and len(parts) == 1:
            yield from self._topics.changed(parts[0])
        elif path.startswith(paths.TOPICS) and parts[-1] == "state":
            yield from self._reassignments.state_changed((parts[0], int(parts[2])))

    def _commanded(self, command: Command) -> Steps[None]:
        match command:
            case ShutDown():
                yield from self._shut_down(command)
            case ReplicasStopped():
                if command.request.controller_epoch == self.epoch:
                    yield from self._reassignments.stopped(command)
                    yield from self._deletion.stopped(command)
            case RolesAssumed():
                if command.request.controller_epoch == self.epoch:
                    yield from self._roles_assumed(command)
            case ElectLeaders():
                yield from self._elections.elect(command)
            case AlterReassignments():
                yield from self._reassignments.alter(command)
            case ListReassignments():
                yield from self._reassignments.list(command)
            case TopicConfigured(topic):
                if topic in self.view.topics:
                    yield from self._topics.read_config(topic)
                    yield from self._elections.topic_configured(topic)
            case DefaultsConfigured():
                yield from self._defaults_configured()

    def _defaults_configured(self) -> Steps[None]:
        """Kafka's processUncleanLeaderElectionEnable, where it was not enabled before."""
        before, self.view.config = self.view.config, self._machine.config
        if self.view.config.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            yield from self._elections.after_failures()

    def _check_office(self) -> Steps[None]:
        node: Znode | None = yield from self._session.perform(Read(nodes.CONTROLLER, watch=True))
        if node is None or not node.mine:
            raise Moved

    # -- taking office --------------------------------------------------------------------------------------------------

    def _begin(self) -> Steps[None]:
        """Watches first, so that no change is missed; then everything is read, and everybody gets everything: brokers first,
        then roles, then new leaders."""
        session, view = self._session, self.view
        yield from self._check_office()
        for path in (nodes.LOG_DIR_EVENTS, nodes.ISR_CHANGES):  # all is read, and every broker responds, anyway
            for name in (yield from session.perform(List(path, watch=True))):
                yield from session.delete(f"{path}/{name}")
        view.live = yield from self._read_brokers()
        yield from self._topics.read()
        yield from self._deletion.changed(is_start=True)
        yield from session.send_brokers()
        batch = RequestBatch()
        for partition, state in view.states.items():
            batch.decided(partition, state)
        yield from session.send(batch)
        yield from self._elections.after_failures()
        yield from self._reassignments.begin()
        yield from self._deletion.resume()
        yield from self._elections.legacy_requested()

    def _read_brokers(self) -> Steps[dict[int, int]]:
        """The registrations into the view; returns the brokers and their epochs."""
        live: dict[int, int] = {}
        for name in (yield from self._session.perform(List(paths.BROKERS, watch=True))):
            node: Znode | None = yield from self._session.perform(Read(f"{paths.BROKERS}/{name}", watch=True))
            if node is not None:
                live[int(name)] = node.created
                self.view.registrations[int(name)] = node.data
        return live

    # -- changes --------------------------------------------------------------------------------------------------------

    def _brokers_changed(self) -> Steps[None]:
        """A broker that came back between two looks has another epoch: it failed, and is new."""
        view, before = self.view, dict(self.view.registrations)
        live = yield from self._read_brokers()
        bounced = {b for b in live if b in view.live and view.live[b] != live[b]}
        new = {b: epoch for b, epoch in live.items() if b not in view.live or b in bounced}
        failed = {b for b in view.live if b not in live} | bounced
        if failed:
            view.leaving -= failed
            view.live = {b: epoch for b, epoch in view.live.items() if b not in failed}
            view.offline_dirs = {b: partitions for b, partitions in view.offline_dirs.items() if b not in failed}
            yield from self._session.send_brokers()
            yield from self._elections.after_failures(view.replicas_on(failed))
            yield from self._reassignments.brokers_failed(failed)
            yield from self._deletion.brokers_failed(failed)
        if new:
            yield from self._brokers_started(new)
        elif not failed and before != view.registrations:
            yield from self._session.send_brokers()

    def _brokers_started(self, new: dict[int, int]) -> Steps[None]:
        view = self.view
        view.live = {**view.live, **new}
        yield from self._session.send_brokers(new)
        yield from self._send_roles(new)
        yield from self._elections.after_failures()
        yield from self._reassignments.brokers_started(new)
        yield from self._deletion.brokers_started(new)

    def _send_roles(self, brokers: Collection[int]) -> Steps[None]:
        """All the roles of these brokers again."""
        batch = RequestBatch()
        for partition, state in self.view.states.items():
            for broker in brokers:
                if broker in state.replicas and self._deletion.may_have_role((partition, broker)):
                    batch.role(broker, partition, state)
                    batch.metadata[partition] = state
        yield from self._session.send(batch)

    def _log_dirs_failed(self) -> Steps[None]:
        """Brokers announce that they have lost a log directory. The responses to LeaderAndIsr name the replicas."""
        session, brokers = self._session, set[int]()
        names = yield from session.perform(List(nodes.LOG_DIR_EVENTS, watch=True))
        for name in names:
            node: Znode | None = yield from session.perform(Read(f"{nodes.LOG_DIR_EVENTS}/{name}"))
            with suppress(Corrupt):
                brokers |= set() if node is None else {nodes.log_dir_event_of(node.data)}
        yield from self._send_roles(brokers & self.view.live.keys())
        for name in names:
            yield from session.delete(f"{nodes.LOG_DIR_EVENTS}/{name}")

    def _roles_assumed(self, response: RolesAssumed) -> Steps[None]:
        """A replica in a failed log directory is offline, until its broker starts again or responds without an error."""
        request, errors = response.request, response.errors
        if request.broker_epoch != self.view.live.get(request.broker):
            return
        failed = [partition for partition, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR]
        lost = self.view.roles_assumed(request.broker, request.states.keys() - errors.keys(), failed)
        if lost:
            yield from self._elections.after_failures(lost)
            yield from self._deletion.failed(lost)

    def _isr_changed(self) -> Steps[None]:
        """Leaders have changed ISRs: everybody's metadata follows."""
        session, batch = self._session, RequestBatch()
        for name in (yield from session.perform(List(nodes.ISR_CHANGES, watch=True))):
            path = f"{nodes.ISR_CHANGES}/{name}"
            node: Znode | None = yield from session.perform(Read(path))
            for partition in self._partitions(node):
                state = (yield from session.read_state(partition)) if partition in self.view.assigned else None
                if state is not None:
                    batch.metadata[partition] = state
            yield from session.delete(path)
        yield from session.send(batch)

    def _partitions(self, node: Znode | None) -> list[tuple[str, int]]:
        try:
            return [] if node is None else nodes.partitions_of(node.data)
        except Corrupt:
            return []

    def _shut_down(self, command: ShutDown) -> Steps[None]:
        """KafkaController.doControlledShutdown: its partitions get other leaders, and its followers stop."""
        session, view, broker = self._session, self.view, command.broker
        if broker not in view.live:
            yield ShutdownAllowed(broker, error=ErrorCode.BROKER_NOT_AVAILABLE)
            return
        if command.broker_epoch is not None and command.broker_epoch < view.live[broker]:
            yield ShutdownAllowed(broker, error=ErrorCode.STALE_BROKER_EPOCH)
            return
        view.leaving.add(broker)
        batch = RequestBatch()
        replicated = [
            p
            for p, s in view.states.items()
            if broker in s.replicas and len(s.replicas) > 1 and p[0] not in view.deleting
        ]
        for partition in replicated:
            yield from self._without_leaving(partition, batch)
            state = view.states.get(partition)
            if state is not None and state.leader == broker:
                yield from session.read_state(partition)  # its leader notifies of a new ISR seconds later
                yield from self._without_leaving(partition, batch)
                state = view.states.get(partition)
            if state is not None and broker not in (state.leader, *state.isr):
                session.stop(batch, [(partition, broker)], delete=False)
        yield from session.send(batch)
        yield ShutdownAllowed(
            broker, tuple(p for p in replicated if p in view.states and view.states[p].leader == broker)
        )

    def _without_leaving(self, partition: TopicPartition, batch: RequestBatch) -> Steps[None]:
        view, at_least = self.view, self.view.min_insync_replicas(partition[0])

        def change(state: PartitionState) -> PartitionState | None:
            live = view.live_replicas(partition)
            return election.controlled_shutdown(state, live, view.leaving, self.epoch, at_least=at_least)

        yield from self._session.decide(partition, change, batch)
