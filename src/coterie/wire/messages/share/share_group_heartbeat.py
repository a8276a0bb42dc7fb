"""ShareGroupHeartbeat (key 76, KIP-932): a member of a share group joins (epoch 0), stays and leaves (-1) by it. Null in a
request: unchanged. v0 was an early access that Apache Kafka 4.1 has dropped.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, array, field, int16, int32, message, string
from coterie.wire.messages.groups.consumer_group_heartbeat import Assignment


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
