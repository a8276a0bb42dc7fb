"""Settings of topics, brokers, groups, clients and client metrics in ZooKeeper, described and altered there (Kafka's
AdminZkClient), and those of clients: quotas and SCRAM credentials (Kafka's AdminManager 2.6, and its ZkAdminManager).

/config/clients/C, /config/users/U, /config/users/U/clients/C and /config/ips/A; ``<default>`` is the node without a name. A
quota is a setting of its name, a credential one of its mechanism's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from coterie.authentication.sasl import ScramMechanism
from coterie.broker.clients.clients import Clients
from coterie.broker.clients.quotas import QUOTAS
from coterie.broker.clients.scram_credentials import KeptCredential
from coterie.broker.requests.turns import each_at_once
from coterie.controller import nodes
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.quotas import CLIENT_ID, IP, USER, Entity
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Corrupt, Create, List, NodeExists, Operation, Read, Write, Znode

logger = logging.getLogger(__name__)

MISSING = -1  # the version of a node that does not exist
V = TypeVar("V")
_WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
_PARTS = ("salt", "stored_key", "server_key", "iterations")  # of a credential, in Kafka's order
_PART_NAMES = {mechanism.name: mechanism.sasl_name for mechanism in ScramMechanism}


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


class ClientEntities:
    """`changed` brings ``clients`` what is read. ``lacks_ips``: a broker before Kafka 2.8 may be in the cluster, which reads no
    more notifications after one about an address."""

    def __init__(self, entities: EntitySettings, clients: Clients, *, lacks_ips: bool) -> None:
        self._entities, self._clients, self._lacks_ips = entities, clients, lacks_ips

    def changed(self, changes: Iterable[SettingsChanged]) -> None:
        """Puts what entities have in ZooKeeper in force. What is not valid, a tool's mistake, is logged and left out."""
        for change in changes:
            entity = _entity(change.kind, change.name)
            quotas = {key: change.settings[key] for key in QUOTAS & change.settings.keys()}
            self._clients.quotas.put(entity, _valid(change, quotas, float))
            if entity[0][0] == USER and len(entity) == 1 and entity[0][1] is not None:
                credentials = {m: change.settings[key] for m, key in _PART_NAMES.items() if key in change.settings}
                self._clients.scram_credentials.put(entity[0][1], _valid(change, credentials, _credential))

    async def read_quotas(self) -> None:
        """Raises ZooKeeperError."""
        for kind in nodes.CLIENT_KINDS:
            await self._read(kind)

        async def read_clients(user: str) -> None:
            for client in await self._entities.names(nodes.clients_of(user)):
                await self._entities.read(nodes.USERS_KIND, f"{user}/{nodes.CLIENTS_KIND}/{client}")

        await each_at_once(await self._entities.names(nodes.USERS_KIND), read_clients)

    async def read_credentials(self) -> None:
        """Raises ZooKeeperError."""
        await self._read(nodes.USERS_KIND)

    async def _read(self, kind: str) -> None:
        await each_at_once(await self._entities.names(kind), partial(self._entities.read, kind))

    async def alter_quotas(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Raises Refusal, ZooKeeperError."""
        kind, name = _node(entity)
        if kind == nodes.IPS_KIND and self._lacks_ips:
            text = "addresses have no quotas in a cluster whose inter.broker.protocol.version is below 2.8"
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
        texts = {key: None if value is None else _text(key, value) for key, value in changes.items()}
        await self._alter(kind, name, texts)

    async def alter_credential(self, user: str, mechanism: ScramMechanism, kept: KeptCredential | None) -> None:
        """Raises ZooKeeperError."""
        text = None if kept is None else ",".join(f"{part}={kept[part]}" for part in _PARTS)
        await self._alter(nodes.USERS_KIND, nodes.sanitized(user), {_PART_NAMES[mechanism.name]: text})

    async def _alter(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets settings, or removes them (None), beside what others set meanwhile."""
        while True:
            current, version = await self._entities.read(kind, name)
            after = {key: value for key, value in {**current, **changes}.items() if value is not None}
            if await self._entities.write(kind, name, after, version):
                return


def _node(entity: Entity) -> tuple[str, str]:
    """The kind and the name, which for a client id of a user is a path."""
    parts = {part: nodes.DEFAULT_ENTITY if name is None else nodes.sanitized(name) for part, name in entity}
    if USER in parts:
        client = f"/{nodes.CLIENTS_KIND}/{parts[CLIENT_ID]}" if CLIENT_ID in parts else ""
        return nodes.USERS_KIND, parts[USER] + client
    return (nodes.IPS_KIND, parts[IP]) if IP in parts else (nodes.CLIENTS_KIND, parts[CLIENT_ID])


def _entity(kind: str, name: str) -> Entity:
    """Of a node, the reverse of `_node`."""
    if kind != nodes.USERS_KIND:
        return ((IP if kind == nodes.IPS_KIND else CLIENT_ID, _name_of(name)),)
    user, is_of_client, client = name.partition(f"/{nodes.CLIENTS_KIND}/")
    own = (USER, _name_of(user))
    return ((CLIENT_ID, _name_of(client)), own) if is_of_client else (own,)


def _valid(change: SettingsChanged, texts: Mapping[str, str], value_of: Callable[[str], V]) -> dict[str, V]:
    values = {}
    for key, text in texts.items():
        try:
            values[key] = value_of(text)
        except (ValueError, KeyError):
            logger.error("%s of %s/%s is not valid in ZooKeeper, and not in force", key, change.kind, change.name)
    return values


def _name_of(node: str) -> str | None:
    return None if node == nodes.DEFAULT_ENTITY else nodes.unsanitized(node)


def _text(key: str, value: float) -> str:
    return str(round(value)) if key in _WHOLE else repr(value)


def _credential(text: str) -> KeptCredential:
    """Of Kafka's text, which has base64 with its own equals signs. Raises ValueError, KeyError."""
    kept = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    return {**{part: kept[part] for part in _PARTS}, "iterations": int(kept["iterations"])}
