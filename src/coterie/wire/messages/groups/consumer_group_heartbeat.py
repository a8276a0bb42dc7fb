"""ConsumerGroupHeartbeat (key 68, KIP-848): a member of a consumer group joins, stays, reports what it owns and leaves by it.
v1 adds the regular expression, and the member makes its id itself (KIP-1082). Null, or -1, in a request: unchanged.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct, uuid


@struct
class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+", default=None)


@struct
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
