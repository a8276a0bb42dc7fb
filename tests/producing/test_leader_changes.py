"""Attempts after the leader has changed (KIP-951): Kafka's SenderTest, RecordAccumulatorTest and ProducerBatchTest by name."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.producing.requests import LookUpLeaders, new_leaders
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.producing.one_producer import OneProducer

PLAIN: dict[str, Any] = {"is_idempotent": False, "delivery_timeout_ms": 2**31 - 1}
PAUSE_MS = 100
T0 = ("t", 0)
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def of_epoch(epoch: int) -> OneProducer:
    """A record is on its way to the leader of that epoch."""
    one = OneProducer(backoff=Backoff(PAUSE_MS, PAUSE_MS), **PLAIN)
    one.epochs[T0] = epoch
    one.send(b"a")
    return one


def looked_up(one: OneProducer, epoch: int, node_id: int = 1) -> None:
    """The look-up that is out finds that leader."""
    assert one.requested.pop() == LookUpLeaders(frozenset({"t"}))
    one.epochs[T0], one.leaders[T0] = epoch, node_id
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.run()


@pytest.mark.parametrize("node_id", [1, 2], ids=["the same broker again", "another broker"])
def test_a_newer_leader_is_tried_at_once(node_id: int) -> None:
    """testReadyAndDrainWhenABatchIsBeingRetried, testProducerBatchRetriesWhenPartitionLeaderChanges,
    testWithLeaderChangesAcrossRetries: and after the next failure, the same leader only after the pause."""
    one = of_epoch(100)
    one.respond(MOVED)
    assert (one.sent, one.forgotten) == ([], ["t"])
    looked_up(one, 101, node_id)
    assert [effect.node_id for effect in one.sent] == [node_id]
    one.respond(MOVED)
    looked_up(one, 101, node_id)
    assert not one.sent
    one.wait(PAUSE_MS - 1)
    assert not one.sent
    one.wait(1)
    assert one.forgotten == ["t"] * 3, "looked up again, since the first look-up found nothing new"
    assert len(one.sent) == 1
    one.respond(offset=999)
    assert one.results() == [999]


@pytest.mark.parametrize("epoch", [100, 99, -1])
def test_a_leader_that_is_not_newer_is_tried_after_the_pause(epoch: int) -> None:
    """testWithLeaderChangesAcrossRetries, testWhenProduceResponseReturnsWithALeaderShipChangeErrorButNoNewLeaderInformation:
    the same, an older or no epoch is no news."""
    one = of_epoch(100)
    one.respond(MOVED)
    looked_up(one, epoch)
    assert not one.sent
    one.wait(PAUSE_MS)
    assert len(one.sent) == 1


def test_a_pause_that_is_over_needs_no_newer_leader() -> None:
    """testReadyAndDrainWhenABatchIsBeingRetried: newer or not, the batch is sent."""
    one = of_epoch(100)
    for epoch in (100, 101):
        one.respond(MOVED)
        one.requested.clear()
        one.epochs[T0] = epoch
        one.wait(2 * PAUSE_MS)
        assert len(one.sent) == 1


def test_the_leader_that_the_response_names_is_tried_at_once() -> None:
    """testWhenProduceResponseReturnsWithALeaderShipChangeErrorAndNewLeaderInformation: the driver keeps it before the machine
    has the response. It is not forgotten, and metadata is looked up beside it."""
    one = of_epoch(100)
    one.epochs[T0], one.leaders[T0] = 101, 9990
    one.respond(MOVED)
    assert [effect.node_id for effect in one.sent] == [9990]
    assert (one.forgotten, one.requested) == ([], [LookUpLeaders(frozenset({"t"}))])


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NETWORK_EXCEPTION])
def test_an_error_that_names_no_other_leader_is_looked_into_after_the_pause(code: ErrorCode) -> None:
    """A broker that is gone is the leader until the controller has noticed."""
    one = of_epoch(100)
    one.respond(code)
    assert (one.requested, one.forgotten) == ([], ["t"])


def test_leaders_of_responses() -> None:
    """testWhenProduceResponseReturnsWithALeaderShipChangeErrorAndNewLeaderInformation, MetadataTest's
    testTopicMetadataOnUpdatePartitionLeadership: kept where they are newer, and the broker's address is there."""
    known = ClusterMetadata()
    partitions = [
        MetadataResponsePartition(partition_index=n, leader_id=0, leader_epoch=100 * (n + 1)) for n in range(5)
    ]
    brokers = [MetadataResponseBroker(0, "old", 1), MetadataResponseBroker(1, "known", 1)]
    topics = [MetadataResponseTopic(name="t", partitions=partitions)]
    known.metadata_received(MetadataResponse(brokers=brokers, topics=topics), 0)
    named = {0: (9990, 101), 1: (9991, 200), 2: (9999, 301), 4: (1, 501), 5: (9990, 1)}
    responses = [
        PartitionProduceResponse(index, MOVED, current_leader=LeaderIdAndEpoch(*leader))
        for index, leader in named.items()
    ]
    responses.append(PartitionProduceResponse(3, 0, 100))
    endpoints = [NodeEndpoint(9990, "newhost9990", 9990), NodeEndpoint(9991, "newhost9991", 9991)]
    response = ProduceResponse([TopicProduceResponse("t", partition_responses=responses)], node_endpoints=endpoints)
    known.leaders_received(*new_leaders(response))
    assert [known.leader("t", index) for index in range(6)] == [9990, 0, 0, 0, 1, None]
    assert [known.leader_epoch("t", index) for index in range(5)] == [101, 200, 300, 400, 501]
    assert known.address(9990) == ("newhost9990", 9990)
    assert known.node_ids() == [0, 1, 9990]
