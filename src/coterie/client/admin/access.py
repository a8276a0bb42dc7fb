"""An admin's calls about who may do what: ACLs (KIP-140) and client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from coterie.client.admin.admin import Admin
from coterie.client.admin.repeated_calls import repeated
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_acls import AclCreation, CreateAclsRequest
from coterie.wire.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import DescribeClientQuotasRequest

QuotaEntity = tuple[tuple[str, str | None], ...]  # (type, name) of user, client-id or ip; None is the default


class AccessAdmin(Admin):
    """An `Admin` with these calls as well. Each raises KafkaError: SECURITY_DISABLED without an authorizer,
    CLUSTER_AUTHORIZATION_FAILED without the right."""

    @repeated
    async def describe_acls(self, wanted: AclFilter) -> list[Acl]:
        """The entries that a filter describes, in order."""
        response = await self._cluster.request(DescribeAclsRequest(*_filter(wanted)))
        check(response.error_code, response.error_message)
        return sorted(
            _acl((resource.resource_type, resource.resource_name, resource.pattern_type), entry)
            for resource in response.resources
            for entry in resource.acls
        )

    @repeated
    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Raises the error of the first that is refused."""
        creations = [
            AclCreation(a.resource_type, a.name, a.pattern_type, a.principal, a.host, a.operation, a.permission)
            for a in acls
        ]
        response = await self._cluster.request_controller(CreateAclsRequest(creations), lambda r: r.results)
        for result in response.results:
            check(result.error_code, result.error_message)

    @repeated
    async def delete_acls(self, wanted: AclFilter) -> list[Acl]:
        """The deleted entries."""
        request = DeleteAclsRequest([DeleteAclsFilter(*_filter(wanted))])
        response = await self._cluster.request_controller(request, lambda r: r.filter_results)
        deleted = []
        for result in response.filter_results:
            check(result.error_code, result.error_message)
            for entry in result.matching_acls:
                check(entry.error_code, entry.error_message)
                deleted.append(_acl((entry.resource_type, entry.resource_name, entry.pattern_type), entry))
        return sorted(deleted)

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


def _filter(wanted: AclFilter) -> tuple[Any, ...]:
    """The fields of both requests, which have the same order."""
    return (
        int(wanted.resource_type),
        wanted.name,
        int(wanted.pattern_type),
        wanted.principal,
        wanted.host,
        int(wanted.operation),
        int(wanted.permission),
    )


def _acl(pattern: tuple[int, str, int], entry: Any) -> Acl:
    """Raises KafkaError for an entry of a kind that this client does not know."""
    kind, name, pattern_type = pattern
    try:
        what = AclResourceType(kind), name, PatternType(pattern_type)
        return Acl(*what, entry.principal, entry.host, AclOperation(entry.operation), Permission(entry.permission_type))
    except ValueError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"an ACL of an unknown kind: {error}") from error
