"""Changes of settings (Kafka's DynamicConfigManager and ZkNodeChangeNotificationListener).

The settings of a topic are written to /config/topics/T, and then a notification that names it, /config/changes/config_change_N.
Every broker reads the new notifications and applies the settings of the topics that it knows; the controller applies
unclean.leader.election.enable as well (`ControllerMachine.submit` of a TopicConfigured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.controller import nodes
from coterie.controller.session_script import SessionScript
from coterie.script import Steps, Wait
from coterie.zookeeper.operations import Corrupt, List, Read, SessionExpired, Znode


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Effect: all the settings that the entity has of its own. ``kind``: topics, brokers, users or clients; ``name``: the
    topic, the broker's id or ``<default>``."""

    kind: str
    name: str
    settings: Mapping[str, str]


class ConfigChanges(SessionScript):
    """One for each broker. Inputs beside those of a SessionScript: `changed` (the watch fired), `expired`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._is_changed, self._has_expired = True, False
        self._last = ""  # the last notification that was read

    def changed(self) -> None:
        self._is_changed = True
        self.nudge()

    def expired(self) -> None:
        self._has_expired = True
        self.nudge()

    def is_over(self) -> bool:
        return self._has_expired

    def _life(self) -> Steps[None]:
        while True:
            self._has_expired = False
            try:
                while not self._has_expired:
                    if self._is_changed:
                        self._is_changed = False
                        yield from self._read_new()
                    else:
                        yield Wait(None)
            except SessionExpired:
                while not self._connected:
                    yield Wait(None)
            self._is_changed = True  # the watch went with the session

    def _read_new(self) -> Steps[None]:
        names = yield from self.ask(List(nodes.CONFIG_CHANGES, watch=True))
        for name in sorted(name for name in names if name > self._last):
            node: Znode | None = yield from self.ask(Read(f"{nodes.CONFIG_CHANGES}/{name}"))
            if node is not None:
                yield from self._read_settings(node.data)
            self._last = name

    def _read_settings(self, notification: str) -> Steps[None]:
        try:
            kind, name = nodes.config_change_of(notification)
            node: Znode | None = yield from self.ask(Read(nodes.config(kind, name)))
            settings = {} if node is None else nodes.config_of(node.data)
        except Corrupt:  # a tool's mistake
            return
        yield SettingsChanged(kind, name, settings)
