"""StopReplica (key 5): the controller ends a broker's replicas. v1 groups by topic and has the broker epoch (KIP-380), v2 is
flexible, v3 has a leader epoch for each partition (KIP-570). As in Apache Kafka 2.6.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@struct
class StopReplicaPartitionV0(Struct):
    topic_name: str = field(string)
    partition_index: int = field(int32)


@struct
class StopReplicaTopicV1(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@struct
class StopReplicaPartitionState(Struct):
    partition_index: int = field(int32)
    leader_epoch: int = field(int32, default=-1)
    delete_partition: bool = field(boolean)


@struct
class StopReplicaTopicState(Struct):
    topic_name: str = field(string)
    partition_states: list[StopReplicaPartitionState] = field(array(StopReplicaPartitionState))


@message(api_key=5, versions="0-3", flexible="2+")
class StopReplicaRequest(Message):
    controller_id: int = field(int32)
    controller_epoch: int = field(int32)
    broker_epoch: int = field(int64, "1+", default=-1)
    delete_partitions: bool = field(boolean, "0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(array(StopReplicaPartitionV0), "0")
    topics: list[StopReplicaTopicV1] = field(array(StopReplicaTopicV1), "1-2")
    topic_states: list[StopReplicaTopicState] = field(array(StopReplicaTopicState), "3+")


@struct
class StopReplicaPartitionError(Struct):
    topic_name: str = field(string)
    partition_index: int = field(int32)
    error_code: int = field(int16)


@message(api_key=5, versions="0-3", flexible="2+")
class StopReplicaResponse(Message):
    error_code: int = field(int16)
    partition_errors: list[StopReplicaPartitionError] = field(array(StopReplicaPartitionError))
