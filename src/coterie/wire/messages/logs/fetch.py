"""Fetch (key 1): records of partitions. v0 and v1 return message sets of format 0, v2 and v3 of format 1; v3 limits the
whole response, v4 returns batches and adds the isolation level, v7 fetch sessions (KIP-227), v9 leader epochs,
v11 rack, v12 flexible and diverging epochs, v13 topic ids, v15 replica state, v16 node endpoints, v17-18 tags that
only replicas send.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
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
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch, NodeEndpoint


@struct
class ReplicaState(Struct):
    replica_id: int = field(int32, default=-1)
    replica_epoch: int = field(int64, default=-1)


@struct
class FetchPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, "9+", default=-1)
    fetch_offset: int = field(int64)
    last_fetched_epoch: int = field(int32, "12+", default=-1)
    log_start_offset: int = field(int64, "5+", default=-1)
    partition_max_bytes: int = field(int32)
    replica_directory_id: bytes = field(uuid, "17+", tag=0)
    high_watermark: int = field(int64, "18+", tag=1, default=2**63 - 1)


@struct
class FetchTopic(Struct):
    topic: str = field(string, "0-12")
    topic_id: bytes = field(uuid, "13+")
    partitions: list[FetchPartition] = field(array(FetchPartition))


@struct
class ForgottenTopic(Struct):
    topic: str = field(string, "7-12")
    topic_id: bytes = field(uuid, "13+")
    partitions: list[int] = field(array(int32))


@message(api_key=1, versions="0-18", flexible="12+")
class FetchRequest(Message):
    cluster_id: str | None = field(string, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = field(int32, "0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, "3+", default=2**31 - 1)
    isolation_level: int = field(int8, "4+")
    session_id: int = field(int32, "7+")
    session_epoch: int = field(int32, "7+", default=-1)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), "7+")
    rack_id: str = field(string, "11+")


@struct
class EpochEndOffset(Struct):
    epoch: int = field(int32, default=-1)
    end_offset: int = field(int64, default=-1)


@struct
class SnapshotId(Struct):
    end_offset: int = field(int64, default=-1)
    epoch: int = field(int32, default=-1)


@struct
class AbortedTransaction(Struct):
    producer_id: int = field(int64)
    first_offset: int = field(int64)


@struct
class PartitionData(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    high_watermark: int = field(int64, default=-1)
    last_stable_offset: int = field(int64, "4+", default=-1)
    log_start_offset: int = field(int64, "5+", default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(array(AbortedTransaction), "4+", nullable="4+")
    preferred_read_replica: int = field(int32, "11+", default=-1)
    records: bytes | None = field(records)


@struct
class FetchableTopicResponse(Struct):
    topic: str = field(string, "0-12")
    topic_id: bytes = field(uuid, "13+")
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=1, versions="0-18", flexible="12+")
class FetchResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16, "7+")
    session_id: int = field(int32, "7+")
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "16+", tag=0)
