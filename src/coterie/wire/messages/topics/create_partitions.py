"""CreatePartitions (key 37): more partitions for a topic. v2 flexible, v3 quota errors (KIP-599)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int16, int32, message, string, struct


@struct
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(array(int32))


@struct
class CreatePartitionsTopic(Struct):
    name: str = field(string)
    count: int = field(int32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        array(CreatePartitionsAssignment), nullable="0+", default=None
    )


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


@struct
class CreatePartitionsTopicResult(Struct):
    name: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))
