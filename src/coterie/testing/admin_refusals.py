"""Responses to an admin's requests that have a given error code, where each of Kafka's has it; for `testing.faults`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker.handlers.access.refusals import refused
from coterie.coordinator.refusals import response_with
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups import consumer_group_describe
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeResponse
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribeGroupsResponse
from coterie.wire.messages.groups.explain_group import ExplainGroupResponse
from coterie.wire.messages.groups.list_groups import ListGroupsResponse
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from coterie.wire.messages.logs.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from coterie.wire.messages.topics.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from coterie.wire.messages.topics.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from coterie.wire.messages.topics.create_topics import CreatableTopicResult, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from coterie.wire.messages.topics.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from coterie.wire.messages.topics.list_partition_reassignments import ListPartitionReassignmentsResponse
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, DescribeTransactionsResponse
from coterie.wire.messages.transactions.list_transactions import ListTransactionsResponse


def _delete_topics(request: Any, code: ErrorCode) -> Message:
    """Topics by name are in another field before version 6."""
    named = [DeletableTopicResult(t.name, t.topic_id, code) for t in request.topics]
    return DeleteTopicsResponse(
        responses=named or [DeletableTopicResult(n, error_code=code) for n in request.topic_names]
    )


def _delete_records(request: Any, code: ErrorCode) -> Message:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                t.name, [DeleteRecordsPartitionResult(p.partition_index, -1, code) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


def _elect_leaders(request: Any, code: ErrorCode) -> Message:
    """To the partitions too, where version 0 has its only error."""
    rows = [
        ReplicaElectionResult(t.topic, [PartitionResult(p, code) for p in t.partitions])
        for t in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=rows)


def _refused(request: Any, code: ErrorCode) -> Message:
    """In any version."""
    response = refused(request, type(request).versions.last, code)
    assert isinstance(response, Message)
    return response


def _describe_producers(request: Any, code: ErrorCode) -> Message:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersTopicResponse(
                t.name, [DescribeProducersPartitionResponse(p, code) for p in t.partition_indexes]
            )
            for t in request.topics
        ]
    )


# Refused as to a client without the right to send them.
_AS_WITHOUT_RIGHT = (
    *("AlterClientQuotas", "AlterUserScramCredentials", "DescribeUserScramCredentials"),
    *("UpdateFeatures", "WriteTxnMarkers"),
)
REFUSALS: dict[str, Callable[[Any, ErrorCode], Message]] = {
    **dict.fromkeys(_AS_WITHOUT_RIGHT, _refused),
    **dict.fromkeys(("AlterShareGroupOffsets", "DeleteShareGroupOffsets"), response_with),
    "AlterPartitionReassignments": lambda request, code: AlterPartitionReassignmentsResponse(error_code=code),
    "ConsumerGroupDescribe": lambda request, code: ConsumerGroupDescribeResponse(
        groups=[consumer_group_describe.DescribedGroup(code, group_id=g) for g in request.group_ids]
    ),
    "CreatePartitions": lambda request, code: CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(t.name, code) for t in request.topics]
    ),
    "CreateTopics": lambda request, code: CreateTopicsResponse(
        topics=[CreatableTopicResult(t.name, error_code=code) for t in request.topics]
    ),
    "DeleteGroups": lambda request, code: DeleteGroupsResponse(
        results=[DeletableGroupResult(g, code) for g in request.groups_names]
    ),
    "DeleteRecords": _delete_records,
    "DeleteTopics": _delete_topics,
    "DescribeGroups": lambda request, code: DescribeGroupsResponse(
        groups=[DescribedGroup(code, group_id=g) for g in request.groups]
    ),
    # To a directory too, where the versions before 3 have their only error.
    "DescribeLogDirs": lambda request, code: DescribeLogDirsResponse(
        error_code=code, results=[DescribeLogDirsResult(code)]
    ),
    "DescribeProducers": _describe_producers,
    "DescribeShareGroupOffsets": lambda request, code: DescribeShareGroupOffsetsResponse(
        groups=[DescribeShareGroupOffsetsResponseGroup(g.group_id, error_code=code) for g in request.groups]
    ),
    "DescribeTransactions": lambda request, code: DescribeTransactionsResponse(
        transaction_states=[DescribedTransaction(code, name) for name in request.transactional_ids]
    ),
    "ElectLeaders": _elect_leaders,
    "ExplainGroup": lambda request, code: ExplainGroupResponse(code),
    "ListGroups": lambda request, code: ListGroupsResponse(error_code=code),
    "ListPartitionReassignments": lambda request, code: ListPartitionReassignmentsResponse(error_code=code),
    "ListTransactions": lambda request, code: ListTransactionsResponse(error_code=code),
}
