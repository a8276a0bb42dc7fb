"""DescribeAcls (key 29, KIP-140): access control entries by filter. v1 prefixed patterns (KIP-290), v2 flexible, v3 user
resources (KIP-373).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest(Message):
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+", default=None)
    pattern_type_filter: int = field(int8, "1+", default=3)
    principal_filter: str | None = field(string, nullable="0+", default=None)
    host_filter: str | None = field(string, nullable="0+", default=None)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class AclDescription(Struct):
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class DescribeAclsResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, "1+", default=3)
    acls: list[AclDescription] = field(array(AclDescription))


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))
