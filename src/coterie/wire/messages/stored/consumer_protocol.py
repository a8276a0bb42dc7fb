"""What consumers put into JoinGroup and SyncGroup (protocol type "consumer"): a subscription and an assignment, each behind
an int16 version. v1 owned partitions (KIP-429), v2 generation (KIP-792), v3 rack (KIP-881).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int32, message, string, struct


@struct
class TopicPartitions(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(versions="0-3")
class ConsumerProtocolSubscription(Message):
    topics: list[str] = field(array(string))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), "1+")
    generation_id: int = field(int32, "2+", default=-1)
    rack_id: str | None = field(string, "3+", nullable="3+", default=None)


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
