"""Keys and values of `__consumer_offsets` (Kafka's GroupMetadataValue and the like). They start with an int16 version: keys 0
and 1 are an offset, key 2 is a group. Kafka writes offset values v3 (v1 for an explicit expiry) and group values v3;
v4 of both is flexible and written only by future brokers, but read here.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int32, int64, message, string, struct, uuid


@message(versions="0-1")
class OffsetCommitKey(Message):
    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


@message(versions="2")
class GroupMetadataKey(Message):
    group: str = field(string)


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int = field(int64)
    leader_epoch: int = field(int32, "3+", default=-1)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, "1", default=-1)
    topic_id: bytes = field(uuid, "4+", tag=0)


@struct
class MemberMetadata(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout: int = field(int32, "1+")
    session_timeout: int = field(int32)
    subscription: bytes = field(bytes_)
    assignment: bytes = field(bytes_)


@message(versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+")
    leader: str | None = field(string, nullable="0+")
    current_state_timestamp: int = field(int64, "2+", default=-1)
    members: list[MemberMetadata] = field(array(MemberMetadata))
