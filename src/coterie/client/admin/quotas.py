"""An admin's calls about client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client import arguments
from coterie.client.admin.calls import repeated, reported
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.client.types import ClientQuotaEntity
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, ANY = 0, 1, 2  # types of a match
ANY_NAME = "*"


class QuotaCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def describe_client_quotas(
        self, wanted: ClientQuotaEntity = (), *, strict: bool = False
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """The quotas of each entity that has any. ``wanted``: of the entities with these types and names alone, the name "*"
        for any; ``strict``: without entities of further types. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED without the
        right to DESCRIBE_CONFIGS of the cluster.

        >>> await admin.alter_client_quotas({(("user", "alice"),): {"producer_byte_rate": 1e6}})
        >>> await admin.describe_client_quotas((("user", "*"),))
        {(('user', 'alice'),): {'producer_byte_rate': 1000000.0}}
        """
        components = [
            ComponentData(kind, ANY if name == ANY_NAME else DEFAULT if name is None else EXACT, _exact(name))
            for kind, name in _entity(wanted, empty=True)
        ]
        response = await self._cluster.request(DescribeClientQuotasRequest(components, strict))
        check(response.error_code, response.error_message)
        return {
            tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    @repeated
    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        errors: dict[ClientQuotaEntity, KafkaError] | None = None,
    ) -> None:
        """Sets quotas of each entity, or removes them (None). An entity has the type user, client-id, or both, or ip, each
        with a name, or None for the default of all. Raises the KafkaError of the first entity that is refused, and then the
        others are altered: INVALID_REQUEST; CLUSTER_AUTHORIZATION_FAILED without the right to ALTER_CONFIGS of the cluster.
        With ``errors`` each that is refused is put there with its error instead.

        >>> await admin.alter_client_quotas({(("client-id", None),): {"request_percentage": 50.0}})
        """
        checked = {_entity(entity): dict(values) for entity, values in changes.items()}
        entries = [
            EntryData(
                [EntityData(kind, name) for kind, name in entity],
                [OpData(key, 0.0 if value is None else float(value), value is None) for key, value in values.items()],
            )
            for entity, values in checked.items()
        ]
        response = await self._cluster.request_controller(AlterClientQuotasRequest(entries), lambda r: r.entries)
        results = {tuple((part.entity_type, part.entity_name) for part in r.entity): r for r in response.entries}
        reported(results, errors, str)


def _exact(name: str | None) -> str | None:
    return None if name == ANY_NAME else name


def _entity(given: ClientQuotaEntity, *, empty: bool = False) -> ClientQuotaEntity:
    """Raises TypeError, and ValueError for none."""
    pairs = []
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                f'an entity of quotas is a tuple of (type, name), such as (("user", "alice"),), not {given!r}'
            )
        kind, name = pair
        pairs.append(
            (arguments.text(kind, "an entity's type"), name if name is None else arguments.text(name, "its name"))
        )
    if not pairs and not empty:
        raise ValueError("an entity of quotas has at least one (type, name)")
    return tuple(pairs)
