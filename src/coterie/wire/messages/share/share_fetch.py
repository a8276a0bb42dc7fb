"""ShareFetch (key 78, KIP-932): a member of a share group acquires records in a share session, and acknowledges in the same
request those of an earlier response. v2 adds the acquire mode (KIP-1206) and renewals (KIP-1222).
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
    records,
    string,
    struct,
    uuid,
)
from coterie.wire.messages.logs.produce import NodeEndpoint
from coterie.wire.messages.share.share_acknowledge import AcknowledgementBatch, CurrentLeader


@struct
class ShareFetchPartition(Struct):
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class ShareFetchTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[ShareFetchPartition] = field(array(ShareFetchPartition))


@struct
class ForgottenShareTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Message):
    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=2**31 - 1)
    max_records: int = field(int32, "1+")
    batch_size: int = field(int32, "1+")
    share_acquire_mode: int = field(int8, "2+")
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[ShareFetchTopic] = field(array(ShareFetchTopic))
    forgotten_topics_data: list[ForgottenShareTopic] = field(array(ForgottenShareTopic))


@struct
class AcquiredRecords(Struct):
    """Offsets first to last, that one included."""

    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_count: int = field(int16)


@struct
class SharePartitionData(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acknowledge_error_code: int = field(int16)
    acknowledge_error_message: str | None = field(string, nullable="0+", default=None)
    current_leader: CurrentLeader = field(CurrentLeader)
    records: bytes | None = field(records, nullable="0")
    acquired_records: list[AcquiredRecords] = field(array(AcquiredRecords))


@struct
class ShareFetchableTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[SharePartitionData] = field(array(SharePartitionData))


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32, "1+")
    responses: list[ShareFetchableTopic] = field(array(ShareFetchableTopic))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
