"""InitializeShareGroupState (key 83, KIP-932): the group coordinator has the share coordinator keep partitions' state from a
start offset on. The results of partitions here are those of writing and deleting too.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid


@struct
class InitializedPartition(Struct):
    partition: int = field(int32)
    state_epoch: int = field(int32)
    start_offset: int = field(int64)


@struct
class InitializedTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[InitializedPartition] = field(array(InitializedPartition))


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    group_id: str = field(string)
    topics: list[InitializedTopic] = field(array(InitializedTopic))


@struct
class PartitionStateResult(Struct):
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@struct
class TopicStateResult(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionStateResult] = field(array(PartitionStateResult))


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    results: list[TopicStateResult] = field(array(TopicStateResult))
