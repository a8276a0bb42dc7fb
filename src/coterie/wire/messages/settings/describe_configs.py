"""DescribeConfigs (key 32): settings of topics (resource type 2) and of the broker (4), with where each value comes from
(source 1 topic, 2 to 4 broker, 5 default). v1 sources for v0's is_default, v3 types and documentation (KIP-569), v4 flexible.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct


@struct
class DescribeConfigsResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configuration_keys: list[str] | None = field(array(string), nullable="0+")


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(boolean, "1+")
    include_documentation: bool = field(boolean, "3+")


@struct
class DescribeConfigsSynonym(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    source: int = field(int8)


@struct
class DescribeConfigsResourceResult(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    read_only: bool = field(boolean)
    is_default: bool = field(boolean, "0")
    config_source: int = field(int8, "1+", default=-1)
    is_sensitive: bool = field(boolean)
    synonyms: list[DescribeConfigsSynonym] = field(array(DescribeConfigsSynonym), "1+")
    config_type: int = field(int8, "3+")
    documentation: str | None = field(string, "3+", nullable="0+")


@struct
class DescribeConfigsResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))
