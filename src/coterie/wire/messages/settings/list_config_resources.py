"""ListConfigResources (key 74): which resources have settings, by type. v0 (KIP-714) lists client metrics and names no
type; v1 (KIP-1142) lists the requested types, or all.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    resource_types: list[int] = field(array(int8), "1+")


@struct
class ListedConfigResource(Struct):
    resource_name: str = field(string)
    resource_type: int = field(int8, "1+", default=16)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ListedConfigResource] = field(array(ListedConfigResource))
