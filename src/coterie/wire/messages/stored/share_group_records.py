"""Keys and values of a share group's records in `__consumer_offsets` (KIP-932), as Apache Kafka 4.4 writes them. The version
of a key is its kind: 10 a member, 11 the group, 12 the target assignment, 13 a member's part of it, 14 what a member is
assigned, 15 the partitions whose state the share coordinator keeps.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int32, int64, message, string, struct, uuid
from coterie.wire.messages.stored.consumer_group_records import TargetPartitions


@message(versions="10")
class ShareGroupMemberMetadataKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))


@message(versions="11")
class ShareGroupMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    epoch: int = field(int32)
    metadata_hash: int = field(int64)


@message(versions="12")
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)  # ms since 1970 (KIP-1263)


@message(versions="13")
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TargetPartitions] = field(array(TargetPartitions))


@message(versions="14")
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[TargetPartitions] = field(array(TargetPartitions))


@message(versions="15")
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = field(string)


@struct
class TopicPartitionsInfo(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class DeletingTopic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    deleting_topics: list[DeletingTopic] = field(array(DeletingTopic))
