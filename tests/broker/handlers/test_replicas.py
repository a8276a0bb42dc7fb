"""Elections and reassignments on the one broker that leads everything; codes as Apache Kafka 4.3.0 gives them."""

from __future__ import annotations

import pytest

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.wire.messages.topics.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.broker.connections.test_server import broker, make_topic

NOBODY = "nobody-made-this"
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [0, 1])
async def test_no_partition_needs_an_election(version: int, election_type: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        requested = [TopicPartitions("t", [0, 7]), TopicPartitions(NOBODY, [0])]
        response = await client.ask(ElectLeadersRequest(election_type, requested, 1000), ElectLeadersResponse, version)
        assert response.error_code == ErrorCode.NONE
        rows = [
            (r.topic, p.partition_id, p.error_code)
            for r in response.replica_election_results
            for p in r.partition_result
        ]
        assert rows == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED), ("t", 7, UNKNOWN), (NOBODY, 0, UNKNOWN)]
        response = await client.ask(ElectLeadersRequest(election_type, None, 1000), ElectLeadersResponse, version)
        assert [(r.topic, r.partition_result) for r in response.replica_election_results] == [("t", [])]


async def test_an_election_type_that_does_not_exist() -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        for requested, expected in (([TopicPartitions("t", [0])], [ErrorCode.INVALID_REQUEST]), (None, [])):
            response = await client.ask(ElectLeadersRequest(5, requested, 1000), ElectLeadersResponse, 2)
            assert response.error_code == ErrorCode.INVALID_REQUEST
            results = [p.error_code for r in response.replica_election_results for p in r.partition_result]
            assert results == expected


REASSIGNMENTS = [
    ("t", 0, [1], ErrorCode.NONE),
    ("t", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("t", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ("t", 7, [1], UNKNOWN),
    ("t", 7, None, UNKNOWN),
    (NOBODY, 0, [1], UNKNOWN),
]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(("topic", "partition", "replicas", "code"), REASSIGNMENTS)
async def test_replicas_stay_where_they_are(
    version: int, topic: str, partition: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        requested = [ReassignableTopic(topic, [ReassignablePartition(partition, replicas)])]
        request = AlterPartitionReassignmentsRequest(1000, True, requested)
        response = await client.ask(request, AlterPartitionReassignmentsResponse, version)
        (result,) = response.responses[0].partitions
        assert (response.error_code, result.error_code) == (ErrorCode.NONE, code)


async def test_no_reassignment_is_ever_under_way() -> None:
    async with broker() as connect:
        response = await (await connect()).ask(
            ListPartitionReassignmentsRequest(1000, None), ListPartitionReassignmentsResponse, 0
        )
        assert (response.error_code, response.topics) == (ErrorCode.NONE, [])
