"""ListPartitionReassignments (key 46, KIP-455): the reassignments under way."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@struct
class ListPartitionReassignmentsTopics(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = field(int32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment(Struct):
    partition_index: int = field(int32)
    replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32))
    removing_replicas: list[int] = field(array(int32))


@struct
class OngoingTopicReassignment(Struct):
    name: str = field(string)
    partitions: list[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))
