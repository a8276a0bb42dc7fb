"""testRequestHandlingWhileLoadingInProgress: while a group's partition is loading nobody is thrown out. When a member's
client has last fetched, beside other requests of the same client id and host."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from coterie.broker.broker import Broker
from coterie.broker.process.scheduling import Clock
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.cleaner import Cleaner
from coterie.broker.storage.topic import Topic
from coterie.client import Admin, Consumer, Producer
from coterie.coordinator.shard import Shard
from coterie.observer.internal_topics import group_past
from coterie.testing import simulate
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.awaiting import LoopClock, quiet, until
from tests.broker.connections.test_server import FAST, Client

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
QUIET_S = 20.0


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


async def test_requests_while_the_partition_loads() -> None:
    running = Broker(BrokerSettings(FAST))
    host, port = await running.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(host, port))
    await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CreateTopicsResponse, 7)
    running.groups.ready()
    for hosted in running.groups._hosted:
        hosted.loaded = False
    await check_loading(client)
    for hosted in running.groups._hosted:
        hosted.loaded = True
    assert (await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)).groups == []
    client.writer.close()
    await running.stop()


async def test_upkeep_leaves_a_half_loaded_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry would judge by a commit that a newer one, not yet read, replaces; a topic deleted meanwhile loses its offsets
    once the partition is loaded."""
    monkeypatch.setattr("coterie.log.reading.CHUNK_BYTES", 1)
    running = Broker(BrokerSettings(FAST | {"offsets.topic.num.partitions": "1"}))
    host, port = await running.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(host, port))
    for topic in ("t", "u"):
        await client.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)]), CreateTopicsResponse, 7)
    for offset in range(20):
        topics = [
            OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, offset)]) for name in ("t", "u")
        ]
        await client.ask(OffsetCommitRequest("g", topics=topics), OffsetCommitResponse, 8)
    (hosted,) = running.groups._hosted
    running.groups.config.offsets_retention_ms = 0
    hosted.host(Shard(running.groups.config))
    hosted.loaded = False
    pieces = running.groups._loading.load(hosted)
    for _ in range(5):
        next(pieces)
    assert hosted.shard.groups["g"].offsets["t", 0].offset < 19
    end_offset = hosted.log.log.end_offset
    running.groups.expire_offsets()
    running.groups.topics_deleted([Topic("u", bytes(16), {})])
    assert hosted.log.log.end_offset == end_offset
    assert list(pieces)
    assert {tp: c.offset for tp, c in hosted.shard.groups["g"].offsets.items()} == {("t", 0): 19}
    client.writer.close()
    await running.stop()


async def test_nothing_is_compacted_before_the_groups_are_loaded() -> None:
    looked: list[bool] = []
    topics = SimpleNamespace(every_log=lambda: looked.append(True) or [])
    loaded = asyncio.Event()

    async def until_loaded() -> None:
        await loaded.wait()

    settings = BrokerSettings({"log.cleaner.backoff.ms": "1"})
    cleaning = asyncio.create_task(Cleaner(topics, Clock(), settings).run(until_loaded))  # type: ignore[arg-type]
    await quiet()
    LoopClock().jump(1)
    await quiet()
    assert not looked
    loaded.set()
    await until(lambda: looked, "the cleaner looks for logs")
    cleaning.cancel()


async def test_nothing_is_compacted_without_the_cleaner() -> None:
    settings = BrokerSettings({"log.cleaner.backoff.ms": "1", "log.cleaner.enable": "false"})
    topics = SimpleNamespace(every_log=lambda: pytest.fail("the cleaner looks for logs"))
    await Cleaner(topics, Clock(), settings).run(quiet)  # type: ignore[arg-type]


async def last_fetch_ms(admin: Admin) -> int:
    (member,) = (await admin.explain_group("crew")).members
    assert member.last_fetch_ms is not None
    return member.last_fetch_ms


async def looks_beside_a_paused_member(servers: str) -> None:
    settings = {"bootstrap.servers": servers}  # all under the default client id, from one host
    async with Producer(settings) as producer:
        await producer.send("orders", b"x", partition=0)
    async with (
        Consumer(settings | {"group.id": "crew", "auto.offset.reset": "earliest"}) as member,
        Admin(settings) as admin,
    ):
        member.subscribe(["orders"])
        while not await member.poll(200):
            pass
        member.pause(member.assignment())
        await asyncio.sleep(QUIET_S)
        assert await admin.record_times({("orders", 0): 0})  # as `groups describe` does for lags in time
        assert await group_past(settings, "crew", 1_000)  # as `groups lint` does
        assert await last_fetch_ms(admin) >= QUIET_S * 1000
        member.resume(member.assignment())
        await member.poll(200)
        assert await last_fetch_ms(admin) < QUIET_S * 1000


def test_looks_at_records_are_no_fetches_of_a_member() -> None:
    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        world.run(looks_beside_a_paused_member(broker.bootstrap_servers))
