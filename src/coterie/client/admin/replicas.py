"""The admin's requests about leaders: elections, and the list of reassignments."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.client.admin.results import partition_reassignments
from coterie.client.admin_types import PartitionReassignment
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.topics.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1  # types of election
KINDS_FROM = 1  # the version of ElectLeaders that has the type (KIP-460)
TIMEOUT_MS = 30_000


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


async def elect_leaders(
    cluster: Cluster, partitions: Sequence[TopicPartition] | None, *, unclean: bool
) -> dict[TopicPartition, ErrorCode]:
    """None for all of the cluster. Raises KafkaError."""
    wanted = (
        None if partitions is None else [TopicPartitions(t, numbers) for t, numbers in _by_topic(partitions).items()]
    )

    def rows(response: ElectLeadersResponse) -> dict[TopicPartition, PartitionResult]:
        return {
            TopicPartition(topic.topic, row.partition_id): row
            for topic in response.replica_election_results
            for row in topic.partition_result
        }

    if unclean and (await cluster.any_connection()).version_of(ElectLeadersRequest) < KINDS_FROM:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "unclean elections by request are from Kafka 2.4 on")
    request = ElectLeadersRequest(UNCLEAN if unclean else PREFERRED, wanted, TIMEOUT_MS)
    response = await cluster.request_controller(request, lambda r: [r, *rows(r).values()])
    check(response.error_code)
    return {tp: error_of(row.error_code) for tp, row in sorted(rows(response).items())}


async def list_partition_reassignments(
    cluster: Cluster, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, PartitionReassignment]:
    """None for all of the cluster. Raises KafkaError."""
    wanted = (
        None
        if partitions is None
        else [ListPartitionReassignmentsTopics(t, numbers) for t, numbers in _by_topic(partitions).items()]
    )
    request = ListPartitionReassignmentsRequest(TIMEOUT_MS, wanted)
    response: ListPartitionReassignmentsResponse = await cluster.request_controller(request, lambda r: [r])
    check(response.error_code, response.error_message)
    return partition_reassignments(response)
