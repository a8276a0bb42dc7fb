"""ElectLeaders (key 43, KIP-183). v1 election type and a top-level error (KIP-460), v2 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@struct
class TopicPartitions(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    election_type: int = field(int8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(int32, default=60000)


@struct
class PartitionResult(Struct):
    partition_id: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@struct
class ReplicaElectionResult(Struct):
    topic: str = field(string)
    partition_result: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))
