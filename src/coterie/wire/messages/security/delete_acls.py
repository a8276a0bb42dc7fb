"""DeleteAcls (key 31, KIP-140). v1 prefixed patterns (KIP-290), v2 flexible, v3 user resources (KIP-373)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@struct
class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+", default=None)
    pattern_type_filter: int = field(int8, "1+", default=3)
    principal_filter: str | None = field(string, nullable="0+", default=None)
    host_filter: str | None = field(string, nullable="0+", default=None)
    operation: int = field(int8)
    permission_type: int = field(int8)


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest(Message):
    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, "1+", default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class DeleteAclsFilterResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse(Message):
    throttle_time_ms: int = field(int32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))
