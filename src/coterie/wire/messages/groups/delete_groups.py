"""DeleteGroups (key 42): removes Empty groups with their offsets. v2 flexible, v3 with a text for each error (KIP-1331)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[str] = field(array(string))


@struct
class DeletableGroupResult(Struct):
    group_id: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, "3+", nullable="3+", default=None)


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))
