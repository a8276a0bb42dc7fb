"""Client quotas and SCRAM credentials of a cluster: the settings of users, client ids and addresses in ZooKeeper (Kafka's
AdminManager 2.6, and its ZkAdminManager).

/config/clients/C, /config/users/U, /config/users/U/clients/C and /config/ips/A; ``<default>`` is the node without a name. A
quota is a setting of its name, a credential one of its mechanism's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from coterie.broker.clients.clients import Clients
from coterie.broker.clients.quotas import QUOTAS
from coterie.broker.clients.scram_credentials import KeptCredential, Mechanism
from coterie.broker.cluster.entity_settings import EntitySettings
from coterie.broker.requests.at_once import each_at_once
from coterie.controller import nodes
from coterie.quotas.limits import CLIENT_ID, IP, USER, Entity
from coterie.wire.errors import ErrorCode, Refusal

_WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
_PARTS = ("salt", "stored_key", "server_key", "iterations")  # of a credential, in Kafka's order
_PART_NAMES = {Mechanism.SCRAM_SHA_256.name: "SCRAM-SHA-256", Mechanism.SCRAM_SHA_512.name: "SCRAM-SHA-512"}


class ClientEntities:
    """``clients`` gets what is read. ``lacks_ips``: a broker before Kafka 2.8 may be in the cluster, which reads no more
    notifications after one about an address."""

    def __init__(self, entities: EntitySettings, clients: Clients, *, lacks_ips: bool) -> None:
        self._entities, self._clients, self._lacks_ips = entities, clients, lacks_ips

    # -- quotas ---------------------------------------------------------------------------------------------------------

    async def read_quotas(self) -> None:
        """Raises ZooKeeperError."""
        quotas: dict[Entity, dict[str, float]] = {}
        for kind, part in ((nodes.CLIENTS_KIND, CLIENT_ID), (nodes.IPS_KIND, IP), (nodes.USERS_KIND, USER)):

            async def read(name: str, kind: str = kind, part: str = part) -> None:
                quotas[((part, _name_of(name)),)] = await self._quotas_of(kind, name)
                if part == USER:
                    for client in await self._entities.names(f"{kind}/{name}/{nodes.CLIENTS_KIND}"):
                        both = ((CLIENT_ID, _name_of(client)), (USER, _name_of(name)))
                        quotas[both] = await self._quotas_of(kind, f"{name}/{nodes.CLIENTS_KIND}/{client}")

            await each_at_once(await self._entities.names(kind), read)
        self._clients.quotas.replace({entity: values for entity, values in quotas.items() if values})

    async def _quotas_of(self, kind: str, name: str) -> dict[str, float]:
        settings, _ = await self._entities.read(kind, name)
        return {key: float(value) for key, value in settings.items() if key in QUOTAS}

    async def alter_quotas(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Raises Refusal, ZooKeeperError."""
        kind, name = _node(entity)
        if kind == nodes.IPS_KIND and self._lacks_ips:
            text = "addresses have no quotas in a cluster whose inter.broker.protocol.version is below 2.8"
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
        texts = {key: None if value is None else _text(key, value) for key, value in changes.items()}
        await self._alter(kind, name, texts)

    # -- credentials ----------------------------------------------------------------------------------------------------

    async def read_credentials(self) -> None:
        """Raises ZooKeeperError."""
        by_user: dict[str, dict[str, KeptCredential]] = {}
        names = await self._entities.names(nodes.USERS_KIND)
        read = await each_at_once(names, partial(self._entities.read, nodes.USERS_KIND))
        for name, (settings, _) in zip(names, read, strict=True):
            kept = {m: _credential(settings[key]) for m, key in _PART_NAMES.items() if key in settings}
            user = _name_of(name)
            if kept and user is not None:
                by_user[user] = kept
        self._clients.scram_credentials.replace(by_user)

    async def alter_credential(self, user: str, mechanism: Mechanism, kept: KeptCredential | None) -> None:
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


def _name_of(node: str) -> str | None:
    return None if node == nodes.DEFAULT_ENTITY else nodes.unsanitized(node)


def _text(key: str, value: float) -> str:
    return str(round(value)) if key in _WHOLE else repr(value)


def _credential(text: str) -> KeptCredential:
    """Of Kafka's text, which has base64 with its own equals signs."""
    kept = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    return {**kept, "iterations": int(kept["iterations"])}
