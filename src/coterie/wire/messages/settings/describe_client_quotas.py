"""DescribeClientQuotas (key 48, KIP-546): quotas whose entities match a filter. v1 flexible."""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class ComponentData(Struct):
    entity_type: str = field(string)
    match_type: int = field(int8)
    match: str | None = field(string, nullable="0+", default=None)


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(boolean)


@struct
class EntityData(Struct):
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+", default=None)


@struct
class ValueData(Struct):
    key: str = field(string)
    value: float = field(float64)


@struct
class EntryData(Struct):
    entity: list[EntityData] = field(array(EntityData))
    values: list[ValueData] = field(array(ValueData))


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    entries: list[EntryData] | None = field(array(EntryData), nullable="0+")
