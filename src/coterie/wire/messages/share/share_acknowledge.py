"""ShareAcknowledge (key 79, KIP-932): a member of a share group acknowledges acquired records without fetching. v2 adds
renewals (KIP-1222). A batch has one type for all its records or one for each: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)
from coterie.wire.messages.logs.produce import NodeEndpoint


@struct
class AcknowledgementBatch(Struct):
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    acknowledge_types: list[int] = field(array(int8))


@struct
class AcknowledgePartition(Struct):
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class AcknowledgeTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgePartition] = field(array(AcknowledgePartition))


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


@struct
class CurrentLeader(Struct):
    """The leader's id, or -1 where it is unknown."""

    leader_id: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class AcknowledgedPartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    current_leader: CurrentLeader = field(CurrentLeader)


@struct
class AcknowledgedTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgedPartition] = field(array(AcknowledgedPartition))


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32, "2+")
    responses: list[AcknowledgedTopic] = field(array(AcknowledgedTopic))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
