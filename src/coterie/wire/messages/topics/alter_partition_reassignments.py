"""AlterPartitionReassignments (key 45, KIP-455): the replicas that partitions shall have; null cancels. v1 may
forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int16, int32, message, string, struct


@struct
class ReassignablePartition(Struct):
    partition_index: int = field(int32)
    replicas: list[int] | None = field(array(int32), nullable="0+", default=None)


@struct
class ReassignableTopic(Struct):
    name: str = field(string)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = field(int32, default=60000)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@struct
class ReassignableTopicResponse(Struct):
    name: str = field(string)
    partitions: list[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = field(int32)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))
