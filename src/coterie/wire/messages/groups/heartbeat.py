"""Heartbeat (key 12): a member's sign of life, and its notice of a rebalance. v3 static members, v4 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, field, int16, int32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16)
