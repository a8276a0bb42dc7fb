"""testRequestHandlingWhileLoadingInProgress: while a group's partition is loading nobody is thrown out."""

from __future__ import annotations

import asyncio

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.test_server import FAST, Client, run

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def check_loading(client: Client) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    for static in (None, "i"):
        join = JoinGroupRequest("g", 10_000, 10_000, "", static, "consumer", protocols)
        assert (await client.ask(join, JoinGroupResponse, 9)).error_code == LOADING
    sync = await client.ask(SyncGroupRequest("g", 1, "m"), SyncGroupResponse, 4)
    assert sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse, 4)).error_code == ErrorCode.NONE
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1, -1, committed_metadata="")])]
    commit = await client.ask(OffsetCommitRequest("g", topics=topics), OffsetCommitResponse, 8)
    assert commit.topics[0].partitions[0].error_code == LOADING
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    assert (await client.ask(fetch, OffsetFetchResponse, 8)).groups[0].error_code == LOADING
    described = await client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == LOADING
    assert (await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)).error_code == LOADING
    deleted = await client.ask(DeleteGroupsRequest(["g"]), DeleteGroupsResponse, 2)
    assert deleted.results[0].error_code == LOADING


def test_requests_while_the_partition_loads() -> None:
    async def story() -> None:
        running = Broker(BrokerSettings(FAST))
        host, port = await running.start("127.0.0.1", 0)
        client = Client(*await asyncio.open_connection(host, port))
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CreateTopicsResponse, 7)
        running.groups.ready()
        for seat in running.groups._seats:
            seat.loaded = False
        await check_loading(client)
        for seat in running.groups._seats:
            seat.loaded = True
        assert (await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)).groups == []
        client.writer.close()
        await running.stop()

    run(story)
