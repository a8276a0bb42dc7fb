"""Settings of topics, brokers, groups, clients and client metrics in ZooKeeper, described and altered there (Kafka's
AdminZkClient)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from coterie.controller import nodes
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Corrupt, Create, List, NodeExists, Operation, Read, Write, Znode

MISSING = -1  # the version of a node that does not exist


class EntitySettings:
    """``apply`` carries an operation out in ZooKeeper; ``changed`` gets what is read, so that it is in force here at once."""

    def __init__(
        self, apply: Callable[[Operation], Awaitable[object]], changed: Callable[[tuple[SettingsChanged, ...]], None]
    ) -> None:
        self._apply, self._changed = apply, changed

    async def read(self, kind: str, name: str) -> tuple[dict[str, str], int]:
        """The entity's own settings, and the version of their node. Raises ZooKeeperError."""
        node = await self._apply(Read(nodes.config(kind, name)))
        try:
            settings, version = (nodes.config_of(node.data), node.version) if isinstance(node, Znode) else ({}, MISSING)
        except Corrupt:  # a tool's mistake: what is written next replaces it
            return {}, node.version if isinstance(node, Znode) else MISSING
        if kind != nodes.TOPICS_KIND:
            self._changed((SettingsChanged(kind, name, settings),))
        else:
            topic = await self._apply(Read(paths.topic(name)))
            identity = (nodes.topic_id_of(topic.data), topic.created) if isinstance(topic, Znode) else (None, -1)
            self._changed((SettingsChanged(kind, name, settings, *identity),))
        return settings, version

    async def names(self, kind: str) -> list[str]:
        """The nodes of that kind. Raises ZooKeeperError."""
        names: list[str] = await self._apply(List(nodes.configs(kind)))  # type: ignore[assignment]
        return sorted(names)

    async def write(self, kind: str, name: str, settings: Mapping[str, str], version: int) -> bool:
        """Replaces what was read in that version, and notifies all brokers; False, without effect, where it was altered since.
        Kafka 2.6 does not look at the version: of two alterations at a time one is lost. Raises ZooKeeperError."""
        path, data = nodes.config(kind, name), nodes.settings(settings)
        try:
            await self._apply(Create(path, data, ephemeral=False) if version == MISSING else Write(path, data, version))
        except (BadVersion, NodeExists):
            return False
        notification = Create(
            f"{nodes.CONFIG_CHANGES}/config_change_", nodes.config_change(kind, name), ephemeral=False, sequential=True
        )
        await self._apply(notification)
        return True
