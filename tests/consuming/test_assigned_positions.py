"""Which of the assigned partitions are read, a rule at a time; tests are named as in Kafka's SubscriptionStateTest. What the
user may ask for is in tests/client/consumer/test_subscriptions.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from coterie.client.consumer.positions import ConsumerPositions
from coterie.consuming.effects import SendFetch
from coterie.consuming.fetching.position import UNKNOWN
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from tests.consuming.cluster import T0, T1, U0
from tests.consuming.driven import Driven, buffered, failed, records

T, U = frozenset("t"), frozenset("u")


def assigned(partitions: Iterable[TopicPartition], topics: frozenset[str] | None = None) -> Driven:
    """Without positions; ``topics`` are subscribed to, None: the user assigned."""
    driven = Driven({})
    driven.machine.subscribe(topics)
    driven.machine.assign(partitions)
    return driven


def fetched(driven: Driven) -> set[TopicPartition]:
    """The partitions in the requests that are due."""
    return {tp for effect in driven.effects() if isinstance(effect, SendFetch) for tp in effect.wanted}


@pytest.mark.parametrize("topics", [None, T, T | U])
def test_an_assigned_partition_is_fetched_once_it_has_a_position(topics: frozenset[str] | None) -> None:
    """testIsFetchableOnManualAssignment, testIsFetchableOnAutoAssignment, partitionAssignment"""
    driven = assigned([T0, T1], topics)
    assert driven.machine.initializing() == [T0, T1]
    assert fetched(driven) == set()
    for tp in (T0, T1):
        driven.machine.seek(tp, 1)
    assert driven.machine.initializing() == []
    assert fetched(driven) == {T0, T1}
    assert driven.machine.positions[T0].offset == 1
    driven.machine.assign([])
    assert driven.machine.positions == {}
    assert fetched(driven) == set()


def test_another_assignment_replaces_the_one_before() -> None:
    """topicSubscription: what stays keeps its position, what comes has none."""
    driven = assigned([T0], T)
    driven.machine.seek(T0, 1)
    driven.machine.assign([T0, T1])
    assert driven.machine.positions[T0].offset == 1
    driven.machine.assign([T1])
    assert list(driven.machine.positions) == [T1]
    assert fetched(driven) == set()


def test_a_partition_of_a_topic_that_is_not_subscribed_to_any_more() -> None:
    """testIsFetchableConsidersExplicitTopicSubscription: it stays assigned until the rebalance, and is not read."""
    driven = buffered(U0, T0)
    driven.machine.subscribe(T)
    assert set(driven.machine.positions) == {U0, T0}
    sent = driven.sent()
    assert set(sent.wanted) == {T0}
    driven.respond(sent, {T0: records(1, 3)})
    assert driven.offsets() == {T0: [0, 1, 2, 3]}
    driven.machine.assign([])
    driven.machine.assign([U0])
    driven.machine.seek(U0, 2)
    assert fetched(driven) == set()
    driven.machine.subscribe(T | U)
    assert fetched(driven) == {U0}


def test_what_was_fetched_of_it_is_handed_out_where_it_is_subscribed_to_again() -> None:
    driven = buffered(U0)
    driven.machine.subscribe(T)
    assert driven.offsets() == {}
    assert driven.machine.take_in_hand(U0) is None
    assert driven.machine.take_batches(1_000_000) == {}
    driven.machine.subscribe(None)
    assert driven.offsets() == {U0: [0, 1, 2]}


def test_a_pause() -> None:
    """partitionPause"""
    driven = assigned([T0])
    driven.machine.seek(T0, 100)
    position = driven.machine.positions[T0]
    for position.paused in (True, False):
        assert fetched(driven) == (set() if position.paused else {T0})


# -- while the listener is notified ----------------------------------------------------------------------------------------


def test_a_partition_that_is_being_revoked() -> None:
    """testMarkingPendingRevocation, OffsetFetcherTest.testFetchingPendingPartitionsBeforeAndAfterSubscriptionReset: it keeps
    its position, which is committed, and is not read; assigned again it is."""
    driven = assigned([T0])
    driven.machine.seek(T0, 100)
    driven.machine.in_callback([T0], begins=True)
    assert fetched(driven) == set()
    position = driven.machine.positions[T0]
    assert (position.offset, position.paused, driven.machine.resets_due()) == (100, False, [])
    driven.machine.seek(T0, 100)
    assert fetched(driven) == set()
    driven.machine.drop([T0])
    driven.machine.assign([T0])
    driven.machine.seek(T0, 100)
    assert fetched(driven) == {T0}


def test_a_partition_that_is_being_revoked_needs_no_position() -> None:
    """testMarkingPendingRevocationPreventsInitializingPosition"""
    driven = assigned([T0])
    driven.machine.in_callback([T0, U0], begins=True)
    assert driven.machine.initializing() == []


@pytest.mark.parametrize("topics", [T, None])
@pytest.mark.parametrize("in_callback", [True, False])
def test_a_new_partition_is_read_after_the_callback(in_callback: bool, topics: frozenset[str] | None) -> None:
    """testAssignedPartitionsAwaitingCallbackKeepPositionDefinedInCallback,
    testAssignedPartitionsAwaitingCallbackInitializePositionsWhenCallbackCompletes and, of a pattern,
    testAssignedPartitionsWithTopicIdsForRe2Pattern: from where the callback sought, else a position is looked up."""
    driven = assigned([T0], topics)
    driven.machine.in_callback([T0], begins=True)
    if in_callback:
        driven.machine.seek(T0, 100)
    assert fetched(driven) == set()
    assert not driven.machine.positions[T0].paused
    driven.machine.in_callback([T0], begins=False)
    assert driven.machine.initializing() == ([] if in_callback else [T0])
    driven.machine.seek(T0, 100)
    assert fetched(driven) == {T0}
    assert driven.machine.positions[T0].offset == 100


def test_a_callback_does_not_hold_up_what_is_kept() -> None:
    """testAssignedPartitionsAwaitingCallbackDoesNotAffectPreviouslyOwnedPartitions"""
    driven = assigned([T0], T)
    driven.machine.seek(T0, 100)
    driven.machine.assign([T0, T1])
    driven.machine.in_callback([T1], begins=True)
    assert fetched(driven) == {T0}
    assert driven.machine.initializing() == []
    driven.machine.in_callback([T1], begins=False)
    assert driven.machine.initializing() == [T1]
    driven.machine.seek(T1, 200)
    assert fetched(driven) == {T1}


# -- resets ---------------------------------------------------------------------------------------------------------------


def test_a_seek_ends_a_reset() -> None:
    """partitionReset, testRequestOffsetResetIfPartitionAssigned"""
    driven = assigned([T0])
    driven.machine.seek(T0, 5)
    driven.respond(driven.sent(), {T0: failed(ErrorCode.OFFSET_OUT_OF_RANGE)})
    assert driven.machine.resets_due() == [T0]
    assert fetched(driven) == set()
    driven.machine.seek(T0, 0)
    assert driven.machine.resets_due() == []
    assert fetched(driven) == {T0}


def test_a_partition_that_was_revoked_is_not_reset() -> None:
    """testRequestOffsetResetIfPartitionAssigned"""
    driven = assigned([T0])
    driven.machine.seek(T0, 5)
    sent = driven.sent()
    driven.machine.drop([T0])
    assert not driven.respond(sent, {T0: failed(ErrorCode.OFFSET_OUT_OF_RANGE)})
    assert driven.machine.resets_due() == []


# -- what is known of the log ----------------------------------------------------------------------------------------------


class Reader(ConsumerPositions):
    """The positions of a consumer without its network."""

    def __init__(self, driven: Driven) -> None:
        self._fetcher = driven.machine  # type: ignore[assignment]
        self.settings = driven.machine.config  # type: ignore[assignment]


@pytest.mark.parametrize("committed_only", [True, False])
def test_the_lag_after_a_lookup_of_the_end(committed_only: bool) -> None:
    """KafkaConsumerTest.testListOffsetShouldUpdateSubscriptions, testTryUpdatingHighWatermark,
    testTryUpdatingLastStableOffset, nullPositionLagOnNoPosition, KafkaConsumerTest.testCurrentLag: none without a position or
    an end; as of the lookup, then as of the fetch."""
    driven = Driven({}, committed_only=committed_only)
    driven.machine.assign([T0])
    reader = Reader(driven)
    driven.machine.ends_seen({T0: 1, U0: 1}, committed_only=committed_only)
    assert (reader.lag(), set(driven.machine.positions)) == ({}, {T0})
    driven.machine.seek(T0, 50)
    assert reader.lag() == {}
    driven.machine.ends_seen({T0: 90, U0: 90}, committed_only=committed_only)
    assert reader.lag() == {T0: 40}
    driven.respond(driven.sent(), {T0: records(5, 50, high_watermark=100, last_stable_offset=100)})
    assert driven.offsets() == {T0: [50, 51, 52, 53, 54]}
    assert reader.lag() == {T0: 45}


@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_replica_to_read_from_is_of_an_assigned_partition(is_assigned: bool) -> None:
    """testTryUpdatingPreferredReadReplica"""
    driven = assigned([T0])
    driven.machine.seek(T0, 0)
    sent = driven.sent()
    if not is_assigned:
        driven.machine.drop([T0])
    driven.respond(sent, {T0: records(0, preferred_read_replica=2)})
    assert [p.read_replica for p in driven.machine.positions.values()] == ([2] if is_assigned else [])


def test_the_position_of_a_partition() -> None:
    """testPositionOrNull, cantChangePositionForNonAssignedPartition, invalidPositionUpdate: none of one that is not
    assigned, and none that a response could move before it is set."""
    driven = assigned([T0])
    reader = Reader(driven)
    assert reader.position(T0) == UNKNOWN
    driven.machine.seek(T0, 5)
    sent = driven.sent()
    assert reader.position(T0) == 5
    driven.machine.seek(T0, UNKNOWN)
    driven.respond(sent, {T0: records(3, 5)})
    assert reader.position(T0) == UNKNOWN
    refused: list[Callable[[], object]] = [lambda: reader.position(U0), lambda: driven.machine.seek(U0, 1)]
    for call in refused:
        with pytest.raises(KeyError):
            call()
