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
from itertools import islice

from coterie.controller import nodes
from coterie.controller.session_script import NotificationScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Corrupt, List, Read, ReadEach, SessionExpired, Znode

READ_AT_ONCE = 200  # notifications, or settings
GATHER_MS = 100  # between two lots: what is notified meanwhile the broker keeps with one write
# Topics are read when they are announced.
READ_AT_START = (
    nodes.BROKERS_KIND,
    nodes.GROUPS_KIND,
    nodes.CLIENT_METRICS_KIND,
    nodes.FEATURES_KIND,
    *nodes.CLIENT_KINDS,
)
Entity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """All the settings that the entity has of its own. ``kind``: topics, brokers, users, clients, groups,
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


@dataclass(frozen=True, slots=True)
class SettingsRead:
    """Effect: the settings of these entities as ZooKeeper has them."""

    changes: tuple[SettingsChanged, ...]


@dataclass(frozen=True, slots=True)
class StartRead:
    """Effect: all that there was at the start has been read."""


class ConfigChanges(NotificationScript):
    """One for each broker. Inputs beside those of a NotificationScript: `changed` (the watch fired), `read`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._is_changed = True
        self._last = ""  # the last notification that was read
        self._wanted: dict[Entity, None] = {}
        self._gather_until_ms = 0
        self._is_start_read = False

    def changed(self) -> None:
        self._is_changed = True
        self.nudge()

    def read(self, kind: str, name: str) -> None:
        """The effect follows, whether the settings have changed or not."""
        self._want(kind, name)
        self._gather_until_ms = 0
        self.nudge()

    def _want(self, kind: str, name: str) -> None:
        self._wanted[kind, name] = None
        if kind == nodes.TOPICS_KIND:  # nothing is kept of it with one write
            self._gather_until_ms = 0

    def _step(self) -> Steps[None]:
        if self._is_changed:
            self._is_changed = False
            yield from self._read_new()
        elif not self._wanted and not self._is_start_read:
            self._is_start_read = True
            yield StartRead()
        elif not self._wanted:
            yield Wait(None)
        elif self._is_start_read and self.now_ms < self._gather_until_ms and len(self._wanted) < READ_AT_ONCE:
            yield Wait(self._gather_until_ms)
        else:
            yield from self._read_wanted(tuple(islice(self._wanted, READ_AT_ONCE)))

    def _read_wanted(self, entities: tuple[Entity, ...]) -> Steps[None]:
        for entity in entities:
            del self._wanted[entity]  # it may be wanted again meanwhile
        changes: list[SettingsChanged] = []
        try:
            read = yield from self.perform(ReadEach(tuple(nodes.config(*entity) for entity in entities)))
            for entity, data in zip(entities, read, strict=True):
                identity = (yield from self._identity(entity[1])) if entity[0] == nodes.TOPICS_KIND else ()
                with suppress(Corrupt):  # a tool's mistake
                    settings = {} if data is None else nodes.config_of(data)
                    changes.append(SettingsChanged(*entity, settings, *identity))
        except SessionExpired:
            self._wanted |= dict.fromkeys(entities)
            raise
        self._gather_until_ms = self.now_ms + GATHER_MS
        if changes:
            yield SettingsRead(tuple(changes))

    def _identity(self, topic: str) -> Steps[tuple[bytes | None, int]]:
        node: Znode | None = yield from self.perform(Read(paths.topic(topic)))
        return (None, -1) if node is None else (nodes.topic_id_of(node.data), node.created)

    def _read_at_start(self) -> Steps[None]:
        self._is_changed = True  # the watch went with the session before
        for kind in READ_AT_START:
            for name in (yield from self.perform(List(nodes.configs(kind)))):
                self._wanted[kind, name] = None
                if kind == nodes.USERS_KIND:
                    for client in (yield from self.perform(List(nodes.configs(nodes.clients_of(name))))):
                        self._wanted[kind, f"{name}/{nodes.CLIENTS_KIND}/{client}"] = None

    def _read_new(self) -> Steps[None]:
        names = frozenset((yield from self.perform(List(nodes.CONFIG_CHANGES, watch=True))))
        paths_left = {_change(name) for name in names}
        self._read_ms = {path: ms for path, ms in self._read_ms.items() if path in paths_left}
        fresh = sorted(name for name in names if name > self._last)
        while fresh:
            lot, fresh = fresh[:READ_AT_ONCE], fresh[READ_AT_ONCE:]
            read = yield from self.perform(ReadEach(tuple(map(_change, lot))))
            for name, data in zip(lot, read, strict=True):
                if data is not None:
                    self._read_ms[_change(name)] = self.now_ms
                    with suppress(Corrupt):  # a tool's mistake
                        self._want(*nodes.config_change_of(data))
            self._last = lot[-1]
        yield from self._delete_old()


def _change(name: str) -> str:
    return f"{nodes.CONFIG_CHANGES}/{name}"
