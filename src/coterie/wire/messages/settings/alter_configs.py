"""AlterConfigs (key 33): all settings of a topic or broker replaced by those given (KIP-133). v2 flexible.

Newer clients use IncrementalAlterConfigs, which changes single ones.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct


@struct
class ReplacingConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


@struct
class ReplacedResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[ReplacingConfig] = field(array(ReplacingConfig))


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    resources: list[ReplacedResource] = field(array(ReplacedResource))
    validate_only: bool = field(boolean)


@struct
class ReplacedResourceResponse(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    throttle_time_ms: int = field(int32)
    responses: list[ReplacedResourceResponse] = field(array(ReplacedResourceResponse))
