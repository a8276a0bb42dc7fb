"""Requests to the share coordinators of a cluster, of five kinds alike: found, asked again after pauses, and put together.
Names are those of Kafka's PersisterStateManagerTest and DefaultStatePersisterTest."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.broker.share_state.persister import ATTEMPTS, SharePersister
from coterie.broker.share_state.state_requests import STATE_REQUESTS, is_empty, refused_row, response_to, rows_of
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, SharePartitionKey
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.delete_share_group_state import DeletedStatePartition
from coterie.wire.messages.share.initialize_share_group_state import InitializedPartition
from coterie.wire.messages.share.read_share_group_state import ReadStatePartition
from coterie.wire.messages.share.write_share_group_state import WrittenPartitionState
from coterie.wire.messages.stored.share_group_state import StateBatch
from tests.broker.world_scheduler import WorldScheduler

TOPIC, COUNT, ME = bytes(range(16)), 4, 1
_ROWS: dict[str, Callable[[int], Any]] = {
    "InitializeShareGroupStateRequest": lambda p: InitializedPartition(p, 1, 0),
    "WriteShareGroupStateRequest": lambda p: WrittenPartitionState(p, 1, 0, 0, 0, [StateBatch(0, 9, 0, 1)]),
    "DeleteShareGroupStateRequest": DeletedStatePartition,
}
KINDS = pytest.mark.parametrize("kind", STATE_REQUESTS, ids=lambda kind: kind.__name__)


def request_of(kind: type[Message], *partitions: int) -> Any:
    """A request of the group g for partitions of one topic."""
    row = _ROWS.get(kind.__name__, ReadStatePartition)
    return kind("g", [STATE_REQUESTS[kind].topic(TOPIC, [row(p) for p in partitions])])  # type: ignore[call-arg]


class Cluster:
    """The share coordinators of three brokers, of which this one is 1. ``responses``: of each attempt, the error of every
    partition, or None where no response comes; once they are used up there is none."""

    def __init__(self, *responses: ErrorCode | None, leader: int = 2, known: bool = True) -> None:
        self.world, self.responses = World(1), list(responses)
        self.start_ms = self.world.now_ms
        self.asked: list[tuple[int, int, Any]] = []  # when, whom, what
        self.leaders = dict.fromkeys(range(COUNT), leader)
        topics: Any = SimpleNamespace(in_cluster=True, by_name={})
        self.topics, self.created = topics, 0
        if known:
            self.create()
        view: Any = SimpleNamespace(states=self, live={ME, 2, 3})
        coordinator: Any = SimpleNamespace(submit=lambda request, done: self._respond(ME, request, done))
        self.persister = SharePersister(coordinator, topics, view, WorldScheduler(self.world), ME)
        self.persister.create_topic = self.create
        peers: Any = SimpleNamespace(send=lambda to, request, kind, version, done: self._respond(to, request, done))
        self.persister.peers = peers

    def create(self) -> None:
        self.created += 1
        self.topics.by_name[SHARE_STATE_TOPIC] = SimpleNamespace(partitions=range(COUNT))

    def get(self, key: tuple[str, int]) -> Any:
        """As the view's states."""
        return SimpleNamespace(leader=self.leaders[key[1]])

    def _respond(self, to: int, request: Any, done: Callable[[Any], None]) -> None:
        self.asked.append((self.world.now_ms - self.start_ms, to, request))
        code = self.responses.pop(0) if self.responses else ErrorCode.NONE
        if code is None:
            done(None)
            return
        rows = {key: refused_row(request, key, Refusal(code)) for key, _ in rows_of(request)}
        done(response_to(request, rows))

    def send(self, request: Any) -> list[tuple[int, int]]:
        """The partitions of the response, with their errors."""
        came: list[Any] = []
        self.persister.send(request, came.append)
        self.world.run_until(self.world.now_ms + 100_000)
        (response,) = came
        return [(p.partition, p.error_code) for topic in response.results for p in topic.partitions]


@KINDS
@pytest.mark.parametrize("leader", [ME, 2])
def test_the_coordinator_is_known(kind: type[Message], leader: int) -> None:
    """testWriteStateRequestWithCoordinatorNodeLookup, testReadStateRequestWithCoordinatorNodeLookup,
    testReadStateSummaryRequestWithCoordinatorNodeLookup, testDeleteStateRequestWithCoordinatorNodeLookup,
    testInitializeStateRequestWithCoordinatorNodeLookup, testWriteStateSuccess, testReadStateSuccess,
    testReadStateSummarySuccess, testDeleteStateSuccess, testInitializeStateSuccess, testFindCoordinatorSuccess"""
    cluster = Cluster(leader=leader)
    assert cluster.send(request_of(kind, 0, 3)) == [(0, 0), (3, 0)]
    ((at_ms, to, _),) = cluster.asked
    assert (at_ms, to) == (0, leader)


@KINDS
def test_the_topic_is_created_at_the_first_request(kind: type[Message]) -> None:
    """testWriteStateRequestCoordinatorFoundSuccessfully, testReadStateRequestCoordinatorFoundSuccessfully,
    testReadStateSummaryRequestCoordinatorFoundSuccessfully, testDeleteStateRequestCoordinatorFoundSuccessfully,
    testInitializeStateRequestCoordinatorFoundSuccessfully, testWriteStateRequestCoordinatorFoundOnRetry,
    testReadStateRequestCoordinatorFoundOnRetry, testReadStateSummaryRequestCoordinatorFoundOnRetry,
    testDeleteStateRequestCoordinatorFoundOnRetry, testInitializeStateRequestCoordinatorFoundOnRetry"""
    cluster = Cluster(known=False)
    assert cluster.send(request_of(kind, 0)) == [(0, 0)]
    assert cluster.created == 1
    ((at_ms, to, _),) = cluster.asked
    assert (at_ms, to) == (1_000, 2)


@KINDS
@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None],
)
def test_it_is_asked_again(kind: type[Message], code: ErrorCode | None) -> None:
    """testWriteStateRequestRetryWithNotCoordinatorSuccessfulOnRetry,
    testReadStateRequestRetryWithNotCoordinatorSuccessfulOnRetry,
    testReadStateSummaryRequestRetryWithNotCoordinatorSuccessfulOnRetry,
    testDeleteStateRequestRetryWithNotCoordinatorSuccessfulOnRetry,
    testInitializeStateRequestRetryWithNotCoordinatorSuccessfulOnRetry, testWriteStateRequestWithRetryAndCoordinatorNodeLookup,
    testReadStateRequestRetryWithCoordinatorNodeLookup, testReadStateSummaryRequestRetryWithCoordinatorNodeLookup,
    testDeleteStateRequestWithRetryAndCoordinatorNodeLookup, testInitializeStateRequestWithRetryAndCoordinatorNodeLookup,
    testFindCoordinatorDisconnect: after pauses that double, of the coordinator that there is by then"""
    cluster = Cluster(code, code)
    request = request_of(kind, 0)
    key = partition_for(SharePartitionKey("g", TOPIC, 0).text(), COUNT)
    cluster.world.after(1_500, lambda: cluster.leaders.update({key: 3}))
    assert cluster.send(request) == [(0, 0)]
    assert [(at_ms, to) for at_ms, to, _ in cluster.asked] == [(0, 2), (1_000, 2), (3_000, 3)]


@KINDS
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None])
def test_it_is_asked_five_times_at_most(kind: type[Message], code: ErrorCode | None) -> None:
    """testWriteStateRequestFailedMaxRetriesExhausted, testReadStateRequestFailureMaxRetriesExhausted,
    testReadStateSummaryRequestFailureMaxRetriesExhausted, testDeleteStateRequestFailedMaxRetriesExhausted,
    testInitializeStateRequestFailedMaxRetriesExhausted, testWriteStateClientResponseErrorRetriesExhausted,
    testReadStateClientResponseErrorRetriesExhausted, testReadStateSummaryClientResponseErrorRetriesExhausted,
    testDeleteStateClientResponseErrorRetriesExhausted, testInitializeStateClientResponseErrorRetriesExhausted,
    testWriteStateResponseToResultFailedFuture, testReadStateResponseToResultFailedFuture,
    testReadStateSummaryResponseToResultFailedFuture, testDeleteStateResponseToResultFailedFuture,
    testInitializeStateResponseToResultFailedFuture: the last error stays, COORDINATOR_NOT_AVAILABLE where none came"""
    cluster = Cluster(*[code] * 9)
    assert cluster.send(request_of(kind, 0)) == [(0, code or ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert len(cluster.asked) == ATTEMPTS == 5


@KINDS
def test_no_coordinator_is_there(kind: type[Message]) -> None:
    """testFindCoordinatorAttemptsExhausted: its broker is not in the cluster"""
    cluster = Cluster(leader=9)
    assert cluster.send(request_of(kind, 0)) == [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert cluster.asked == []


@KINDS
def test_other_errors_are_not_asked_for_again(kind: type[Message]) -> None:
    """testResponseErrorHandling, testFindCoordinatorFatalError"""
    for code in (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR):
        cluster = Cluster(code)
        assert cluster.send(request_of(kind, 0)) == [(0, code)]
        assert len(cluster.asked) == 1


@KINDS
def test_partitions_of_several_coordinators(kind: type[Message]) -> None:
    """testWriteStateResponseToResultPartialResults, testReadStateResponseToResultPartialResults,
    testReadStateSummaryResponseToResultPartialResults, testDeleteStateResponseToResultPartialResults,
    testInitializeStateResponseToResultPartialResults, testWriteStateRequestBatchingWithCoordinatorNodeLookup,
    testDeleteStateRequestBatchingWithCoordinatorNodeLookup, testInitializeStateRequestBatchingWithCoordinatorNodeLookup: one
    request to each, for all of its partitions; only those that failed are requested again"""
    partitions = range(12)
    by_state = {p: partition_for(SharePartitionKey("g", TOPIC, p).text(), COUNT) for p in partitions}
    cluster = Cluster(ErrorCode.NOT_COORDINATOR)
    cluster.leaders = {0: 2, 1: 3, 2: 2, 3: ME}
    assert cluster.send(request_of(kind, *partitions)) == [(p, 0) for p in partitions]
    first = [(to, sorted(key.partition for key, _ in rows_of(request))) for at, to, request in cluster.asked if at == 0]
    expected = {to: [p for p in partitions if cluster.leaders[by_state[p]] == to] for to in (2, 3, ME)}
    assert dict(first) == {to: of for to, of in expected.items() if of}
    assert len(first) == len(dict(first))
    again = [sorted(key.partition for key, _ in rows_of(request)) for at, _, request in cluster.asked if at == 1_000]
    assert again == [first[0][1]]


@KINDS
def test_requests_that_name_nothing(kind: type[Message]) -> None:
    """testWriteStateValidate, testReadStateValidate, testReadStateSummaryValidate, testDeleteStateValidate,
    testInitializeStateValidate: no group, no topic, no partition; nobody is asked"""
    nothing = [kind("", request_of(kind, 0).topics), kind("g", []), request_of(kind)]  # type: ignore[call-arg]
    assert all(is_empty(request) for request in nothing)
    assert not is_empty(request_of(kind, 0))
    cluster = Cluster()
    assert [cluster.send(request) for request in nothing[1:]] == [[], []]
    assert cluster.asked == []


@KINDS
def test_a_read_that_names_other_partitions(kind: type[Message]) -> None:
    """testReadStateRequestIllegalStateCoordinatorFoundSuccessfully,
    testReadStateSummaryRequestIllegalStateCoordinatorFoundSuccessfully: the response is without the partition"""
    cluster = Cluster()
    submit = cluster.persister.peers

    def other(to: int, request: Any, response: Any, version: int, done: Callable[[Any], None]) -> None:
        cluster._respond(to, request_of(kind, 7), done)

    assert submit is not None
    submit.send = other  # type: ignore[method-assign,assignment]
    assert cluster.send(request_of(kind, 0)) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR)]
