"""JoinGroup (key 11): become a member and wait for the generation. v1 rebalance timeout, v4 MEMBER_ID_REQUIRED (KIP-394),
v5 static members (KIP-345), v6 flexible, v7 protocol type in the response (KIP-559), v8 reason (KIP-800), v9
SkipAssignment for a restarted static leader (KIP-814).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    bytes_,
    field,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class JoinGroupRequestProtocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, "1+", default=-1)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(string, "8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "5+", nullable="5+", default=None)
    metadata: bytes = field(bytes_)


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: int = field(int32, "2+")
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, "7+", nullable="7+", default=None)
    protocol_name: str | None = field(string, nullable="7+", default=None, null_as="")
    leader: str = field(string)
    skip_assignment: bool = field(boolean, "9+")
    member_id: str = field(string)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
