"""One API at a time through every version it has, as Kafka's request tests do."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from coterie.wire.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.awaiting import quiet
from tests.broker.connections.test_server import Client, broker, make_topic

NONE, UNKNOWN, REBALANCING = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS


async def join(client: Client, member: str = "", static: str | None = None, group: str = "g") -> JoinGroupResponse:
    protocols = [JoinGroupRequestProtocol("range", encode_subscription(["t"]))]
    request = JoinGroupRequest(group, 10_000, 10_000, member, static, "consumer", protocols)
    return await client.ask(request, JoinGroupResponse, 9 if static else 3)


async def sync(client: Client, version: int, member: str, generation: int = 1, **changed: Any) -> SyncGroupResponse:
    named = {"protocol_type": "consumer", "protocol_name": "range"} | changed
    share = [SyncGroupRequestAssignment(member, b"x")]
    return await client.ask(
        SyncGroupRequest("g", generation, member, assignments=share, **named), SyncGroupResponse, version
    )


async def stable(client: Client) -> str:
    member = (await join(client)).member_id
    assert (await sync(client, 5, member)).error_code == NONE
    return member


async def test_a_new_member_id_ends_with_a_random_uuid() -> None:
    async with broker() as connect:
        client = await connect()
        for n in range(20):
            text = (await join(client, group=f"g{n}")).member_id[-36:]
            assert (str(UUID(text)), UUID(text).variant, UUID(text).version) == (text, RFC_4122, 4)


@pytest.mark.parametrize("version", range(6))
async def test_sync_group(version: int) -> None:
    """SyncGroupRequestTest: unknown group and member, wrong generation, wrong type or name, leader and follower first."""
    async with broker() as connect:
        client, other = await connect(), await connect()
        assert (await sync(client, version, "nobody")).error_code == UNKNOWN
        leader = (await join(client)).member_id
        assert (await sync(client, version, "nobody")).error_code == UNKNOWN
        assert (await sync(client, version, leader, 2)).error_code == ErrorCode.ILLEGAL_GENERATION
        if version >= 5:
            differing: list[dict[str, Any]] = [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}]
            for changed in differing:
                wrong = await sync(client, version, leader, **changed)
                assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                assert (wrong.protocol_type, wrong.protocol_name) == (None, None)
        good = await sync(client, version, leader)
        assert (good.error_code, good.assignment) == (NONE, b"x")
        if version >= 5:
            assert (good.protocol_type, good.protocol_name) == ("consumer", "range")
        # A static second member; the follower syncs first and waits for the leader.
        follower = asyncio.create_task(join(other, static="i"))
        await quiet()
        again = await join(client, leader)
        joined = await follower
        assert again.generation_id == joined.generation_id == 2
        named: dict[str, Any] = {} if version < 5 else {"protocol_type": "consumer", "protocol_name": "range"}
        instance = "i" if version >= 3 else None
        waiting = SyncGroupRequest("g", 2, joined.member_id, instance, **named)
        response = asyncio.create_task(other.ask(waiting, SyncGroupResponse, version))
        await quiet()
        assert not response.done()
        shares = [SyncGroupRequestAssignment(m, m.encode()) for m in (leader, joined.member_id)]
        request = SyncGroupRequest("g", 2, leader, assignments=shares, **named)
        assert (await client.ask(request, SyncGroupResponse, version)).assignment == leader.encode()
        assert (await response).assignment == joined.member_id.encode()


@pytest.mark.parametrize("version", range(5))
async def test_heartbeat(version: int) -> None:
    """HeartbeatRequestTest: unknown group and member, wrong generation, then one in each state."""
    async with broker() as connect:
        client, other = await connect(), await connect()

        async def beat(member: str, generation: int = 1) -> int:
            return (await client.ask(HeartbeatRequest("g", generation, member), HeartbeatResponse, version)).error_code

        assert await beat("nobody") == UNKNOWN
        member = (await join(client)).member_id
        assert await beat("nobody") == UNKNOWN
        assert await beat(member, 9) == ErrorCode.ILLEGAL_GENERATION
        assert await beat(member) == NONE  # CompletingRebalance
        await sync(client, 5, member)
        assert await beat(member) == NONE  # Stable
        waiting = asyncio.create_task(join(other))
        await quiet()
        assert await beat(member) == REBALANCING
        await client.ask(LeaveGroupRequest("g", member), LeaveGroupResponse, 2)
        late = (await waiting).member_id
        await client.ask(LeaveGroupRequest("g", late), LeaveGroupResponse, 2)
        assert await beat(member) == UNKNOWN  # Empty


@pytest.mark.parametrize("version", range(6))
async def test_leave_group(version: int) -> None:
    """LeaveGroupRequestTest: one member up to v2, a batch from v3, static by instance id alone; the group ends Empty."""
    async with broker() as connect:
        client = await connect()
        member = await stable(client)
        if version < 3:
            for who, code in (("nobody", UNKNOWN), (member, NONE)):
                response = await client.ask(LeaveGroupRequest("g", who), LeaveGroupResponse, version)
                assert response.error_code == code
        else:
            other = await connect()
            waiting = asyncio.create_task(join(other, static="i"))
            await quiet()
            await join(client, member)
            await waiting
            left = [
                MemberIdentity("nobody"),
                MemberIdentity("", "none"),
                MemberIdentity(member),
                MemberIdentity("", "i"),
            ]
            response = await client.ask(LeaveGroupRequest("g", members=left), LeaveGroupResponse, version)
            assert response.error_code == NONE
            assert [m.error_code for m in response.members] == [UNKNOWN, UNKNOWN, NONE, NONE]
        described = await client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5)
        assert described.groups[0].group_state == "Empty"


async def test_offset_delete() -> None:
    """OffsetDeleteRequestTest: unknown group, live group subscribed or not, empty group, each partition for itself."""
    async with broker() as connect:
        client = await connect()
        for topic in ("t", "u"):
            await make_topic(client, topic, 2)

        async def delete(*names: str, group: str = "g") -> tuple[int, dict[str, list[int]]]:
            topics = [OffsetDeleteRequestTopic(n, [OffsetDeleteRequestPartition(p) for p in (0, 1)]) for n in names]
            response = await client.ask(OffsetDeleteRequest(group, topics), OffsetDeleteResponse, 0)
            return response.error_code, {t.name: [p.error_code for p in t.partitions] for t in response.topics}

        assert await delete("t", group="nobody") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
        member = await stable(client)
        partitions = [OffsetCommitRequestPartition(0, 5)]
        topics = [OffsetCommitRequestTopic(n, partitions=partitions) for n in ("t", "u")]
        await client.ask(OffsetCommitRequest("g", 1, member, topics=topics), OffsetCommitResponse, 8)
        subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await delete("t", "u") == (NONE, {"t": [subscribed] * 2, "u": [NONE] * 2})
        await client.ask(LeaveGroupRequest("g", member), LeaveGroupResponse, 2)
        assert await delete("t") == (NONE, {"t": [NONE] * 2})


async def listed(
    client: Client, version: int, states: list[str] | None = None, types: list[str] | None = None
) -> list[ListedGroup]:
    response = await client.ask(ListGroupsRequest(states or [], types or []), ListGroupsResponse, version)
    assert response.error_code == NONE
    return response.groups


@pytest.mark.parametrize("version", range(6))
async def test_list_groups(version: int) -> None:
    """ListGroupsRequestTest, testListGroupsIncludesStableGroups, testListGroupsIncludesRebalancingGroups,
    testListGroupsWithStates, testListGroupsWithTypes, testIsInStates: filters ignore case."""
    async with broker() as connect:
        client = await connect()
        assert await listed(client, version) == []
        member = (await join(client)).member_id
        for state in ("CompletingRebalance", "Stable", "Empty"):
            if state == "Stable":
                await sync(client, 5, member)
            elif state == "Empty":
                await client.ask(LeaveGroupRequest("g", member), LeaveGroupResponse, 2)
            (group,) = await listed(client, version)
            assert (group.group_id, group.protocol_type) == ("g", "consumer")
            if version >= 4:
                assert group.group_state == state
                for requested in ("CompletingRebalance", "Stable", "Empty", "Dead"):
                    groups = await listed(client, version, [requested.upper()])
                    assert [g.group_id for g in groups] == (["g"] if requested == state else [])
            if version >= 5:
                assert group.group_type == "classic"
                assert len(await listed(client, version, types=["Classic"])) == 1
                assert await listed(client, version, types=["consumer"]) == []


@pytest.mark.parametrize("version", range(7))
async def test_describe_groups(version: int) -> None:
    """DescribeGroupsRequestTest: stable, rebalancing (no protocol, no member data), unknown."""
    async with broker() as connect:
        client, other = await connect(), await connect()
        member = await stable(client)

        async def describe(group: str = "g") -> DescribeGroupsResponse:
            return await client.ask(DescribeGroupsRequest([group]), DescribeGroupsResponse, version)

        (group,) = (await describe()).groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        (one,) = group.members
        assert (one.member_id, one.client_id, one.client_host) == (member, "raw", "/127.0.0.1")
        assert (one.member_metadata, one.member_assignment) == (encode_subscription(["t"]), b"x")
        waiting = asyncio.create_task(join(other))
        await quiet()
        (group,) = (await describe()).groups
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [m.member_metadata for m in group.members] == [b"", b""]
        (unknown,) = (await describe("nobody")).groups
        code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE
        assert (unknown.error_code, unknown.group_state) == (code, "Dead")
        waiting.cancel()


@pytest.mark.parametrize("version", range(3))
async def test_delete_groups(version: int) -> None:
    """DeleteGroupsRequestTest: live NON_EMPTY_GROUP, empty NONE, unknown GROUP_ID_NOT_FOUND."""
    async with broker() as connect:
        client = await connect()
        member = await stable(client)

        async def delete(*names: str) -> list[int]:
            response = await client.ask(DeleteGroupsRequest(list(names)), DeleteGroupsResponse, version)
            return [r.error_code for r in response.results]

        assert await delete("g", "nobody") == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        await client.ask(LeaveGroupRequest("g", member), LeaveGroupResponse, 2)
        assert await delete("g") == [NONE]
        assert await delete("g") == [ErrorCode.GROUP_ID_NOT_FOUND]
