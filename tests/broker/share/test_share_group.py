"""A whole share group: members that heartbeat, a coordinator that initializes the state, and the records that are shared."""

from __future__ import annotations

import asyncio

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from coterie.wire.messages.share.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie_conformance.share_stories.raw_member import ACCEPT, LIMIT_S, RawShareMember, acknowledged
from tests.broker.share.share_world import GROUP, TOPIC, ShareWorld, in_share_world


async def assigned(member: RawShareMember) -> list[int]:
    """The partitions that the member has once its assignment comes."""
    epoch, partitions = 0, list[int]()
    for _ in range(10):
        request = ShareGroupHeartbeatRequest(GROUP, member.member_id, epoch, None, [TOPIC] if epoch == 0 else None)
        response = await member.connection.request(request, ShareGroupHeartbeatResponse, LIMIT_S)
        assert response.error_code == 0, response.error_message
        epoch = response.member_epoch
        if response.assignment is not None:
            partitions = [p for topic in response.assignment.topic_partitions for p in topic.partitions]
        if partitions:
            break
        await asyncio.sleep(1)
    return partitions


def test_two_members_share_a_partition() -> None:
    """The state is initialized by the group's coordinator; each record goes to one of them."""

    async def story(share: ShareWorld) -> None:
        share.broker.broker.share.configure(GROUP, {"share.auto.offset.reset": "earliest"})
        one, two = await share.member("one"), await share.member("two")
        assert await assigned(one) == [0]
        assert await assigned(two) == [0]
        assert await one.acquired([0], max_records=3, share_acquire_mode=1) == [(0, 0, 2, 1)]
        assert await two.acquired([0]) == [(0, 3, 5, 1)]
        for member, first, last in ((one, 0, 2), (two, 3, 5)):
            assert acknowledged(await member.acknowledge({0: [(first, last, ACCEPT)]}))[0].error_code == 0
        assert share.broker.broker.share.start_offsets(GROUP) == {0: 6}

    in_share_world(story, records=6, start_offset=None)


def test_a_member_id_that_is_none_is_refused_without_a_text() -> None:
    """As by Kafka's KafkaApis.isMemberIdValid, whose error response has no message."""

    async def story(share: ShareWorld) -> None:
        member = await share.member("one")
        for member_id in ("", "m" * 37):
            request = ShareGroupHeartbeatRequest(GROUP, member_id, 0, None, [TOPIC])
            response = await member.connection.request(request, ShareGroupHeartbeatResponse, LIMIT_S)
            assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, None)

    in_share_world(story, records=0, start_offset=None)


def test_a_topic_without_partitions_is_no_part_of_what_is_initialized() -> None:
    """Kafka's ShareCoordinatorService looks for such topics in the four other requests about states alone."""

    async def story(share: ShareWorld) -> None:
        member = await share.member("one")
        topics = [InitializedTopic(share.topic_id, [InitializedPartition(0)]), InitializedTopic(bytes(16), [])]
        request = InitializeShareGroupStateRequest("other", topics)
        response = await member.connection.request(request, InitializeShareGroupStateResponse, LIMIT_S)
        assert [(r.topic_id, [p.error_code for p in r.partitions]) for r in response.results] == [(share.topic_id, [0])]
        request = InitializeShareGroupStateRequest("other", [InitializedTopic(share.topic_id, [])])
        assert (await member.connection.request(request, InitializeShareGroupStateResponse, LIMIT_S)).results == []

    in_share_world(story, records=0)
