"""What a broker of a cluster answers clients with: brokers, controller, leaders, coordinators, and requests for a leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.settings import BrokerSettings
from coterie.coordinator.partitioning import partition_for
from coterie.replication.replicas import Replica
from coterie.replication.states import PartitionState, ReplicationConfig
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.connections.test_server import FAST, Client, make_topic
from tests.broker.handlers.test_old_versions import batch
from tests.replication.fakes import MemoryReplicaLog

ME, OTHER, DEAD = 1, 2, 3
LED, FOLLOWED, NOT_HERE, LEADERLESS = range(4)
STATES = {
    LED: PartitionState(ME, 5, (1, 2), 1, 0, (1, 2)),
    FOLLOWED: PartitionState(OTHER, 7, (2,), 1, 0, (1, 2)),
    NOT_HERE: PartitionState(OTHER, 1, (2, 3), 1, 0, (2, 3)),
    LEADERLESS: PartitionState(DEAD, 4, (3,), 1, 0, (3, 1)),
}
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
# partition, the client's leader epoch -> the error
CHECKS = [
    (LED, -1, NONE),
    (LED, 5, NONE),
    (LED, 4, FENCED),
    (LED, 6, UNKNOWN),
    (FOLLOWED, -1, NOT_LEADER),
    (FOLLOWED, 7, NOT_LEADER),
    (FOLLOWED, 6, FENCED),
    (NOT_HERE, -1, NOT_LEADER),
    (NOT_HERE, 1, NOT_LEADER),
]


def _in_cluster(broker: Broker) -> None:
    """As the controller's LeaderAndIsr and UpdateMetadata do."""
    broker.cluster = ClusterView(ME, is_alone=False)
    live = [LiveBroker(ME, "one", 9092, "a"), LiveBroker(OTHER, "two", 9093)]
    broker.cluster.update(OTHER, live, {("t", index): state for index, state in STATES.items()})
    for index, state in STATES.items():
        partition = broker.topics.partition("t", index)
        partition.in_cluster = True
        if ME in state.replicas:
            partition.replica = Replica(ME, ("t", index), MemoryReplicaLog(), ReplicationConfig(), 0)
            partition.replica.assume(state, 0)


@asynccontextmanager
async def one_of_two() -> AsyncIterator[tuple[Broker, Client]]:
    broker = Broker(BrokerSettings(FAST))
    client = Client(*await asyncio.open_connection(*await broker.start("127.0.0.1", 0)))
    try:
        await make_topic(client, "t", len(STATES))
        _in_cluster(broker)
        yield broker, client
    finally:
        client.writer.close()
        await broker.stop()


async def test_metadata_names_brokers_controller_and_leaders() -> None:
    async with one_of_two() as (_broker, client):
        response = await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), MetadataResponse, 9)
        assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
            (ME, "one", 9092, "a"),
            (OTHER, "two", 9093, None),
        ]
        assert response.controller_id == OTHER
        partitions = response.topics[0].partitions
        assert [(p.error_code, p.leader_id, p.leader_epoch) for p in partitions] == [
            (NONE, ME, 5),
            (NONE, OTHER, 7),
            (NONE, OTHER, 1),
            (ErrorCode.LEADER_NOT_AVAILABLE, -1, 4),
        ]
        assert [p.replica_nodes for p in partitions] == [[1, 2], [1, 2], [2, 3], [3, 1]]
        assert [p.isr_nodes for p in partitions] == [[1, 2], [2], [2, 3], [3]]
        assert [p.offline_replicas for p in partitions] == [[], [], [3], [3]]
        described = await client.ask(
            DescribeTopicPartitionsRequest([TopicRequest("t")]), DescribeTopicPartitionsResponse, 0
        )
        assert [
            (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
            for p in described.topics[0].partitions
        ] == [
            (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
            for p in partitions
        ]
        cluster = await client.ask(DescribeClusterRequest(), DescribeClusterResponse, 0)
        assert [(b.broker_id, b.host, b.port, b.rack) for b in cluster.brokers] == [
            (b.node_id, b.host, b.port, b.rack) for b in response.brokers
        ]
        assert cluster.controller_id == OTHER


@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])
async def test_the_coordinator_is_the_leader_of_the_keys_partition(key_type: int) -> None:
    async with one_of_two() as (broker, client):
        topic = broker.topics.offsets_topic() if key_type == 0 else broker.topics.transactions_topic()
        keys = {partition_for(f"k{n}", len(topic.partitions)): f"k{n}" for n in range(400)}
        for index, leader in ((0, ME), (1, OTHER)):
            state = PartitionState(leader, 0, (leader,), 1, 0, (1, 2))
            broker.cluster.states[topic.name, index] = state
        wanted = [(ME, "one", 9092, 0), (OTHER, "two", 9093, 0)]
        for index, response in enumerate(wanted):
            one = await client.ask(FindCoordinatorRequest(keys[index], key_type), FindCoordinatorResponse, 3)
            assert (one.node_id, one.host, one.port, one.error_code) == response
        broker.cluster.update(OTHER, [LiveBroker(ME, "one", 9092)], {})
        one = await client.ask(FindCoordinatorRequest(keys[1], key_type), FindCoordinatorResponse, 3)
        assert (one.node_id, one.error_code) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _codes(client: Client, partition: int, epoch: int) -> dict[str, int]:
    """The error of each request that names a leader epoch."""
    fetch: Message = FetchRequest(
        max_wait_ms=0, topics=[FetchTopic("t", partitions=[FetchPartition(partition, epoch, partition_max_bytes=1000)])]
    )
    fetched = await client.ask(fetch, FetchResponse, 11)
    offsets: Message = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(partition, epoch, -1)])])
    listed = await client.ask(offsets, ListOffsetsResponse, 5)
    requested = OffsetForLeaderPartition(partition, epoch, 5)
    ended = await client.ask(
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [requested])]), OffsetForLeaderEpochResponse, 3
    )
    return {
        "Fetch": fetched.responses[0].partitions[0].error_code,
        "ListOffsets": listed.topics[0].partitions[0].error_code,
        "OffsetForLeaderEpoch": ended.topics[0].partitions[0].error_code,
    }


@pytest.mark.parametrize(("partition", "epoch", "code"), CHECKS)
async def test_only_the_leader_in_the_clients_epoch_serves_records(partition: int, epoch: int, code: ErrorCode) -> None:
    async with one_of_two() as (_broker, client):
        codes = await _codes(client, partition, epoch)
        assert codes == dict.fromkeys(codes, code)


@pytest.mark.parametrize(("partition", "code"), [(FOLLOWED, NOT_LEADER), (NOT_HERE, NOT_LEADER)])
async def test_only_the_leader_appends_and_deletes(partition: int, code: ErrorCode) -> None:
    async with one_of_two() as (broker, client):
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(partition, batch(b"a"))])]
        produced = await client.ask(ProduceRequest(None, -1, 1_000, data), ProduceResponse, 8)
        assert produced.responses[0].partition_responses[0].error_code == code
        assert broker.topics.partition("t", partition).log.end_offset == 0
        records = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(partition, 0)])], 1_000)
        deleted = await client.ask(records, DeleteRecordsResponse, 1)
        assert deleted.topics[0].partitions[0].error_code == code
