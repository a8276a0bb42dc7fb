"""Partitions added to a topic of a cluster: Kafka's AddPartitionsTest, by name. Topics that a client needs, before and
after the controller has filled the broker's view; deletion where it is disabled."""

from __future__ import annotations

import asyncio
import random

import pytest

from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.cluster.topic_changes import TopicAdministration
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.broker.storage.topics import Topics
from coterie.client import KafkaError
from coterie.client.admin.admin import Admin
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.errors import ErrorCode
from coterie.zookeeper.operations import Operation
from tests.broker.cluster.brokers_in_memory import TOPIC, clustered, create


async def test_a_topic_is_created_once_the_brokers_are_known(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that has just started knows no broker: that is no lack of brokers, and no error in its log."""
    settings, written = BrokerSettings({"offsets.topic.replication.factor": "2"}), list[Operation]()

    async def apply(operation: Operation) -> None:
        written.append(operation)

    view, topics = ClusterView(1, is_alone=False), Topics(MemoryFileSystem(), settings, in_cluster=True)
    changes = TopicAdministration(settings, topics, view, apply, random.Random(1))
    assert changes.create_soon(OFFSETS_TOPIC) is ErrorCode.LEADER_NOT_AVAILABLE
    assert not caplog.records
    view.update(1, [LiveBroker(1, "a", 1)], {})
    assert changes.create_soon(OFFSETS_TOPIC) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "larger than available brokers: 1" in caplog.text
    view.update(1, [LiveBroker(1, "a", 1), LiveBroker(2, "b", 2)], {})
    assert changes.create_soon(OFFSETS_TOPIC) is ErrorCode.LEADER_NOT_AVAILABLE
    await asyncio.sleep(0)
    assert written, "it is being created"
    changes.close()


async def test_no_topic_is_deleted_where_that_is_disabled() -> None:
    async with clustered(settings={"delete.topic.enable": "false"}) as cluster:
        await create(cluster)
        for broker in cluster.live():
            async with Admin({"bootstrap.servers": f"{broker.host}:{broker.port}"}) as admin:
                with pytest.raises(KafkaError, match="TOPIC_DELETION_DISABLED"):
                    await admin.delete_topic(TOPIC)
                assert TOPIC in await admin.describe_topics([TOPIC])
