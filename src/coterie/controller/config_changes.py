"""Changes of settings (Kafka's DynamicConfigManager and ZkNodeChangeNotificationListener).

The settings of a topic are written to /config/topics/T, and then a notification that names it,
/config/changes/config_change_N. Every broker reads the new notifications and applies the settings of the topics that it knows;
the controller applies unclean.leader.election.enable as well (`ControllerMachine.submit` of a TopicConfigured), and the
defaults that its own broker has (`ControllerMachine.configure`). Notifications that all brokers had time to read are deleted.
Kafka compares ZooKeeper's time of the node with the broker's: a broker whose clock is ahead deletes what others have not read.
Here each broker counts from when it read the notification.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from coterie.controller import nodes
from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Corrupt, Delete, List, NoNode, Read, SessionExpired, Znode

KEPT_MS = 15 * 60_000  # a notification, as in Kafka
# Topics are read when they are announced.
READ_AT_START = (nodes.BROKERS_KIND, nodes.GROUPS_KIND, nodes.CLIENT_METRICS_KIND, nodes.FEATURES_KIND)
Entity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Effect: all the settings that the entity has of its own. ``kind``: topics, brokers, users, clients, groups,
    features or client-metrics; ``name``: the topic, the broker's id or ``<default>``. ``topic_id``: of a topic whose node has
    one; ``created``: the id of the transaction that created the topic, -1 where there is none."""

    kind: str
    name: str
    settings: Mapping[str, str]
    topic_id: bytes | None = None
    created: int = -1

    @property
    def exists(self) -> bool:
        """Whether the topic has a node. What is read of one without is not that of the next topic of its name."""
        return self.created >= 0


class ConfigChanges(SessionScript):
    """One for each broker. Inputs beside those of a SessionScript: `changed` (the watch fired), `read`, `expired`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._is_changed, self._has_expired = True, False
        self._last = ""  # the last notification that was read
        self._read_ms: dict[str, int] = {}  # when each notification was read that is not deleted
        self._wanted: dict[Entity, None] = {}

    def changed(self) -> None:
        self._is_changed = True
        self.nudge()

    def read(self, kind: str, name: str) -> None:
        """The effect follows, whether the settings have changed or not."""
        self._wanted[kind, name] = None
        self.nudge()

    def expired(self) -> None:
        self._has_expired = True
        self.nudge()

    def is_over(self) -> bool:
        return self._has_expired

    def _life(self) -> Steps[None]:
        while True:
            self._has_expired = False
            with suppress(SessionExpired):
                yield from self._read_at_start()
                while not self._has_expired:
                    yield from self._step()
            while not self._connected:
                yield Wait(None)
            self._is_changed = True  # the watch went with the session

    def _step(self) -> Steps[None]:
        if self._wanted:
            yield from self._read_wanted(next(iter(self._wanted)))
        elif self._is_changed:
            self._is_changed = False
            yield from self._read_new()
        else:
            yield Wait(None)

    def _read_wanted(self, entity: Entity) -> Steps[None]:
        del self._wanted[entity]  # it may be wanted again meanwhile
        try:
            settings = yield from self._settings(*entity)
            identity = (yield from self._identity(entity[1])) if entity[0] == nodes.TOPICS_KIND else ()
        except SessionExpired:
            self._wanted[entity] = None
            raise
        if settings is not None:
            yield SettingsChanged(*entity, settings, *identity)

    def _identity(self, topic: str) -> Steps[tuple[bytes | None, int]]:
        node: Znode | None = yield from self.ask(Read(paths.topic(topic)))
        return (None, -1) if node is None else (nodes.topic_id_of(node.data), node.created)

    def _read_at_start(self) -> Steps[None]:
        for kind in READ_AT_START:
            for name in (yield from self.ask(List(nodes.configs(kind)))):
                self._wanted[kind, name] = None

    def _read_new(self) -> Steps[None]:
        names = yield from self.ask(List(nodes.CONFIG_CHANGES, watch=True))
        self._read_ms = {name: ms for name, ms in self._read_ms.items() if name in names}
        for name in sorted(name for name in names if name > self._last):
            node: Znode | None = yield from self.ask(Read(f"{nodes.CONFIG_CHANGES}/{name}"))
            if node is not None:
                self._read_ms[name] = self.now_ms
                with suppress(Corrupt):  # a tool's mistake
                    self._wanted[nodes.config_change_of(node.data)] = None
            self._last = name
        yield from self._delete_old()

    def _delete_old(self) -> Steps[None]:
        for name in [name for name, ms in self._read_ms.items() if self.now_ms - ms > KEPT_MS]:
            with suppress(NoNode):
                yield from self.ask(Delete(f"{nodes.CONFIG_CHANGES}/{name}"))
            del self._read_ms[name]

    def _settings(self, kind: str, name: str) -> Steps[Mapping[str, str] | None]:
        """None where the node is a tool's mistake."""
        node: Znode | None = yield from self.ask(Read(nodes.config(kind, name)))
        try:
            return {} if node is None else nodes.config_of(node.data)
        except Corrupt:
            return None
