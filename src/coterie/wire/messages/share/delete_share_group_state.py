"""DeleteShareGroupState (key 86, KIP-932): the group coordinator has the share coordinator drop partitions' state, as their
group or topic is deleted.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int32, message, string, struct, uuid
from coterie.wire.messages.share.initialize_share_group_state import TopicStateResult


@struct
class DeletedStatePartition(Struct):
    partition: int = field(int32)


@struct
class DeletedStateTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[DeletedStatePartition] = field(array(DeletedStatePartition))


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    group_id: str = field(string)
    topics: list[DeletedStateTopic] = field(array(DeletedStateTopic))


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    results: list[TopicStateResult] = field(array(TopicStateResult))
