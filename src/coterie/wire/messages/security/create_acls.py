"""CreateAcls (key 30, KIP-140). v1 prefixed patterns (KIP-290), v2 flexible, v3 user resources (KIP-373)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@struct
class AclCreation(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    resource_pattern_type: int = field(int8, "1+", default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest(Message):
    creations: list[AclCreation] = field(array(AclCreation))


@struct
class AclCreationResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[AclCreationResult] = field(array(AclCreationResult))
