"""Keys and values of a consumer group's records in `__consumer_offsets` (KIP-848), as Apache Kafka 4.3 writes them. The version
of a key is its kind: 3 the group, 4 its topics' partitions (before 4.1; read, and written as a tombstone only),
5 a member, 6 the target assignment, 7 a member's part of it, 8 what a member owns, 16 a regular expression with its topics.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    bytes_,
    field,
    int8,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@message(versions="3")
class ConsumerGroupMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    epoch: int = field(int32)
    metadata_hash: int = field(int64, tag=0)  # KIP-1101


@message(versions="4")
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = field(string)


@struct
class PartitionMetadata(Struct):
    partition: int = field(int32)
    racks: list[str] = field(array(string))


@struct
class TopicMetadata(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    num_partitions: int = field(int32)
    partition_metadata: list[PartitionMetadata] = field(array(PartitionMetadata))


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    topics: list[TopicMetadata] = field(array(TopicMetadata))


@message(versions="5")
class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@struct
class ClassicProtocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


@struct
class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field(int32)
    supported_protocols: list[ClassicProtocol] = field(array(ClassicProtocol))


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", tag=0, default=None
    )


@message(versions="6")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)  # ms since 1970 (KIP-1263)


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@struct
class TargetPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TargetPartitions] = field(array(TargetPartitions))


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@struct
class OwnedPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, default=None)  # KIP-1251


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[OwnedPartitions] = field(array(OwnedPartitions))
    partitions_pending_revocation: list[OwnedPartitions] = field(array(OwnedPartitions))


@message(versions="16")
class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = field(string)
    regular_expression: str = field(string)


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)  # ms since 1970
