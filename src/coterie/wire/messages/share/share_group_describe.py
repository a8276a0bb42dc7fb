"""ShareGroupDescribe (key 77, KIP-932): share groups with their epochs, and members with what they are assigned. Members own
no partition of their own: several may have the same one.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int16, int32, message, string, struct
from coterie.wire.messages.groups.consumer_group_describe import Assignment


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class ShareMember(Struct):
    member_id: str = field(string)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    assignment: Assignment = field(Assignment)


@struct
class DescribedShareGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[ShareMember] = field(array(ShareMember))
    authorized_operations: int = field(int32, default=-(2**31))


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedShareGroup] = field(array(DescribedShareGroup))
