"""Elections: after brokers failed or started, on request (KIP-460), and to spread leaders (auto.leader.rebalance.enable)."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.controller import nodes
from coterie.controller.commands import ElectionType, ElectLeaders, LeadersElected
from coterie.controller.elected import election
from coterie.controller.elected.session import OfficeSession
from coterie.controller.elected.view import Replica
from coterie.controller.requests import RequestBatch
from coterie.machines.script import Steps
from coterie.replication.states import NO_LEADER, PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.zookeeper.operations import Corrupt, Read, Znode

UNAVAILABLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    """Elections of leaders: after failures, on request, and to spread leaders."""

    def __init__(self, session: OfficeSession) -> None:
        self._session, self._view = session, session.view

    def after_failures(self, lost: Iterable[Replica] = ()) -> Steps[None]:
        """Every partition gets the leader and the ISR that the online replicas allow, new partitions their first state.
        ``lost``: replicas that are offline since now: they stop, and everybody's metadata has them."""
        view, batch = self._view, RequestBatch()
        for partition in list(view.states):
            if view.needs_leaders(partition[0]):
                yield from self._elect(partition, batch)
        yield from self._session.create_states(batch)
        stopped = [replica for replica in lost if replica[0][0] not in view.deleting]
        batch.metadata |= {partition: view.states[partition] for partition, _ in stopped if partition in view.states}
        self._session.stop(batch, stopped, delete=False)
        yield from self._session.send(batch)

    def topic_configured(self, topic: str) -> Steps[None]:
        """A topic that may have unclean leaders now gets them."""
        if topic in self._view.deleting or not self._view.unclean_leader_election_enable(topic):
            return
        batch = RequestBatch()
        for partition in self._view.partitions_of(topic):
            yield from self._elect(partition, batch)
        yield from self._session.send(batch)

    def elect(self, command: ElectLeaders) -> Steps[None]:
        """ElectLeaders. A request for all partitions gets no result for a partition that needs no election."""
        wanted = sorted(self._view.assigned) if command.partitions is None else command.partitions
        results = yield from self._elect_each(wanted, command.kind)
        if command.partitions is None:
            results = {p: error for p, error in results.items() if error is not ErrorCode.ELECTION_NOT_NEEDED}
        yield LeadersElected(command.token, results)

    def legacy_requested(self) -> Steps[None]:
        """/admin/preferred_replica_election, which goes when it is done."""
        node: Znode | None = yield from self._session.perform(Read(nodes.PREFERRED_ELECTION, watch=True))
        if node is None:
            return
        try:
            wanted = nodes.partitions_of(node.data)
        except Corrupt:  # a tool's mistake
            wanted = []
        yield from self._elect_each(wanted, ElectionType.PREFERRED)
        yield from self._session.delete(nodes.PREFERRED_ELECTION)
        yield from self._session.perform(Read(nodes.PREFERRED_ELECTION, watch=True))

    def rebalance(self) -> Steps[None]:
        """A broker that lacks more of the partitions for which it is the preferred leader than
        leader.imbalance.per.broker.percentage leads them again; not while partitions are reassigned."""
        view = self._view
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in view.assigned:
            if partition[0] not in view.deleting:
                by_broker.setdefault(view.assigned[partition].replicas[0], []).append(partition)
        for broker, partitions in sorted(by_broker.items()):
            lacking = [p for p in partitions if p in view.states and view.states[p].leader != broker]
            imbalance = 100 * len(lacking) / len(partitions)
            if imbalance > view.config.leader_imbalance_per_broker_percentage and not view.reassigning:
                able = [p for p in lacking if self._may_lead(broker, p)]
                yield from self._elect_each(able, ElectionType.PREFERRED)

    # -- one election ---------------------------------------------------------------------------------------------------

    def _elect_each(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> Steps[dict[TopicPartition, ErrorCode]]:
        results, batch = dict[TopicPartition, ErrorCode](), RequestBatch()
        for partition in partitions:
            error = self._refusal(partition, kind)
            if error is UNAVAILABLE[ElectionType.PREFERRED] and partition in self._view.states:
                yield from self._session.read_state(partition)  # its leader notifies of a new ISR seconds later
                error = self._refusal(partition, kind)
            if error is None:
                is_done = yield from self._elect(partition, batch, kind)
                error = ErrorCode.NONE if is_done else UNAVAILABLE[kind]
            results[partition] = error
        yield from self._session.send(batch)
        return results

    def _refusal(self, partition: TopicPartition, kind: ElectionType) -> ErrorCode | None:
        view = self._view
        if partition not in view.assigned:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition[0] in view.deleting:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        state = view.states.get(partition)
        if state is None:
            return UNAVAILABLE[kind]
        if kind is ElectionType.UNCLEAN:
            return ErrorCode.ELECTION_NOT_NEEDED if view.is_online(state.leader) else None
        if state.leader == state.replicas[0]:
            return ErrorCode.ELECTION_NOT_NEEDED
        return None if self._may_lead(state.replicas[0], partition) else UNAVAILABLE[kind]

    def _may_lead(self, broker: int, partition: TopicPartition) -> bool:
        return self._view.is_replica_online(broker, partition) and broker in self._view.states[partition].isr

    def _elect(self, partition: TopicPartition, batch: RequestBatch, kind: ElectionType | None = None) -> Steps[bool]:
        """Returns whether the partition has another leader, or another ISR. ``kind``: None after a failure."""
        view, epoch = self._view, self._session.epoch

        def change(state: PartitionState) -> PartitionState | None:
            if kind is ElectionType.PREFERRED:
                return election.preferred(state, view.online_replicas(partition), epoch)
            unclean = kind is ElectionType.UNCLEAN or view.unclean_leader_election_enable(partition[0])
            at_least, live = view.min_insync_replicas(partition[0]), view.live_replicas(partition)
            return election.after_failure(state, live, epoch, leaving=view.leaving, at_least=at_least, unclean=unclean)

        is_changed = yield from self._session.decide(partition, change, batch)
        return is_changed and (kind is None or view.states[partition].leader != NO_LEADER)
