"""TxnOffsetCommit (key 28): offsets that count once their transaction commits (KIP-98). v2 leader epochs, v3 flexible, with
the member's own data (KIP-447); v4 new error codes and v5 no AddOffsetsToTxn before it (KIP-890); v6 topic ids in place of
names (KIP-1319).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, "2+", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(string, "0-5")
    topic_id: bytes = field(uuid, "6+")
    partitions: list[TxnOffsetCommitRequestPartition] = field(array(TxnOffsetCommitRequestPartition))


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: str = field(string)
    group_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    generation_id_or_member_epoch: int = field(int32, "3+", default=-1)
    member_id: str = field(string, "3+")
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(string, "0-5")
    topic_id: bytes = field(uuid, "6+")
    partitions: list[TxnOffsetCommitResponsePartition] = field(array(TxnOffsetCommitResponsePartition))


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = field(int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))
