"""UnregisterController (key 94): takes the registration of a controller out of the KRaft quorum's metadata."""

from __future__ import annotations

from coterie.wire.declaration import Message, field, int16, int32, message, string


@message(api_key=94, versions="0", flexible="0+")
class UnregisterControllerRequest(Message):
    controller_id: int = field(int32)


@message(api_key=94, versions="0", flexible="0+")
class UnregisterControllerResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
