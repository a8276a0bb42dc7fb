"""An admin's calls about who may do what: ACLs (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from coterie.client.admin.calls import repeated, reported
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_acls import AclCreation, CreateAclsRequest
from coterie.wire.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest

T = TypeVar("T")


class AclCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The ACLs that a filter describes, in order; all without one. Raises KafkaError SECURITY_DISABLED of a broker without
        an authorizer, CLUSTER_AUTHORIZATION_FAILED without the right to DESCRIBE the cluster.

        >>> await admin.describe_acls(AclFilter(AclResourceType.TOPIC, "orders"))
        []
        """
        (wanted,) = _each([AclFilter() if wanted is None else wanted], AclFilter, "wanted")
        response = await self._cluster.request(DescribeAclsRequest(*_filter(wanted)))
        check(response.error_code, response.error_message)
        return sorted(
            _acl((resource.resource_type, resource.resource_name, resource.pattern_type), entry)
            for resource in response.resources
            for entry in resource.acls
        )

    @repeated
    async def create_acls(self, acls: Iterable[Acl], *, errors: dict[Acl, KafkaError] | None = None) -> None:
        """Creates ACLs; one that exists stays. Raises the KafkaError of the first that is refused, and then the others are
        created: INVALID_REQUEST for one that cannot be; and as `describe_acls`, where the right is to ALTER the cluster. With
        ``errors`` each that is refused is put there with its error instead.

        >>> topic, read = AclResourceType.TOPIC, AclOperation.READ
        >>> acl = Acl(topic, "orders", PatternType.LITERAL, "User:alice", "*", read, Permission.ALLOW)
        >>> await admin.create_acls([acl])
        >>> await admin.describe_acls() == [acl]
        True
        """
        given = _each(acls, Acl, "acls")
        creations = [
            AclCreation(a.resource_type, a.name, a.pattern_type, a.principal, a.host, a.operation, a.permission)
            for a in given
        ]
        response = await self._cluster.request_controller(CreateAclsRequest(creations), lambda r: r.results)
        reported(dict(zip(given, response.results, strict=True)), errors, repr)

    @repeated
    async def delete_acls(
        self, filters: Iterable[AclFilter], *, errors: dict[AclFilter | Acl, KafkaError] | None = None
    ) -> list[Acl]:
        """Deletes the ACLs that any of the filters describes, and returns them in order. Raises as `create_acls` does;
        ``errors`` receives the filters that are refused, and the ACLs that are not deleted.

        >>> await admin.delete_acls([AclFilter(principal="User:alice")])
        []
        """
        given = _each(filters, AclFilter, "filters")
        wanted = [DeleteAclsFilter(*_filter(one)) for one in given]
        response = await self._cluster.request_controller(DeleteAclsRequest(wanted), lambda r: r.filter_results)
        results = dict(zip(given, response.filter_results, strict=True))
        deleted = set()
        for one in reported(results, errors, repr):
            matching = {
                _acl((entry.resource_type, entry.resource_name, entry.pattern_type), entry): entry
                for entry in results[one].matching_acls
            }
            deleted.update(reported(matching, errors, repr))
        return sorted(deleted)


def _each(values: Iterable[T], kind: type[T], name: str) -> list[T]:
    """Raises TypeError."""
    given = list(values)
    for value in given:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be of the type {kind.__name__}, not {type(value).__name__}")
    return given


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
