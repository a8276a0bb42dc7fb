"""AlterClientQuotas (key 49, KIP-546): sets and removes quotas of entities. v1 flexible."""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    float64,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class EntityData(Struct):
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+", default=None)


@struct
class OpData(Struct):
    key: str = field(string)
    value: float = field(float64)
    remove: bool = field(boolean)


@struct
class EntryData(Struct):
    entity: list[EntityData] = field(array(EntityData))
    ops: list[OpData] = field(array(OpData))


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    entries: list[EntryData] = field(array(EntryData))
    validate_only: bool = field(boolean)


@struct
class AlteredEntry(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    entity: list[EntityData] = field(array(EntityData))


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = field(int32)
    entries: list[AlteredEntry] = field(array(AlteredEntry))
