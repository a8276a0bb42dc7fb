"""Topics as the controller learns of them: new ones, new partitions, settings; and their deletion (Kafka's
TopicDeletionManager).

A topic in /admin/delete_topics is deleted once all of its replicas are: each live one is stopped and its log removed, and the
topic waits for brokers that are down. Its nodes go last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import Enum

from coterie.controller import nodes
from coterie.controller.commands import ReplicasStopped
from coterie.controller.elected.election import NEW_VERSION
from coterie.controller.elected.session import OfficeSession
from coterie.controller.elected.view import Replica
from coterie.controller.requests import RequestBatch
from coterie.machines.script import Steps
from coterie.replication.states import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, PartitionState
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Corrupt, Delete, List, NoNode, Read, Write, Znode

_NO_STATE = PartitionState(LEADER_DURING_DELETE, EPOCH_DURING_DELETE, (), 0, NEW_VERSION, ())  # its node is deleted


class TopicChanges:
    """Reads /brokers/topics and the nodes of settings into the view."""

    def __init__(self, session: OfficeSession) -> None:
        self._session, self._view = session, session.view

    def read(self) -> Steps[None]:
        """Topics that are new to this controller, with the states that they have; those without a node go."""
        names = yield from self._session.perform(List(paths.TOPICS, watch=True))
        for topic in self._view.topics - set(names):
            if topic not in self._view.deleting:
                self._view.remove_topic(topic)
        for topic in names:
            if topic not in self._view.topics:
                yield from self.read_partitions(topic)
                yield from self.read_config(topic)

    def read_partitions(self, topic: str) -> Steps[None]:
        """Partitions that are new. A topic that is deleted gets none: its node is written back."""
        session, view = self._session, self._view
        node: Znode | None = yield from session.perform(Read(paths.topic(topic), watch=True))
        if node is None:
            return
        try:
            assignments = nodes.assignments_of(node.data)
        except Corrupt:  # a tool's mistake; the topic is not known until it is mended
            return
        new = {(topic, p): a for p, a in sorted(assignments.items()) if (topic, p) not in view.assigned}
        if new and topic in view.deleting:
            yield from self._restore(topic, node)
            return
        for partition, assignment in new.items():
            view.assign(partition, assignment)
            yield from session.read_state(partition)

    def _restore(self, topic: str, node: Znode) -> Steps[None]:
        assignments = {p[1]: self._view.assigned[p] for p in self._view.partitions_of(topic)}
        with suppress(BadVersion, NoNode):
            data = nodes.assignments(assignments, nodes.topic_id_of(node.data))
            yield from self._session.write(Write(paths.topic(topic), data, node.version))
        yield from self.read_partitions(topic)

    def changed(self, topic: str | None = None) -> Steps[None]:
        """/brokers/topics, or one topic's node."""
        if topic is None:
            yield from self.read()
        elif topic in self._view.topics:
            yield from self.read_partitions(topic)
        batch = RequestBatch()
        yield from self._session.create_states(batch)
        yield from self._session.send(batch)

    def read_config(self, topic: str) -> Steps[None]:
        """Puts the topic's own settings into the view; none where the node is missing or cannot be read."""
        node: Znode | None = yield from self._session.perform(Read(nodes.topic_config(topic)))
        try:
            self._view.topic_configs[topic] = {} if node is None else nodes.config_of(node.data)
        except Corrupt:
            self._view.topic_configs[topic] = {}


class DeletionPhase(Enum):
    """The state of a replica of a topic that is deleted. INELIGIBLE: it is offline, or its broker could not delete it."""

    STARTED = "ReplicaDeletionStarted"
    SUCCESSFUL = "ReplicaDeletionSuccessful"
    INELIGIBLE = "ReplicaDeletionIneligible"


class TopicDeletion:
    """``ineligible``: topics that wait for a broker. Queued topics are in the view; a reassignment has them wait, too."""

    def __init__(self, session: OfficeSession) -> None:
        self._session, self._view = session, session.view
        self.ineligible: set[str] = set()
        self.phases: dict[Replica, DeletionPhase] = {}

    def changed(self, *, is_start: bool = False) -> Steps[None]:
        """/admin/delete_topics holds topics. At the start of an office those wait whose brokers are not all there."""
        session, view = self._session, self._view
        for topic in (yield from session.perform(List(nodes.DELETED_TOPICS, watch=True))):
            if topic not in view.topics:
                yield from session.delete(f"{nodes.DELETED_TOPICS}/{topic}")
                continue
            view.deleting.add(topic)
            offline = [r for r in self._replicas(topic) if not self._is_online(r)] if is_start else []
            self.phases |= dict.fromkeys(offline, DeletionPhase.INELIGIBLE)
            if offline:
                self.ineligible.add(topic)
        if not is_start:
            yield from self.resume()

    def may_have_role(self, replica: Replica) -> bool:
        """Not once its broker has been requested to remove it: it would be made again."""
        return not (self._is_started(replica) or self._is_deleted(replica))

    def _is_deleted(self, replica: Replica) -> bool:
        return self.phases.get(replica) is DeletionPhase.SUCCESSFUL

    def _is_started(self, replica: Replica) -> bool:
        return self.phases.get(replica) is DeletionPhase.STARTED

    def _is_online(self, replica: Replica) -> bool:
        return self._view.is_replica_online(replica[1], replica[0])

    def resume_for(self, topics: Collection[str]) -> Steps[None]:
        """What they waited for is over."""
        if self._view.deleting & set(topics):
            self.ineligible -= set(topics)
            yield from self.resume()

    def brokers_started(self, brokers: Collection[int]) -> Steps[None]:
        yield from self.resume_for(self._topics_on(brokers))

    def brokers_failed(self, brokers: Collection[int]) -> Steps[None]:
        yield from self.failed(self._view.replicas_on(brokers))

    def stopped(self, response: ReplicasStopped) -> Steps[None]:
        """The response to a request for deletion; what was started again since is passed over."""
        request = response.request
        if request.broker_epoch != self._view.live.get(request.broker):
            return
        replicas = [
            (partition, request.broker)
            for partition, one in request.stopped.items()
            if one.delete and self._is_started((partition, request.broker))
        ]
        failed = [r for r in replicas if response.errors.get(r[0], ErrorCode.NONE) is not ErrorCode.NONE]
        if failed:
            yield from self.failed(failed)
        done = [r for r in replicas if r not in failed]
        self.phases |= dict.fromkeys(done, DeletionPhase.SUCCESSFUL)
        if done:
            yield from self.resume()

    def resume(self) -> Steps[None]:
        """Topics whose replicas are all deleted go, and deletion starts where nothing is in its way. In Kafka 2.6 the start of
        a broker lets a deletion begin beside a reassignment, which then makes replicas again."""
        eligible: list[str] = []
        reassigned = {partition[0] for partition in self._view.reassigning}
        for topic in sorted(self._view.deleting):
            replicas = self._replicas(topic)
            if all(map(self._is_deleted, replicas)):
                yield from self._complete(topic)
            elif topic not in self.ineligible | reassigned and not any(map(self._is_started, replicas)):
                eligible.append(topic)
        if eligible:
            yield from self._start(eligible)

    # -- a topic --------------------------------------------------------------------------------------------------------

    def _start(self, topics: Iterable[str]) -> Steps[None]:
        """Metadata first, so that clients stop; then the online replicas, but for the deleted ones."""
        session, view, batch = self._session, self._view, RequestBatch()
        replicas: list[Replica] = []
        for topic in topics:
            batch.metadata |= {p: view.states.get(p, _NO_STATE) for p in view.partitions_of(topic)}
            remaining = [r for r in self._replicas(topic) if not self._is_deleted(r)]
            offline = [r for r in remaining if not self._is_online(r)]
            self.phases |= dict.fromkeys(offline, DeletionPhase.INELIGIBLE)
            if offline:
                self.ineligible.add(topic)
            replicas += [r for r in remaining if r not in offline]
        yield from session.send(batch)
        self.phases |= dict.fromkeys(replicas, DeletionPhase.STARTED)
        yield from session.remove_replicas(replicas)

    def failed(self, replicas: Iterable[Replica]) -> Steps[None]:
        """Replicas that cannot be deleted now; the ones of other topics are passed over."""
        replicas = [r for r in replicas if r[0][0] in self._view.deleting and not self._is_deleted(r)]
        self.phases |= dict.fromkeys(replicas, DeletionPhase.INELIGIBLE)
        self.ineligible |= {topic for (topic, _), _ in replicas}
        if replicas:
            yield from self.resume()

    def _complete(self, topic: str) -> Steps[None]:
        """The nodes of the partitions; then, in one transaction, the topic's, its settings' and the request's. Kafka 2.6 has a
        transaction for each: a topic of that name that is created between them may be deleted by the next controller."""
        session = self._session
        path, config, request = paths.topic(topic), nodes.topic_config(topic), f"{nodes.DELETED_TOPICS}/{topic}"
        has_config = (yield from session.perform(Read(config))) is not None
        last = [Delete(path), *([Delete(config)] if has_config else []), Delete(request)]
        try:
            yield from session.delete_below(path)
            yield from session.write(*last)
        except NoNode:
            if (
                yield from session.perform(Read(request))
            ) is not None:  # else its own transaction, whose response was lost
                for one in last:
                    yield from session.delete(one.path)
        for replica in self._replicas(topic):
            self.phases.pop(replica, None)
        self.ineligible.discard(topic)
        self._view.remove_topic(topic)

    def _replicas(self, topic: str) -> list[Replica]:
        view = self._view
        return [(partition, r) for partition in view.partitions_of(topic) for r in view.assigned[partition].replicas]

    def _topics_on(self, brokers: Collection[int]) -> list[str]:
        """Topics to delete with replicas on them."""
        return [t for t in sorted(self._view.deleting) if any(r[1] in brokers for r in self._replicas(t))]
