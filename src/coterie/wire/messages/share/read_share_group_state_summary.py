"""ReadShareGroupStateSummary (key 87, KIP-932): the group coordinator reads the start offsets of partitions in a share group,
to describe them. v1 adds the delivery complete count (KIP-1226), from which the lag is computed.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid
from coterie.wire.messages.share.read_share_group_state import ReadStateTopic


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = field(string)
    topics: list[ReadStateTopic] = field(array(ReadStateTopic))


@struct
class PartitionStateSummary(Struct):
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, "1+", default=-1)


@struct
class TopicStateSummary(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionStateSummary] = field(array(PartitionStateSummary))


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    results: list[TopicStateSummary] = field(array(TopicStateSummary))
