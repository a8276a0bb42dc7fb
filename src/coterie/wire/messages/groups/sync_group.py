"""SyncGroup (key 14): the leader hands in the assignment, every member gets its share. v3 static members, v4 flexible, v5
protocol type and name are checked (KIP-559).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int16, int32, message, string, struct

PROTOCOL_FROM = 5


@struct
class SyncGroupRequestAssignment(Struct):
    member_id: str = field(string)
    assignment: bytes = field(bytes_)


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None)
    assignment: bytes = field(bytes_)


def is_without_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether it lacks the type or the name of the protocol, which clients name from version 5 on."""
    return version >= PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name)
