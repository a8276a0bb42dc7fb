"""The controller's requests of one batch: Kafka's ControllerChannelManagerTest, by its names."""

from __future__ import annotations

from typing import cast

from coterie.controller import encoding
from coterie.controller.elected.session import Candidate, OfficeSession
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.requests import LeaderAndIsr, Request, RequestBatch, StopReplica, UpdateMetadata
from coterie.replication.states import EPOCH_DURING_DELETE, PartitionState, StoppedReplica, TopicPartition
from coterie.wire.messages.brokers.stop_replica import StopReplicaRequest

FOO0, FOO1, BAR0, BAR1 = ("foo", 0), ("foo", 1), ("bar", 0), ("bar", 1)
LEADERS = {FOO0: 1, FOO1: 2, BAR0: 1, BAR1: 3}
EPOCHS = {FOO0: 4, FOO1: 5, BAR0: 6, BAR1: 7}


class Controller:
    """As an `OfficeSession` needs it."""

    def __init__(self) -> None:
        self.config = ControllerConfig(1, "")


def session() -> OfficeSession:
    """Of a controller that knows three brokers and four partitions with a replica on each."""
    made = OfficeSession(cast(Candidate, Controller()), epoch=1, epoch_version=0)
    made.view.live = {1: 11, 2: 12, 3: 13}
    made.view.registrations = {1: "one", 2: "two", 3: "three"}
    made.view.states = {p: PartitionState(LEADERS[p], EPOCHS[p], (1, 2, 3), 1, 0, (1, 2, 3)) for p in LEADERS}
    return made


def sent(of: OfficeSession, batch: RequestBatch) -> dict[int, list[Request]]:
    """By broker."""
    requests: dict[int, list[Request]] = {}
    for request in of.send(batch):
        requests.setdefault(request.broker, []).append(request)
    return requests


def stopped(
    of: OfficeSession, replicas: dict[TopicPartition, bool], broker: int = 2
) -> dict[TopicPartition, StoppedReplica]:
    """The partitions, each deleted or not, in the one request that goes out."""
    batch = RequestBatch()
    for partition, delete in replicas.items():
        of.stop(batch, [(partition, broker)], delete=delete)
    ((request,),) = sent(of, batch).values()
    assert isinstance(request, StopReplica)
    assert (request.broker, request.broker_epoch, request.controller_epoch) == (broker, 10 + broker, 1)
    message = encoding.message_of(request)[0]
    assert isinstance(message, StopReplicaRequest)
    assert encoding.stopped_replicas(message) == request.stopped
    return dict(request.stopped)


def test_requests_go_to_live_brokers_and_those_that_shut_down() -> None:
    """testLeaderAndIsrRequestSentToLiveOrShuttingDownBrokers: broker 2 shuts down, 3 is dead."""
    of, batch = session(), RequestBatch()
    of.view.leaving.add(2)
    del of.view.live[3]
    batch.decided(FOO0, of.view.states[FOO0])
    requests = sent(of, batch)
    assert {broker: [type(request) for request in all_of] for broker, all_of in requests.items()} == {
        1: [LeaderAndIsr, UpdateMetadata],
        2: [LeaderAndIsr, UpdateMetadata],
    }
    for roles, metadata in requests.values():
        assert isinstance(roles, LeaderAndIsr)
        assert isinstance(metadata, UpdateMetadata)
        assert list(roles.states) == list(metadata.states) == [FOO0]
        assert list(metadata.live) == [1, 2]


def test_a_replica_that_is_new_stays_new_in_its_batch() -> None:
    """testLeaderAndIsrRequestIsNew."""
    of, batch = session(), RequestBatch()
    for new in (True, False):
        batch.role(2, FOO0, of.view.states[FOO0], new=new)
    ((request,),) = sent(of, batch).values()
    assert isinstance(request, LeaderAndIsr)
    assert (list(request.states), request.new) == ([FOO0], frozenset({FOO0}))


def test_deleted_and_stopped_replicas_share_a_request() -> None:
    """testMixedDeleteAndNotDeleteStopReplicaRequests, since inter.broker.protocol.version 2.6."""
    assert stopped(session(), {FOO0: True, FOO1: True, BAR0: False, BAR1: False}) == {
        FOO0: StoppedReplica(4, True),
        FOO1: StoppedReplica(5, True),
        BAR0: StoppedReplica(6),
        BAR1: StoppedReplica(7),
    }


def test_a_replica_that_is_deleted_stays_deleted_in_its_batch() -> None:
    """testStopReplicaRequestWithAlreadyDefinedDeletedPartition."""
    of, batch = session(), RequestBatch()
    for delete in (True, False):
        of.stop(batch, [(FOO0, 2)], delete=delete)
    ((request,),) = sent(of, batch).values()
    assert isinstance(request, StopReplica)
    assert request.stopped == {FOO0: StoppedReplica(4, True)}


def test_the_epoch_during_a_deletion_goes_with_its_topics_alone() -> None:
    """testStopReplicaRequestsWhileTopicQueuedForDeletion, and
    testStopReplicaRequestWithoutDeletePartitionWhileTopicDeletionStarted. What the responses bring about is in
    tests/spec/cluster: reassignment.txt and transitions.txt."""
    of = session()
    of.view.deleting.add("foo")
    for delete in (True, False):
        assert stopped(of, dict.fromkeys((FOO0, FOO1, BAR1), delete)) == {
            FOO0: StoppedReplica(EPOCH_DURING_DELETE, delete),
            FOO1: StoppedReplica(EPOCH_DURING_DELETE, delete),
            BAR1: StoppedReplica(7, delete),
        }
