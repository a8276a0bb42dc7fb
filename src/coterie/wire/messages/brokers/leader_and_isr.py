"""LeaderAndIsr (key 4): the controller gives a broker's replicas their roles. v1 says which are new, v2 groups by topic and has
the broker epoch (KIP-380), v3 reassignments (KIP-455), v4 flexible. As in Apache Kafka 2.6.
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
class LeaderAndIsrPartitionState(Struct):
    """``topic_name``: where the partitions are not grouped by topic."""

    topic_name: str = field(string, "0-1")
    partition_index: int = field(int32)
    controller_epoch: int = field(int32)
    leader: int = field(int32)
    leader_epoch: int = field(int32)
    isr: list[int] = field(array(int32))
    zk_version: int = field(int32)
    replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32), "3+")
    removing_replicas: list[int] = field(array(int32), "3+")
    is_new: bool = field(boolean, "1+")


@struct
class LeaderAndIsrTopicState(Struct):
    topic_name: str = field(string)
    partition_states: list[LeaderAndIsrPartitionState] = field(array(LeaderAndIsrPartitionState))


@struct
class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = field(int32)
    host_name: str = field(string)
    port: int = field(int32)


@message(api_key=4, versions="0-4", flexible="4+")
class LeaderAndIsrRequest(Message):
    controller_id: int = field(int32)
    controller_epoch: int = field(int32)
    broker_epoch: int = field(int64, "2+", default=-1)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(array(LeaderAndIsrPartitionState), "0-1")
    topic_states: list[LeaderAndIsrTopicState] = field(array(LeaderAndIsrTopicState), "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field(array(LeaderAndIsrLiveLeader))


@struct
class LeaderAndIsrPartitionError(Struct):
    topic_name: str = field(string)
    partition_index: int = field(int32)
    error_code: int = field(int16)


@message(api_key=4, versions="0-4", flexible="4+")
class LeaderAndIsrResponse(Message):
    error_code: int = field(int16)
    partition_errors: list[LeaderAndIsrPartitionError] = field(array(LeaderAndIsrPartitionError))
