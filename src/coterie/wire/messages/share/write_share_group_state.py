"""WriteShareGroupState (key 85, KIP-932): the leader of a partition has the share coordinator keep what changed of its state in
a share group. v1 adds the delivery complete count (KIP-1226): the records after the start offset that are done with.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int32, int64, message, string, struct, uuid
from coterie.wire.messages.share.initialize_share_group_state import TopicStateResult
from coterie.wire.messages.stored.share_group_state import StateBatch


@struct
class WrittenPartitionState(Struct):
    partition: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, "1+", default=-1)
    state_batches: list[StateBatch] = field(array(StateBatch))


@struct
class WrittenTopicState(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[WrittenPartitionState] = field(array(WrittenPartitionState))


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Message):
    group_id: str = field(string)
    topics: list[WrittenTopicState] = field(array(WrittenTopicState))


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    results: list[TopicStateResult] = field(array(TopicStateResult))
