"""LeaveGroup (key 13): one member up to v2; a batch by member id or group.instance.id from v3 (KIP-345); v4 flexible; v5
reasons (KIP-800).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@struct
class MemberIdentity(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable="0+", default=None)
    reason: str | None = field(string, "5+", nullable="5+", default=None)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: str = field(string)
    member_id: str = field(string, "0-2")
    members: list[MemberIdentity] = field(array(MemberIdentity), "3+")


@struct
class MemberResponse(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable="0+")
    error_code: int = field(int16)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
    members: list[MemberResponse] = field(array(MemberResponse), "3+")
