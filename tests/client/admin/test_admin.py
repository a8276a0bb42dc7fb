"""The admin client on many things at once: a future per key. The admin's calls about the start offsets of share groups,
where one thing of several is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, ErrorCode, KafkaError, NewTopic, Producer, SharePartitionOffset, TopicPartition
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.log.filesystem import MemoryFileSystem
from coterie.testing import LocalBroker, simulate
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.awaiting import until
from tests.client.group import member, settled

QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 20}
CALLS: list[tuple[str, Callable[[Admin], Awaitable[Any]]]] = [
    ("DescribeCluster", lambda admin: admin.describe_cluster()),
    ("Metadata", lambda admin: admin.describe_topics(iter(["t"]))),
    ("Metadata", lambda admin: admin.partitions(["t"])),
    ("CreateTopics", lambda admin: admin.each.create_topics([NewTopic("new")])["new"]),
    ("DeleteTopics", lambda admin: admin.delete_topic("t")),
    ("CreatePartitions", lambda admin: admin.each.create_partitions({"t": 2})["t"]),
    ("DescribeConfigs", lambda admin: admin.describe_configs("t")),
    ("IncrementalAlterConfigs", lambda admin: admin.incremental_alter_configs("t", {"retention.ms": "7"})),
    ("DeleteRecords", lambda admin: admin.delete_records({("t", 0): -1})),
    ("ListGroups", lambda admin: admin.list_groups()),
    ("FindCoordinator", lambda admin: admin.alter_consumer_group_offsets("another", {("t", 0): 0})),
    ("DescribeGroups", lambda admin: admin.describe_consumer_group("g")),
    ("OffsetCommit", lambda admin: admin.alter_consumer_group_offsets("g", {("t", 0): 0})),
    ("OffsetDelete", lambda admin: admin.delete_consumer_group_offsets("g", iter([("t", 0)]))),
    ("DeleteGroups", lambda admin: admin.delete_consumer_group("g")),
    ("ElectLeaders", lambda admin: admin.elect_leaders([("t", 0)])),
    ("ListPartitionReassignments", lambda admin: admin.list_partition_reassignments()),
]
GOOD, BAD = TopicPartition("orders", 0), TopicPartition("none", 0)
SHARERS, UNKNOWN = "jobs", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def came(futures: dict[Any, asyncio.Future[Any]]) -> dict[Any, Any]:
    """Each key's result, or the code of its error."""
    described = {}
    for key, future in futures.items():
        try:
            described[key] = await future
        except KafkaError as error:
            described[key] = error.code
    return described


async def test_topics(coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.client.offsets.offsets.NEW_TOPIC_S", 0.2)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        topics = [NewTopic("a", 2), NewTopic("b", configs={"retention.ms": "7"}), NewTopic("bad/name", 1)]
        bad = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await came(admin.each.create_topics(topics)) == {"a": None, "b": None, "bad/name": bad}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await came(admin.each.create_partitions({"a": 4, "x": 3})) == {"a": None, "x": unknown}
        assert len(await admin.partitions(["a"])) == 4
        configs = await came(admin.each.describe_configs(["b", "x"]))
        assert (configs["b"]["retention.ms"].value, configs["x"]) == ("7", unknown)
        changes: dict[str, dict[str, str | None]] = {"b": {"retention.ms": None, "segment.bytes": "2048"}}
        changes |= {"a": {"nonsense": "1"}, "x": {}}
        altered = await came(admin.each.incremental_alter_configs(changes))
        assert altered == {"b": None, "a": ErrorCode.INVALID_CONFIG, "x": unknown}
        configs = await admin.describe_configs("b")
        assert (configs["retention.ms"].value, configs["segment.bytes"].value) == ("604800000", "2048")
        with pytest.raises(KafkaError, match=r"did you mean retention\.ms"):
            await admin.incremental_alter_configs("b", {"retention.m": "1"})
        coterie_broker.produce("a", b"x", b"y", b"z")
        starts = await came(admin.each.delete_records({("a", 0): 2, ("a", 9): 0}))
        assert starts[("a", 0)] == 2
        assert starts[("a", 9)] in (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ends = await came(admin.each.list_offsets({("a", 0): -1, ("a", 1): -1, ("x", 0): -1}))
        assert ends == {("a", 0): 3, ("a", 1): 0, ("x", 0): unknown}
        assert await came(admin.each.delete_topics(["a", "x"])) == {"a": None, "x": unknown}


async def test_groups(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        one = await settled(member(coterie_broker, group_instance_id="i"), 2)
        groups = await came(admin.each.describe_consumer_groups(["g", "none"]))
        assert (groups["g"].state, groups["none"]) == ("Stable", ErrorCode.GROUP_ID_NOT_FOUND)
        busy = await came(admin.each.alter_consumer_group_offsets("g", {("t", 0): 3}))
        assert busy == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
        assert await came(admin.each.delete_consumer_groups(["g", "none"])) == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        removed = await came(admin.each.remove_members_from_consumer_group("g", ["i", "stranger"], "a test"))
        assert removed == {"i": None, "stranger": ErrorCode.UNKNOWN_MEMBER_ID}
        assert coterie_broker.members("g") == {}
        await one.close()
        offsets = {("t", 0): 3, ("t", 1): 4, ("none", 0): 1}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        altered = await came(admin.each.alter_consumer_group_offsets("h", offsets))
        assert altered == {("t", 0): None, ("t", 1): None, ("none", 0): unknown}
        assert await came(admin.each.list_consumer_group_offsets(["h"])) == {"h": {("t", 0): 3, ("t", 1): 4}}
        assert await came(admin.each.delete_consumer_group_offsets("h", [("t", 0)])) == {("t", 0): None}
        assert await admin.list_consumer_group_offsets("h") == {("t", 1): 4}
        assert await came(admin.each.delete_consumer_groups(["h"])) == {"h": None}


async def test_a_broker_that_is_gone_fails_every_key(coterie_broker: LocalBroker) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": 300}
    async with Admin(settings) as admin:
        gone = ErrorCode.NETWORK_EXCEPTION
        assert await came(admin.each.delete_topics(["a", "b"])) == {"a": gone, "b": gone}


@pytest.mark.parametrize(("api", "call"), CALLS)
async def test_a_connection_that_is_cut_before_the_request_is_carried_out(
    coterie_broker: LocalBroker, api: str, call: Callable[[Admin], Awaitable[Any]]
) -> None:
    """testConnectionFailureOnMetadataUpdate, testDescribeConsumerGroupNumRetries"""
    coterie_broker.create_topic("t")
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers} | QUICK) as admin:
        await admin.alter_consumer_group_offsets("g", {("t", 0): 0})
        with coterie_broker.hold(api) as rule:
            task = asyncio.ensure_future(call(admin))
            await until(lambda: bool(rule.held))
            rule.held.clear()
            coterie_broker.drop_connections()
            await task


async def test_a_broker_that_starts_again() -> None:
    """testTimeoutWithoutMetadata: no attempt is made before the broker was reached once, none after default.api.timeout.ms."""
    memory = MemoryFileSystem()
    broker = Broker(BrokerSettings(), memory=memory)
    host, port = await broker.start("127.0.0.1", 0)
    settings = {"bootstrap.servers": f"{host}:{port}"} | QUICK
    async with Admin(settings) as admin, Admin(settings | {"default.api.timeout.ms": 100}) as hasty:
        for client in (admin, hasty):
            await client.describe_cluster()
        await broker.stop()
        task = asyncio.create_task(admin.create_topic("t"))
        with pytest.raises(KafkaError) as caught:
            await hasty.create_topic("t")
        async with Admin(settings) as first:
            with pytest.raises(KafkaError, match="no broker answers"):
                await first.create_topic("t")
        assert (caught.value.code, task.done()) == (ErrorCode.NETWORK_EXCEPTION, False)
        broker = Broker(BrokerSettings(), memory=memory)
        await broker.start(host, port)
        await task
        assert list(await admin.describe_topics()) == ["t"]
    await broker.stop()


async def test_a_close_ends_the_attempts(coterie_broker: LocalBroker) -> None:
    """testCloseAdminClient"""
    admin = Admin({"bootstrap.servers": coterie_broker.bootstrap_servers} | QUICK)
    with coterie_broker.hold("Metadata") as rule:
        task = asyncio.create_task(admin.describe_topics())
        await until(lambda: bool(rule.held))
        admin.close()
        with pytest.raises(KafkaError, match="the connection was closed"):
            await task


def test_altered_listed_and_deleted(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 2)
    coterie_broker.produce("orders", b"1", b"2", b"3", partition=0)
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        admin.alter_share_group_offsets(SHARERS, {GOOD: 1})
        listed = {GOOD: SharePartitionOffset(1, 0, 2)}
        assert admin.list_share_group_offsets(SHARERS) == listed
        assert admin.list_share_group_offsets(SHARERS, [GOOD, ("orders", 1)]) == listed
        admin.delete_share_group_offsets(SHARERS, ["orders"])
        assert admin.list_share_group_offsets(SHARERS) == {}


def test_errors_receives_the_refused_partitions_of_a_share_group_and_the_others_are_done(
    coterie_broker: LocalBroker,
) -> None:
    coterie_broker.create_topic("orders", 1)
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        errors: dict[TopicPartition, KafkaError] = {}
        admin.alter_share_group_offsets(SHARERS, {BAD: 0, GOOD: 0}, errors=errors)
        assert {tp: error.code for tp, error in errors.items()} == {BAD: UNKNOWN}
        assert admin.list_share_group_offsets(SHARERS).keys() == {GOOD}
        by_topic: dict[str, KafkaError] = {}
        admin.delete_share_group_offsets(SHARERS, ["none", "orders"], errors=by_topic)
        assert {topic: error.code for topic, error in by_topic.items()} == {"none": UNKNOWN}
        assert admin.list_share_group_offsets(SHARERS) == {}
        with pytest.raises(KafkaError, match="none-0: ") as refused:
            admin.alter_share_group_offsets(SHARERS, {BAD: 0, GOOD: 0})
        assert refused.value.code == UNKNOWN
        assert admin.list_share_group_offsets(SHARERS).keys() == {GOOD}


def test_a_group_with_members_is_refused_and_one_that_does_not_exist_has_no_offsets(
    coterie_broker: LocalBroker,
) -> None:
    coterie_broker.create_topic("orders", 1)
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    joined = socket.request(ShareGroupHeartbeatRequest(SHARERS, "m", 0, subscribed_topic_names=["orders"]))
    assert not joined.error_code
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        for call in (
            lambda: admin.alter_share_group_offsets(SHARERS, {GOOD: 0}),
            lambda: admin.delete_share_group_offsets(SHARERS, ["orders"]),
        ):
            with pytest.raises(KafkaError) as refused:
                call()
            assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
        assert admin.list_share_group_offsets("nobody") == {}
    socket.close()


def test_a_negative_offset_is_refused_before_anything_is_sent(coterie_broker: LocalBroker) -> None:
    with (
        BlockingAdmin(coterie_broker.client_settings()) as admin,
        pytest.raises(ValueError, match="an offset must be from 0"),
    ):
        admin.alter_share_group_offsets(SHARERS, {GOOD: -1})


def test_each_lag_is_that_of_the_leader() -> None:
    """Of a cluster whose brokers have a third of the partitions each, and of a partition without a leader."""
    with simulate(1) as world:
        broker = world.broker({"default.replication.factor": "1"}, brokers=3)

        async def story() -> None:
            address = {"bootstrap.servers": broker.bootstrap_servers}
            async with Admin(address) as admin, Producer(address) as producer:
                await admin.create_topic("orders", 3)
                for partition in range(3):
                    for _ in range(5):
                        await producer.send_and_wait("orders", b"v", partition=partition)
                await admin.alter_share_group_offsets(SHARERS, {("orders", n): 2 for n in range(3)})
                offsets = await admin.list_share_group_offsets(SHARERS)
                assert {p.partition: offset.lag for p, offset in offsets.items()} == {0: 3, 1: 3, 2: 3}

        world.run(story())
