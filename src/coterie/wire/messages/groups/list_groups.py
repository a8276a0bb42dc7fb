"""ListGroups (key 16). v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    states_filter: list[str] = field(array(string), "4+")
    types_filter: list[str] = field(array(string), "5+")


@struct
class ListedGroup(Struct):
    group_id: str = field(string)
    protocol_type: str = field(string)
    group_state: str = field(string, "4+")
    group_type: str = field(string, "5+")


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    groups: list[ListedGroup] = field(array(ListedGroup))
