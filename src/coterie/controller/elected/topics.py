"""Topics as the controller learns of them: new ones, new partitions, settings, and deleted ones."""

from __future__ import annotations

from contextlib import suppress

from coterie.controller import nodes
from coterie.controller.elected.session import OfficeSession
from coterie.controller.requests import RequestBatch
from coterie.machines.script import Steps
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Corrupt, List, NoNode, Read, Write, Znode


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
