"""StreamsGroupTopologyDescriptionUpdate (key 93, KIP-1331): a member describes the topology of its group, for a plugin of the
broker."""

from __future__ import annotations

from coterie.wire.declaration import Message, field, int16, int32, message, string
from coterie.wire.messages.streams.streams_group_describe import TopologyDescription


@message(api_key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    group_id: str = field(string)
    member_id: str = field(string)
    topology_epoch: int = field(int32)
    topology_description: TopologyDescription = field(TopologyDescription)


@message(api_key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
