"""What only brokers send is obeyed from brokers alone, in a cluster without an authorizer too: a stranger's LeaderAndIsr of a
high controller epoch deposed the leader, and a StopReplica deleted the replica."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.testing import ErrorCode
from coterie.testing.simulated import WorldBroker, simulate
from coterie.text.addresses import parse_address
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from coterie.wire.messages.brokers.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.world_scheduler import REQUEST_S, connections

EPOCH, NOBODY, LATEST = 1000, 9, -1
_STATE = LeaderAndIsrPartitionState("t", 0, EPOCH, NOBODY, EPOCH, [NOBODY], 0, [1, 2, NOBODY])
REQUESTS: dict[str, tuple[Message, type[Message], int]] = {
    "LeaderAndIsr": (
        LeaderAndIsrRequest(NOBODY, EPOCH, -1, topic_states=[LeaderAndIsrTopicState("t", [_STATE])]),
        LeaderAndIsrResponse,
        4,
    ),
    "StopReplica": (
        StopReplicaRequest(
            NOBODY, EPOCH, -1, topic_states=[StopReplicaTopicState("t", [StopReplicaPartitionState(0, EPOCH, True)])]
        ),
        StopReplicaResponse,
        3,
    ),
    "UpdateMetadata": (UpdateMetadataRequest(NOBODY, EPOCH, -1), UpdateMetadataResponse, 6),
    "ControlledShutdown": (ControlledShutdownRequest(2, -1), ControlledShutdownResponse, 3),
    "Fetch": (
        FetchRequest(replica_id=2, topics=[FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=10)])]),
        FetchResponse,
        11,
    ),
}


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(getattr(request, "param", None), brokers=2)


async def create_topic(connection: Connection) -> None:
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    created = await connection.request(request, CreateTopicsResponse, REQUEST_S)
    assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE]
    await asyncio.sleep(1.0)


async def leads(broker: WorldBroker) -> bool:
    """Whether one of the brokers is the leader of t-0."""
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])])
    responses = [
        await connection.request(request, ListOffsetsResponse, REQUEST_S) for connection in await connections(broker)
    ]
    return any(p.error_code == ErrorCode.NONE for r in responses for topic in r.topics for p in topic.partitions)


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_strangers_connection_is_closed(
    broker: WorldBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    request, response, version = REQUESTS[name]
    strangers = await connections(broker, "stranger")
    await create_topic(strangers[0])
    for connection in strangers:
        with pytest.raises(KafkaError):
            await connection.request_version(request, response, version, REQUEST_S)
    await asyncio.sleep(20.0)
    assert await leads(broker)
    assert "where no broker is registered; coterie.inter.broker.addresses may name it" in caplog.text


@pytest.mark.parametrize("broker", [{"coterie.inter.broker.addresses": "*"}], indirect=True)
async def test_an_address_that_a_setting_names_is_obeyed(broker: WorldBroker) -> None:
    """As every stranger was: the leader is deposed."""
    request, response, version = REQUESTS["LeaderAndIsr"]
    strangers = await connections(broker, "stranger")
    await create_topic(strangers[0])
    for connection in strangers:
        await connection.request_version(request, response, version, REQUEST_S)
    assert not await leads(broker)


def test_replication_and_shutdown_go_on() -> None:
    with simulate(seed=1) as world:
        broker = world.broker({"default.replication.factor": 3}, brokers=3)
        broker.create_topic("t", partitions=3)
        broker.stop(1)
        world.run(_two_are_in_sync(broker))


async def _two_are_in_sync(broker: WorldBroker) -> None:
    await asyncio.sleep(10.0)
    request = MetadataRequest([MetadataRequestTopic(name="t")])
    address = broker.bootstrap_servers.split(",")[1]
    connection = await Connection.connect(*parse_address(address), "reader", REQUEST_S)
    response = await connection.request(request, MetadataResponse, REQUEST_S)
    isrs = {frozenset(partition.isr_nodes) for topic in response.topics for partition in topic.partitions}
    assert isrs == {frozenset({2, 3})}
