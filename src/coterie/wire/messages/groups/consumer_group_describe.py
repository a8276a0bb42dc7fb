"""ConsumerGroupDescribe (key 69, KIP-848): consumer groups with their epochs, and members with what they own and shall own.
v1 adds the member type (KIP-1099): -1 unknown, 0 classic, 1 consumer.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@struct
class Member(Struct):
    member_id: str = field(string)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(int8, "1+", default=-1)


@struct
class DescribedGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(int32, default=-(2**31))


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
