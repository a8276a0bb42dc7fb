"""DeleteShareGroupOffsets (key 92, KIP-932): drops topics of an empty share group, with the state of their partitions."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct, uuid


@struct
class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(string)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = field(string)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(array(DeleteShareGroupOffsetsRequestTopic))


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(array(DeleteShareGroupOffsetsResponseTopic))
