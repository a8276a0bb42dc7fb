"""IncrementalAlterConfigs (key 44): single settings of a topic or broker set or taken back (KIP-339). v1 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct

SET, DELETE, APPEND, SUBTRACT = range(4)


@struct
class AlterableConfig(Struct):
    name: str = field(string)
    config_operation: int = field(int8)
    value: str | None = field(string, nullable="0+")


@struct
class AlterConfigsResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(boolean)


@struct
class AlterConfigsResourceResponse(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = field(int32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
