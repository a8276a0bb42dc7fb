"""The admin's requests about client quotas (KIP-546), for `coterie quotas`."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.admin.admin import Admin
from coterie.client.admin.repeated_calls import repeated
from coterie.client.errors import check
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import DescribeClientQuotasRequest

QuotaEntity = tuple[tuple[str, str | None], ...]  # (type, name) of user, client-id or ip; None is the default


class QuotasAdmin(Admin):
    """An `Admin` with these calls as well. Each raises KafkaError, CLUSTER_AUTHORIZATION_FAILED without the right."""

    @repeated
    async def describe_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of each entity that has any."""
        response = await self._cluster.request(DescribeClientQuotasRequest([], False))
        check(response.error_code, response.error_message)
        return {
            tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    @repeated
    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Sets quotas, or removes them (None)."""
        ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in changes.items()]
        entry = EntryData([EntityData(kind, name) for kind, name in entity], ops)
        response = await self._cluster.request_controller(AlterClientQuotasRequest([entry]), lambda r: r.entries)
        for result in response.entries:
            check(result.error_code, result.error_message)
