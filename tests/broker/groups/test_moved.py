"""A broker that gives a partition of `__consumer_offsets` up, and takes it again."""

from __future__ import annotations

import asyncio

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from coterie.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.primitives import WireError
from tests.awaiting import until
from tests.broker.connections.test_server import FAST, Client

MOVED = ErrorCode.NOT_COORDINATOR
ONE = FAST | {"offsets.topic.num.partitions": "1"}


def join(static: str | None = None, member: str = "") -> JoinGroupRequest:
    return JoinGroupRequest("g", 10_000, 10_000, member, static, "consumer", [JoinGroupRequestProtocol("range", b"")])


async def started() -> tuple[Broker, Client, Client]:
    broker = Broker(BrokerSettings(ONE))
    address = await broker.start("127.0.0.1", 0)
    clients = [Client(*await asyncio.open_connection(*address)) for _ in range(2)]
    await clients[0].ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CreateTopicsResponse, 7)
    broker.groups.ready()
    return broker, clients[0], clients[1]


async def stop(broker: Broker, *clients: Client) -> None:
    for client in clients:
        client.writer.close()
    await broker.stop()


async def test_who_asks_the_wrong_coordinator_hears_so() -> None:
    """testJoinGroupWrongCoordinator, testHeartbeatWrongCoordinator, testSyncGroupNotCoordinator,
    testLeaveGroupWrongCoordinator, testStaticMembersWrongCoordinatorBatchLeaveGroup, testDescribeGroupWrongCoordinator,
    testDeleteGroupWithWrongCoordinator, testFetchOffsetNotCoordinatorForGroup, testCommitOffsetWhenCoordinatorHasMoved,
    testStoreNonEmptyGroupWhenCoordinatorHasMoved"""
    broker, client, other = await started()
    assert broker.groups.resign(0, epoch=1)
    written = broker.topics.offsets_topic().partitions[0].log.end_offset
    for static in (None, "i"):
        assert (await client.ask(join(static), JoinGroupResponse, 9)).error_code == MOVED
    assert (await client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse, 4)).error_code == MOVED
    share = [SyncGroupRequestAssignment("m", b"x")]
    sync = SyncGroupRequest("g", 1, "m", None, "consumer", "range", share)
    assert (await client.ask(sync, SyncGroupResponse, 5)).error_code == MOVED
    assert (await client.ask(LeaveGroupRequest("g", "m"), LeaveGroupResponse, 2)).error_code == MOVED
    batch = LeaveGroupRequest("g", members=[MemberIdentity("", "i"), MemberIdentity("", "j")])
    left = await client.ask(batch, LeaveGroupResponse, 5)
    assert (left.error_code, left.members) == (MOVED, [])
    described = await client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == MOVED
    deleted = await client.ask(DeleteGroupsRequest(["g"]), DeleteGroupsResponse, 2)
    assert deleted.results[0].error_code == MOVED
    fetched = await client.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), OffsetFetchResponse, 7)
    assert (fetched.error_code, fetched.topics) == (MOVED, [])
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
    committed = await client.ask(OffsetCommitRequest("g", topics=topics), OffsetCommitResponse, 8)
    assert committed.topics[0].partitions[0].error_code == MOVED
    assert (await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)).groups == []
    assert broker.topics.offsets_topic().partitions[0].log.end_offset == written
    await stop(broker, client, other)


async def test_resigning_answers_whoever_waits_and_the_group_is_found_again() -> None:
    """testUnloadOffsetsAndGroup: everything that waits is answered NOT_COORDINATOR; members survive the move."""
    broker, first, second = await started()
    joined = await first.ask(join(), JoinGroupResponse, 3)
    share = [SyncGroupRequestAssignment(joined.member_id, b"x")]
    sync = SyncGroupRequest("g", 1, joined.member_id, assignments=share)
    assert (await first.ask(sync, SyncGroupResponse, 3)).error_code == ErrorCode.NONE
    second.send(join(), 3)
    await until(lambda: broker.groups.group("g").phase != "Stable", "a rebalance begins")  # type: ignore[union-attr]
    assert broker.groups.resign(0, epoch=1)
    frame = await second.frame()
    assert int.from_bytes(frame[8:10], "big") == MOVED
    assert broker.groups.elect(0, epoch=2)
    beat = await first.ask(HeartbeatRequest("g", 1, joined.member_id), HeartbeatResponse, 4)
    assert beat.error_code == ErrorCode.NONE
    await stop(broker, first, second)


async def test_loads_and_unloads_of_an_older_epoch_are_ignored() -> None:
    """testUnloadOffsetsAndGroupIgnored, testUnloadOffsetsAndGroupIgnoredAfterStopReplica, testLoadOffsetsAndGroupIgnored"""
    broker, client, other = await started()
    assert broker.groups.elect(0, epoch=5)
    assert not broker.groups.resign(0, epoch=4)
    assert (await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)).error_code == ErrorCode.NONE
    described = await client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == ErrorCode.NONE
    assert broker.groups.resign(0, epoch=5)
    assert not broker.groups.elect(0, epoch=5)
    assert not broker.groups.elect(0, epoch=3)
    described = await client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == MOVED
    await stop(broker, client, other)


def test_a_null_group_id_is_no_group_to_delete() -> None:
    """testDeleteGroupWithInvalidGroupId: on the wire a group id cannot be null, so that such a request is not read."""
    nulled = bytearray(DeleteGroupsRequest(["g"]).encode(1))
    nulled[4:6] = b"\xff\xff"
    with pytest.raises(WireError):
        DeleteGroupsRequest.decode(bytes(nulled), 1)


def test_the_longest_retention_is_computed_in_64_bits() -> None:
    """testOffsetsRetentionMsIntegerOverflow"""
    settings = BrokerSettings({"offsets.retention.minutes": str(2**31 - 1)})
    assert settings.coordinator().offsets_retention_ms == (2**31 - 1) * 60_000
