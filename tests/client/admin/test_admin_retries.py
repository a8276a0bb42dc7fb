"""An admin's calls over lost connections and a broker's restart; tests named as in Kafka's KafkaAdminClientTest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, KafkaError, NewTopic
from coterie.log.filesystem import MemoryFileSystem
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until

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
