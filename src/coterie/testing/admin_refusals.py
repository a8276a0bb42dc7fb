"""Responses to an admin's requests that have a given error code, where each of Kafka's has it; for `testing.faults`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from coterie.wire.messages.topics.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from coterie.wire.messages.topics.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from coterie.wire.messages.topics.create_topics import CreatableTopicResult, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from coterie.wire.messages.topics.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from coterie.wire.messages.topics.list_partition_reassignments import ListPartitionReassignmentsResponse


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


REFUSALS: dict[str, Callable[[Any, ErrorCode], Message]] = {
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
    "ElectLeaders": _elect_leaders,
    "ExplainGroup": lambda request, code: ExplainGroupResponse(code),
    "ListGroups": lambda request, code: ListGroupsResponse(error_code=code),
    "ListPartitionReassignments": lambda request, code: ListPartitionReassignmentsResponse(error_code=code),
}
