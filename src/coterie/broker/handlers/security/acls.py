"""ACLs described, created and deleted (KIP-140). Without an authorizer each request is SECURITY_DISABLED, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission, check
from coterie.broker.clients.acls import Acls
from coterie.broker.handlers.administration.cluster_responses import refusal_of, responded_by
from coterie.broker.handlers.services import ClientServices, Handler
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.security.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from coterie.wire.messages.security.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from coterie.wire.messages.security.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from coterie.zookeeper.operations import ZooKeeperError

E = TypeVar("E", bound=IntEnum)
_CODE, _TEXT = ErrorCode.SECURITY_DISABLED, ErrorCode.SECURITY_DISABLED.text


def handle_describe_acls(broker: ClientServices, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """The entries that the filter describes, by resource pattern."""
    acls = broker.clients.acls
    if acls is None:
        return DescribeAclsResponse(error_code=_CODE, error_message=_TEXT)
    by_pattern: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls.authorizer.matching(_filter(request)):
        pattern = acl.resource_type, acl.name, acl.pattern_type
        resource = by_pattern.setdefault(pattern, DescribeAclsResource(*pattern))
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(error_message="", resources=list(by_pattern.values()))


def handle_create_acls(broker: ClientServices, request: CreateAclsRequest, call: Call) -> Message | Pending:
    """Each entry for itself: INVALID_REQUEST."""
    acls = broker.clients.acls
    if acls is None:
        return CreateAclsResponse(results=[AclCreationResult(_CODE, _TEXT) for _ in request.creations])
    created = [_acl(creation) for creation in request.creations]
    refusals = [_refusal(acl) for acl in created]
    added = [acl for acl, refusal in zip(created, refusals, strict=True) if refusal is None]

    def response(failed: Refusal | None) -> Message:
        return CreateAclsResponse(results=[_creation_result(refusal or failed) for refusal in refusals])

    if broker.acl_nodes is None:
        return response(_keep(acls, added, ()))

    async def in_cluster() -> Message:
        assert broker.acl_nodes is not None
        try:
            await broker.acl_nodes.alter(added)
        except ZooKeeperError as error:
            return response(refusal_of(error))
        return response(None)

    return responded_by(in_cluster())


def handle_delete_acls(broker: ClientServices, request: DeleteAclsRequest, call: Call) -> Message | Pending:
    """Each filter finds its entries before any is deleted."""
    acls = broker.clients.acls
    if acls is None:
        return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(_CODE, _TEXT) for _ in request.filters])
    matching = [acls.authorizer.matching(_filter(wanted)) for wanted in request.filters]
    removed = {acl for every in matching for acl in every}

    def response(failed: Refusal | None) -> Message:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(matching_acls=[_deleted(acl, failed) for acl in matched]) for matched in matching
            ]
        )

    if broker.acl_nodes is None:
        return response(_keep(acls, (), removed))

    async def in_cluster() -> Message:
        assert broker.acl_nodes is not None
        try:
            await broker.acl_nodes.alter((), removed)
        except ZooKeeperError as error:
            return response(refusal_of(error))
        return response(None)

    return responded_by(in_cluster())


def _keep(acls: Acls, added: Iterable[Acl], removed: Iterable[Acl]) -> Refusal | None:
    try:
        acls.alter(added, set(removed))
    except OSError as error:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the ACLs cannot be written: {error.strerror}")
    return None


def _refusal(acl: Acl) -> Refusal | None:
    try:
        check(acl)
    except Refusal as refusal:
        return refusal
    return None


def _creation_result(refusal: Refusal | None) -> AclCreationResult:
    return AclCreationResult(error_message="") if refusal is None else AclCreationResult(refusal.code, str(refusal))


def _deleted(acl: Acl, failed: Refusal | None) -> DeleteAclsMatchingAcl:
    code, text = (ErrorCode.NONE, None) if failed is None else (failed.code, str(failed))
    return DeleteAclsMatchingAcl(
        code,
        text,
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _member(kind: type[E], code: int) -> E:
    """Kafka cannot read a request with a code that is unknown to it, and closes the connection. Raises CannotRespond."""
    if code not in kind.__members__.values() or not code:
        raise CannotRespond(f"a request for ACLs with {kind.__name__} {code}, which is unknown")
    return kind(code)


def _acl(creation: AclCreation) -> Acl:
    """Raises CannotRespond."""
    return Acl(
        _member(AclResourceType, creation.resource_type),
        creation.resource_name,
        _member(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _member(AclOperation, creation.operation),
        _member(Permission, creation.permission_type),
    )


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Raises CannotRespond."""
    return AclFilter(
        _member(AclResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _member(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _member(AclOperation, wanted.operation),
        _member(Permission, wanted.permission_type),
    )


HANDLERS: dict[int, Handler] = {29: handle_describe_acls, 30: handle_create_acls, 31: handle_delete_acls}
