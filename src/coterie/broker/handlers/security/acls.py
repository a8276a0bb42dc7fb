"""Access control lists: the broker has no authorizer, so each request is answered SECURITY_DISABLED, as by Kafka."""

from __future__ import annotations

from coterie.broker.handlers.services import Handler
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from coterie.wire.messages.security.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_CODE, _TEXT = ErrorCode.SECURITY_DISABLED, ErrorCode.SECURITY_DISABLED.text


def handle_describe_acls(broker: object, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_CODE, error_message=_TEXT)


def handle_create_acls(broker: object, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(_CODE, _TEXT) for _ in request.creations])


def handle_delete_acls(broker: object, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(_CODE, _TEXT) for _ in request.filters])


HANDLERS: dict[int, Handler] = {29: handle_describe_acls, 30: handle_create_acls, 31: handle_delete_acls}
