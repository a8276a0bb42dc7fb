"""DeleteTopics (key 20). v4 flexible, v5 error texts, v6 topics by id (KIP-516)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct, uuid

BY_ID_FROM = 6


@struct
class DeleteTopicState(Struct):
    name: str | None = field(string, nullable="6+", default=None)
    topic_id: bytes = field(uuid)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = field(array(DeleteTopicState), "6+")
    topic_names: list[str] = field(array(string), "0-5")
    timeout_ms: int = field(int32)


@struct
class DeletableTopicResult(Struct):
    name: str | None = field(string, nullable="6+")
    topic_id: bytes = field(uuid, "6+")
    error_code: int = field(int16)
    error_message: str | None = field(string, "5+", nullable="5+", default=None)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))


def topics_to_delete(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    """Names alone until version 5."""
    return request.topics if version >= BY_ID_FROM else [DeleteTopicState(name) for name in request.topic_names]
