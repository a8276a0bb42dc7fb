"""ReadShareGroupState (key 84, KIP-932): the leader of a partition reads its state in a share group, and thereby takes it over:
from then on the share coordinator refuses older leader epochs.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid
from coterie.wire.messages.stored.share_group_state import StateBatch


@struct
class ReadStatePartition(Struct):
    partition: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class ReadStateTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[ReadStatePartition] = field(array(ReadStatePartition))


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: str = field(string)
    topics: list[ReadStateTopic] = field(array(ReadStateTopic))


@struct
class SharePartitionState(Struct):
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    state_epoch: int = field(int32)
    start_offset: int = field(int64)
    state_batches: list[StateBatch] = field(array(StateBatch))


@struct
class ShareTopicState(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[SharePartitionState] = field(array(SharePartitionState))


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ShareTopicState] = field(array(ShareTopicState))
