"""Elections and reassignments in a cluster: commands to the controller, and what it responds. Other brokers respond with
NOT_CONTROLLER."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeVar

from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.requests.pending import Pending
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.commands import (
    AlterReassignments,
    ElectionType,
    ElectLeaders,
    LeadersElected,
    ListReassignments,
    ReassignmentsAltered,
    ReassignmentsListed,
    Response,
)
from coterie.replication.states import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from coterie.wire.messages.topics.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

T = TypeVar("T")


def _by_topic(rows: Mapping[TopicPartition, T]) -> Iterable[tuple[str, list[tuple[int, T]]]]:
    for topic, group in groupby(sorted(rows.items(), key=lambda row: row[0]), lambda row: row[0][0]):
        yield topic, [(number, value) for (_, number), value in group]


def _text(code: ErrorCode) -> str | None:
    return code.text if code else None


class ControllerCommands:
    """A broker's elections and reassignments, through its `ControllerDriver`."""

    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver

    def elect_leaders(self, request: ElectLeadersRequest, every: Iterable[TopicPartition]) -> Pending:
        """ElectLeadersResponse. A broker that is not the controller reports that for each partition, as in Kafka 2.6;
        ``every``: the partitions that it knows, where the request is for all."""
        topics, pending = request.topic_partitions, Pending()
        wanted = (
            None if topics is None else tuple((topic.topic, number) for topic in topics for number in topic.partitions)
        )

        def responded(response: Response) -> None:
            assert isinstance(response, LeadersElected)
            results = (
                dict.fromkeys(every if wanted is None else wanted, response.error)
                if response.error
                else response.results
            )
            pending.respond(
                ElectLeadersResponse(
                    replica_election_results=[
                        ReplicaElectionResult(
                            topic, [PartitionResult(number, code, _text(code)) for number, code in rows]
                        )
                        for topic, rows in _by_topic(results)
                    ]
                )
            )

        self._driver.command(ElectLeaders(pending, ElectionType(request.election_type), wanted), responded)
        return pending

    def alter_reassignments(self, request: AlterPartitionReassignmentsRequest) -> Pending:
        """Has the controller reassign; returns the response."""
        pending, may_change_factor = Pending(), request.allow_replication_factor_change
        targets = {
            (topic.name, row.partition_index): None if row.replicas is None else tuple(row.replicas)
            for topic in request.topics
            for row in topic.partitions
        }

        def responded(response: Response) -> None:
            assert isinstance(response, ReassignmentsAltered)
            rows = [
                ReassignableTopicResponse(
                    topic, [ReassignablePartitionResponse(number, code, _text(code)) for number, code in results]
                )
                for topic, results in _by_topic(response.results)
            ]
            received = AlterPartitionReassignmentsResponse(
                error_code=response.error, error_message=_text(response.error)
            )
            received.allow_replication_factor_change = may_change_factor
            received.responses = rows
            pending.respond(received)

        self._driver.command(AlterReassignments(pending, targets, may_change_factor), responded)
        return pending

    def list_reassignments(self, request: ListPartitionReassignmentsRequest) -> Pending:
        """Asks the controller for its reassignments; returns the response."""
        topics, pending = request.topics, Pending()
        wanted = None if topics is None else tuple((t.name, number) for t in topics for number in t.partition_indexes)

        def responded(response: Response) -> None:
            assert isinstance(response, ReassignmentsListed)
            rows = [
                OngoingTopicReassignment(topic, [_ongoing(number, assignment) for number, assignment in assignments])
                for topic, assignments in _by_topic(response.assignments)
            ]
            received = ListPartitionReassignmentsResponse(
                error_code=response.error, error_message=_text(response.error)
            )
            received.topics = rows
            pending.respond(received)

        self._driver.command(ListReassignments(pending, wanted), responded)
        return pending


def _ongoing(number: int, assignment: ReplicaAssignment) -> OngoingPartitionReassignment:
    parts = assignment.replicas, assignment.adding, assignment.removing
    return OngoingPartitionReassignment(number, *(list(part) for part in parts))
