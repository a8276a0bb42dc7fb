"""The lookup of offsets beside simulated brokers, a rule at a time and in stories: it ends, with every offset or with an
error that a broker returned."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.consuming.effects import RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, LookupFailure, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.consuming.cluster import NO_LEADER, NODES, PARTITIONS, T0, T1, U0, SimulatedCluster

END, START = -1, -2
CONFIG = LookupConfig(timeout_ms=10_000, unknown_topic_timeout_ms=1_000, backoff=Backoff(100, 1_000))


class Driven:
    """A lookup with its driver in the test's hands; each of a cluster's logs has another length."""

    def __init__(self, timestamps: dict[TopicPartition, int], config: LookupConfig = CONFIG) -> None:
        self.cluster, self.known = SimulatedCluster(), ClusterMetadata(metadata_max_age_ms=1e9)
        for number, tp in enumerate(PARTITIONS):
            self.cluster.logs[tp].plain(5 + number)
            self.cluster.logs[tp].start = number
        self.cluster.metadata(self.known)
        self.now_ms = 0.0
        self.lookup = OffsetLookup(timestamps, config, self.known, 0.0)

    def sent(self) -> list[SendListOffsets]:
        effects = self.lookup.next(self.now_ms)
        sends = [effect for effect in effects if isinstance(effect, SendListOffsets)]
        assert sends == effects
        return sends

    def sent_alone(self) -> SendListOffsets:
        (sent,) = self.sent()
        return sent

    def respond(self, sent: SendListOffsets) -> None:
        self.lookup.responded(sent, self.cluster.list_offsets(sent.node_id, sent.request), self.now_ms, 0.0)

    def wait(self) -> float:
        deadline_ms = self.lookup.next_deadline_ms()
        assert deadline_ms is not None
        assert self.lookup.next(self.now_ms) == [], "it pauses"
        pause_ms, self.now_ms = deadline_ms - self.now_ms, deadline_ms
        return pause_ms

    def refresh(self, code: ErrorCode = ErrorCode.NONE) -> frozenset[str]:
        (effect,) = self.lookup.next(self.now_ms)
        assert isinstance(effect, RefreshMetadata)
        if not code:
            self.cluster.metadata(self.known, effect.topics)
        self.lookup.metadata_refreshed(effect, self.now_ms, 0.0, code)
        return effect.topics


def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    """testBeginningOffsets, testBeginningOffsetsMultipleTopicPartitions, testEndOffsets, testEndOffsetsMultipleTopicPartitions,
    testListOffsetsRequest_Success, testListOffsetsRequestMultiplePartitions"""
    driven = Driven({T0: END, T1: START, U0: START})
    sends = driven.sent()
    assert {sent.node_id: sent.partitions for sent in sends} == {1: {T0, U0}, 2: {T1}}
    assert driven.sent() == []
    for sent in sends:
        driven.respond(sent)
    assert driven.lookup.is_done
    assert driven.lookup.offsets == {T0: 5, T1: 1, U0: 2}


def test_only_what_failed_is_asked_for_again_from_the_leader_there_is_now() -> None:
    """testresetPositionsMetadataRefresh, testRequestPartiallyFailsWithRetriableError_RetrySucceeds"""
    driven = Driven({T0: END, U0: END})
    driven.cluster.move(T0, 2)
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {U0: 7}
    assert driven.wait() == 100
    assert driven.refresh() == {"t"}
    (sent,) = driven.sent()
    assert (sent.node_id, sent.partitions) == (2, {T0})
    driven.respond(sent)
    assert driven.lookup.offsets == {T0: 5, U0: 7}


def test_metadata_that_is_lacking_is_asked_for_first() -> None:
    """testTimeToNextUpdateRetryBackoff, testFailedUpdate, testListOffsetsWaitingForMetadataUpdate_RetrySucceeds"""
    driven = Driven({T0: END})
    driven.known.forget_topic("t")
    driven.lookup = OffsetLookup({T0: END}, CONFIG, driven.known, 0.0)
    assert driven.refresh(ErrorCode.NETWORK_EXCEPTION) == {"t"}
    assert driven.wait() == 100
    assert driven.refresh() == {"t"}
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {T0: 5}


def test_an_error_that_stays_ends_it_at_once() -> None:
    """testRequestFailedResponse_NonRetriableAuthError"""
    driven = Driven({T0: END, T1: END})
    driven.cluster.errors[T0].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    driven.respond(driven.sent()[0])
    assert driven.lookup.is_done
    assert driven.lookup.failure == LookupFailure(ErrorCode.TOPIC_AUTHORIZATION_FAILED, T0)
    assert driven.sent() == []


def test_a_single_attempt_is_not_repeated() -> None:
    driven = Driven({T0: END}, LookupConfig(timeout_ms=0, unknown_topic_timeout_ms=1_000))
    driven.cluster.errors[T0].append(ErrorCode.LEADER_NOT_AVAILABLE)
    driven.respond(*driven.sent())
    assert driven.lookup.failure == LookupFailure(ErrorCode.LEADER_NOT_AVAILABLE, T0)


@pytest.mark.parametrize(
    ("code", "most_ms"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1_000),
        (ErrorCode.LEADER_NOT_AVAILABLE, 10_000),
        (ErrorCode.BROKER_NOT_AVAILABLE, 10_000),
    ],
)
def test_what_never_passes_ends_at_its_timeout(code: ErrorCode, most_ms: float) -> None:
    """testRequestFailedResponse_NonRetriableErrorTimeout, testBatchedListOffsetsMetadataErrors"""
    driven = Driven({T0: END})
    while not driven.lookup.is_done:
        driven.cluster.errors[T0].append(code)
        driven.respond(*driven.sent())
        if not driven.lookup.is_done:
            driven.wait()
            driven.refresh()
    assert driven.lookup.failure == LookupFailure(code, T0)
    assert driven.now_ms == most_ms


def test_a_partition_without_leader_does_not_hold_the_others_up() -> None:
    """testResetPositionsMissingLeader"""
    driven = Driven({T0: END, U0: END})
    driven.cluster.move(T0, NO_LEADER)
    driven.cluster.metadata(driven.known)
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {U0: 7}
    driven.wait()
    driven.cluster.move(T0, 2)
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.is_done


EACH = LookupConfig(timeout_ms=1_000, unknown_topic_timeout_ms=5_000, each=True, backoff=Backoff(100, 1_000))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_each_for_itself_one_that_cannot_be_looked_up_leaves_the_others(code: ErrorCode) -> None:
    driven = Driven({T0: END, U0: END}, EACH)
    driven.cluster.errors[T0].append(code)
    driven.respond(driven.sent_alone())
    assert driven.lookup.is_done
    assert (driven.lookup.offsets, driven.lookup.errors, driven.lookup.failure) == ({U0: 7}, {T0: code}, None)


def test_each_for_itself_a_topic_that_is_gone_from_the_metadata_is_not_waited_for() -> None:
    driven = Driven({T0: END, U0: END}, EACH)
    driven.known.forget_topic("u")
    driven.lookup = OffsetLookup({T0: END, U0: END}, EACH, driven.known, 0.0)
    (effect,) = driven.lookup.next(0.0)
    assert isinstance(effect, RefreshMetadata)
    driven.lookup.metadata_refreshed(effect, 0.0, 0.0)
    driven.respond(driven.sent_alone())
    assert driven.lookup.is_done
    assert driven.lookup.offsets == {T0: 5}
    assert driven.lookup.errors == {U0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_each_for_itself_what_does_not_pass_in_time_is_an_error_of_its_partition() -> None:
    driven = Driven({T0: END, T1: END, U0: END}, EACH)
    driven.cluster.move(T1, NO_LEADER)
    driven.cluster.metadata(driven.known)
    driven.refresh()
    while not driven.lookup.is_done:
        for sent in driven.sent():
            driven.respond(sent)
        if not driven.lookup.is_done:
            driven.wait()
            driven.refresh()
    assert driven.lookup.offsets == {T0: 5, U0: 7}
    assert driven.lookup.errors == {T1: ErrorCode.LEADER_NOT_AVAILABLE}
    assert driven.now_ms == 1_000


def test_a_response_that_lacks_a_partition_is_no_response_for_it() -> None:
    driven = Driven({T0: END})
    driven.lookup.responded(driven.sent_alone(), ListOffsetsResponse(), driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {T0: 5}


# -- Kafka's OffsetFetcherTest and OffsetsRequestManagerTest by name ---------------------------------------------------------

CODES = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("code", CODES)
def test_an_error_of_a_partition_passes_with_new_metadata(code: ErrorCode) -> None:
    """testRequestFailsWithRetriableError_RetrySucceeds, testGetOffsetByTimeWithPartitionsRetryCouldTriggerMetadataUpdate,
    testGetOffsetsFencedLeaderEpoch, testGetOffsetsUnknownLeaderEpoch, testFetchOffsetErrors, testGetOffsetsForTimes: what was
    answered is kept, and the new leader is asked for the rest, with its epoch."""
    driven = Driven({T0: 10, U0: 10})
    driven.cluster.errors[T0].append(code)
    driven.respond(*driven.sent())
    driven.cluster.move(T0, 2)
    assert driven.wait() == 100
    assert driven.refresh() == {"t"}
    (sent,) = driven.sent()
    (topic,) = sent.request.topics
    assert [(p.partition_index, p.timestamp, p.current_leader_epoch) for p in topic.partitions] == [(0, 10, 1)]
    assert sent.node_id == 2
    driven.respond(sent)
    assert driven.lookup.offsets == {T0: 5, U0: 7}


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        (ErrorCode.NONE, -1),  # testGetOffsetsForTimes, testListOffsetsRequestUnknownOffset
        (ErrorCode.NONE, 10),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, 10),  # testRequestNotSupportedErrorReturnsNullOffset
    ],
)
def test_a_timestamp_without_an_offset(code: ErrorCode, offset: int) -> None:
    """testRequestWithUnknownOffsetInResponseReturnsNullOffset: -1, also where the record format has no timestamps."""
    driven = Driven({T0: 0})
    result = ListOffsetsPartitionResponse(0, code, offset=offset)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [result])])
    driven.lookup.responded(driven.sent_alone(), response, 0.0, 0.0)
    assert driven.lookup.offsets == {T0: -1 if code else offset}


@pytest.mark.parametrize("committed_only", [False, True])
def test_what_a_request_holds(committed_only: bool) -> None:
    """testListOffsetSendsReadUncommitted, testListOffsetSendsReadCommitted, testGetOffsetsIncludesLeaderEpoch,
    testRemoteListOffsetsRequestTimeoutMs"""
    driven = Driven({T0: END})
    for _ in range(99):
        driven.cluster.move(T0, 1)
    driven.cluster.metadata(driven.known)
    driven.lookup = OffsetLookup({T0: END}, LookupConfig(500, 500, 100, committed_only), driven.known, 0.0)
    (sent,) = driven.sent()
    assert (sent.request.isolation_level, sent.request.timeout_ms) == (int(committed_only), 100)
    assert sent.request.topics[0].partitions[0].current_leader_epoch == 99


def test_nothing_is_asked_for_nothing() -> None:
    """testBeginningOffsetsEmpty, testEndOffsetsEmpty, testListOffsetsRequestEmpty, testGetOffsetsForTimes,
    testResetPositionsSendNoRequestIfNoPartitionsNeedingReset"""
    lookup = Driven({}).lookup
    assert (lookup.is_done, lookup.next(0), lookup.offsets) == (True, [], {})


@pytest.mark.parametrize(
    ("known", "named", "is_newer"),
    [
        (1, 2, True),  # testListOffsetUpdateEpoch, testResetPositionsSuccess_LeaderEpochInResponse
        (1, 1, False),
        (1, -1, False),  # testResetPositionsSuccess_NoLeaderEpochInResponse
        (-1, 1, False),  # testListOffsetNoUpdateMissingEpoch
    ],
)
def test_the_epoch_that_a_response_names(known: int, named: int, is_newer: bool) -> None:
    """A newer one than metadata's: the leader is looked up before the next request."""
    driven = Driven({T0: END})
    driven.cluster.move(T0, 1)
    driven.cluster.metadata(driven.known, version=9 if known >= 0 else 8)
    driven.lookup = OffsetLookup({T0: END}, CONFIG, driven.known, 0.0)
    result = ListOffsetsPartitionResponse(0, offset=5, leader_epoch=named)
    driven.lookup.responded(
        driven.sent_alone(), ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [result])]), 0.0, 0.0
    )
    assert driven.lookup.offsets == {T0: 5}
    assert driven.known.leader_epoch(*T0) == (named if is_newer else known)
    assert driven.known.leader(*T0) == (NO_LEADER if is_newer else 1)


def test_a_topic_that_metadata_lacks_does_not_hold_the_others_up() -> None:
    """testGetOffsetsForTimesWhenSomeTopicPartitionLeadersNotKnownInitially"""
    driven = Driven({T0: END, T1: END, U0: END})
    driven.known.forget_topic("u")
    driven.lookup = OffsetLookup({T0: END, T1: END, U0: END}, CONFIG, driven.known, 0.0)
    (effect,) = driven.lookup.next(0.0)
    assert effect == RefreshMetadata(frozenset("u"))
    driven.lookup.metadata_refreshed(effect, 0.0, 0.0)
    for sent in driven.sent():
        driven.respond(sent)
    assert driven.lookup.offsets == {T0: 5, T1: 6}
    assert driven.wait() == 100
    assert driven.refresh() == {"u"}
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {T0: 5, T1: 6, U0: 7}


@pytest.mark.parametrize("timeout_ms", [0, 100])
def test_a_leader_that_is_never_known(timeout_ms: float) -> None:
    """testListOffsetsWaitingForMetadataUpdate_Timeout, testGetOffsetsForTimesTimeout"""
    driven = Driven({T1: 1_000}, LookupConfig(timeout_ms, 1_000, backoff=Backoff(30, 1_000)))
    driven.cluster.move(T1, NO_LEADER)
    driven.cluster.metadata(driven.known)
    driven.refresh()
    while not driven.lookup.is_done:
        driven.wait()
        driven.refresh()
    assert driven.lookup.failure == LookupFailure(ErrorCode.LEADER_NOT_AVAILABLE, T1)
    assert driven.now_ms == timeout_ms


LASTING = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PASSING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


@given(st.integers(0, 2**32), st.booleans())
def test_it_ends_with_every_offset_or_with_an_error_that_was_returned(seed: int, may_last: bool) -> None:
    rng = random.Random(seed)
    wanted = {tp: rng.choice([END, START]) for tp in PARTITIONS}
    driven = Driven(wanted)
    lookup, cluster, under_way = driven.lookup, driven.cluster, list[SendListOffsets | RefreshMetadata]()
    for _ in range(500):
        assert (
            len({e.node_id for e in under_way if isinstance(e, SendListOffsets)}) == len(under_way)
            or len(under_way) == 1
        )
        under_way += lookup.next(driven.now_ms)
        if rng.random() < 0.2:
            cluster.move(rng.choice(PARTITIONS), rng.choice([*NODES, NO_LEADER]))
        if rng.random() < 0.2:
            cluster.errors[rng.choice(PARTITIONS)].append(
                LASTING if may_last and rng.random() < 0.2 else rng.choice(PASSING)
            )
        if under_way:
            effect = under_way.pop(rng.randrange(len(under_way)))
            is_lost = rng.random() < 0.2
            if isinstance(effect, RefreshMetadata):
                code = ErrorCode.NETWORK_EXCEPTION if is_lost else ErrorCode.NONE
                if not is_lost:
                    cluster.metadata(driven.known, effect.topics)
                lookup.metadata_refreshed(effect, driven.now_ms, 0.0, code)
            elif is_lost:
                lookup.failed(effect, ErrorCode.NETWORK_EXCEPTION, driven.now_ms, 0.0)
            else:
                driven.respond(effect)
        elif not lookup.is_done:
            assert lookup.next_deadline_ms() is not None, "nothing is under way and nothing is due"
            driven.now_ms = lookup.next_deadline_ms() or 0.0
        if lookup.is_done and not under_way:
            break
    assert lookup.is_done
    assert driven.now_ms <= CONFIG.timeout_ms
    expected = {tp: cluster.logs[tp].end if at == END else cluster.logs[tp].start for tp, at in wanted.items()}
    assert lookup.offsets.items() <= expected.items()
    if lookup.failure is None:
        assert lookup.offsets == expected
    else:
        assert lookup.failure.code == LASTING or driven.now_ms >= CONFIG.unknown_topic_timeout_ms


def test_after_a_lost_connection_the_leader_is_looked_up() -> None:
    """testUpdateFetchPositionDisconnect, testGetOffsetsForTimesWhenSomeTopicPartitionLeadersDisconnectException"""
    driven = Driven({T0: END, U0: END})
    driven.lookup.failed(driven.sent_alone(), ErrorCode.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.cluster.move(T0, 2)
    driven.wait()
    assert driven.refresh() == {"t", "u"}
    assert {sent.node_id: sent.partitions for sent in driven.sent()} == {1: {U0}, 2: {T0}}
