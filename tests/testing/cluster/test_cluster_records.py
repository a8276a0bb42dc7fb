"""Records of a cluster are deleted from every replica, by request and by retention (KIP-107)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from coterie.client import TopicPartition
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.connection.cluster import Cluster
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker
from coterie.text.addresses import parse_address
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.awaiting import until_in_thread

TOPIC = "orders"
LONG_MS = 20_000


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        brokers.create_topic(TOPIC, 1)
        brokers.produce(TOPIC, *(b"%d" % number for number in range(10)))
        yield brokers


def _deleted(cluster: LocalBroker, before: int, timeout_ms: int = LONG_MS) -> DeleteRecordsPartitionResult:
    async def ask() -> DeleteRecordsPartitionResult:
        connections = Cluster(client_settings({"bootstrap.servers": cluster.bootstrap_servers}))
        await connections.metadata([])
        request = DeleteRecordsRequest(
            [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, before)])], timeout_ms=timeout_ms
        )
        response = await connections.request(request, cluster.leader_of(TOPIC))
        connections.close()
        result: DeleteRecordsPartitionResult = response.topics[0].partitions[0]
        return result

    return asyncio.run(ask())


def _starts(cluster: LocalBroker) -> list[int]:
    return [broker.topics.partition(TOPIC, 0).log.log_start_offset for broker in cluster._brokers()]


def test_the_response_comes_when_every_replica_begins_there(cluster: LocalBroker) -> None:
    result = _deleted(cluster, 4)
    assert (result.error_code, result.low_watermark) == (0, 4)
    assert _starts(cluster) == [4, 4, 4]
    assert _deleted(cluster, -1).low_watermark == 10
    assert _starts(cluster) == [10, 10, 10]


def test_followers_learn_of_it_at_once(cluster: LocalBroker) -> None:
    """Not only when their fetch has waited for replica.fetch.wait.max.ms (500)."""
    _deleted(cluster, 1)
    started_s = time.monotonic()
    for before in range(2, 8):
        _deleted(cluster, before)
    assert time.monotonic() - started_s < 6 * 0.5


def test_a_follower_that_does_not_follow_lets_the_request_time_out(cluster: LocalBroker) -> None:
    leader = cluster.leader_of(TOPIC)
    follower = next(broker for broker in (1, 2, 3) if broker != leader)
    cluster.shrink_isr(TOPIC, 0, to=[broker for broker in (1, 2, 3) if broker != follower])
    result = _deleted(cluster, 4, timeout_ms=200)
    assert (error_of(result.error_code), result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    cluster.heal()
    assert _deleted(cluster, 4).low_watermark == 4
    assert _starts(cluster) == [4, 4, 4]


def test_a_follower_that_is_gone_is_not_waited_for(cluster: LocalBroker) -> None:
    leader = cluster.leader_of(TOPIC)
    cluster.stop(next(broker for broker in (1, 2, 3) if broker != leader))
    assert _deleted(cluster, 4).low_watermark == 4
    assert _starts(cluster) == [4, 4]


def test_beyond_the_high_watermark_is_out_of_range(cluster: LocalBroker) -> None:
    assert error_of(_deleted(cluster, 11).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_that_resigns_meanwhile(cluster: LocalBroker) -> None:
    leader = cluster.leader_of(TOPIC)
    other, follower = (broker for broker in (1, 2, 3) if broker != leader)
    cluster.shrink_isr(TOPIC, 0, to=[leader, other])

    async def story() -> DeleteRecordsPartitionResult:
        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(None, _deleted, cluster, 4)
        await loop.run_in_executor(None, until_in_thread, lambda: 4 in _starts(cluster), "deleted at the leader")
        await loop.run_in_executor(None, cluster.move_leader, TOPIC, 0, other)
        return await waiting

    result = asyncio.run(story())
    assert error_of(result.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower != leader


def test_a_new_replica_of_a_log_that_starts_within_a_batch(cluster: LocalBroker) -> None:
    """It copies the whole batch, and its log starts where the leader's does."""
    partition = TopicPartition("moved", 0)
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.create_topic(partition.topic, assignments={0: [1]})
        cluster.leader_of(partition.topic)
        cluster.produce(partition.topic, *(b"%d" % number for number in range(10)))
        assert admin.delete_records({partition: 4}) == {partition: 4}
        admin.alter_partition_reassignments({partition: [2]})
        until_in_thread(lambda: not admin.list_partition_reassignments([partition]), lambda: "the reassignment")
    log = cluster._brokers()[1].topics.partition(*partition).log
    assert (log.log_start_offset, log.end_offset, log.segments[0].base_offset) == (4, 10, 0)


def test_retention_deletes_at_followers_too() -> None:
    settings = {"log.retention.check.interval.ms": "50"}
    configs = {"retention.bytes": "300", "segment.bytes": "1048576"}
    with LocalBroker(settings, brokers=3) as cluster:
        cluster.create_topic(TOPIC, 1, configs)
        for number in range(4):
            cluster.produce(TOPIC, bytes(400 * 1024), key=b"%d" % number)
        until_in_thread(lambda: min(_starts(cluster)) > 0, lambda: f"starts {_starts(cluster)}")
        cluster.produce(TOPIC, b"still there")


@pytest.mark.parametrize("replica_id", [-1, 0])
def test_the_first_version_of_list_offsets_has_a_list_for_each(cluster: LocalBroker, replica_id: int) -> None:
    """Followers of Kafka have a later one; a request with a broker's id went to the replicas, which gave one offset."""
    wanted = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])
    rows = []
    for address in cluster.bootstrap_servers.split(","):
        connection = BrokerSocket(*parse_address(address))
        response = connection.request(ListOffsetsRequest(replica_id, topics=[wanted]), highest=0)
        connection.close()
        rows += response.topics[0].partitions
    assert [row.old_style_offsets for row in rows if row.error_code == ErrorCode.NONE] == [[10]]
