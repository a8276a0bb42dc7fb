"""The lookup of committed offsets, a rule at a time and in stories: one response has them all, or an error ends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.consuming.committed_offsets import (
    CommittedConfig,
    CommittedFailure,
    CommittedLookup,
    PendingOffsets,
    SendOffsetFetch,
)
from coterie.consuming.effects import LookUpCoordinator
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import GROUP, ClusterMetadata
from coterie.wire.codec import decode, encode
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ALL = (T0, T1, U0)
TIMEOUT_MS = 10_000
CONFIG = CommittedConfig(TIMEOUT_MS, backoff=Backoff(100, 1_000))
NONE = ErrorCode.NONE


@dataclass
class Member:
    member_id: str = "m"
    member_epoch: int = 5


def response(
    errors: dict[TopicPartition, ErrorCode], partitions: Iterable[TopicPartition] = ALL
) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopics(
            tp.topic, partitions=[OffsetFetchResponsePartition(tp.partition, 7, 3, "note", errors.get(tp, NONE))]
        )
        for tp in partitions
    ]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics)])


def of_group(code: ErrorCode) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", [], code)])


class Driven:
    """A lookup with its driver in the test's hands. The coordinator is broker 1 until a test moves it."""

    def __init__(self, config: CommittedConfig = CONFIG, member: Member | None = None, known: bool = True) -> None:
        self.known = ClusterMetadata(metadata_max_age_ms=1e9)
        self.now_ms, self.coordinator = 0.0, 1
        if known:
            self.find()
        self.lookup = CommittedLookup("g", ALL, config, self.known, 0.0, member)

    def find(self) -> None:
        coordinator = Coordinator("g", self.coordinator, "host", 9092)
        self.known.coordinator_received("g", GROUP, FindCoordinatorResponse(coordinators=[coordinator]))

    def sent(self) -> SendOffsetFetch:
        effect = self.lookup.next(self.now_ms)
        assert isinstance(effect, SendOffsetFetch)
        assert self.lookup.next(self.now_ms) is None, "an effect is returned once"
        return effect

    def respond(self, response: OffsetFetchResponse) -> None:
        self.lookup.responded(self.sent(), response, self.now_ms, 0.0)

    def pause_ms(self) -> float:
        due_ms = self.lookup.next_deadline_ms()
        assert due_ms is not None
        assert self.lookup.next(self.now_ms) is None
        pause_ms, self.now_ms = due_ms - self.now_ms, due_ms
        return pause_ms

    def look_up(self, code: ErrorCode = NONE) -> None:
        effect = self.lookup.next(self.now_ms)
        assert isinstance(effect, LookUpCoordinator)
        if not code:
            self.find()
        self.lookup.coordinator_looked_up(code, self.now_ms, 0.0)


def test_the_offsets_of_one_response() -> None:
    """testRefreshOffset"""
    driven = Driven()
    driven.respond(response({}))
    assert driven.lookup.is_done
    assert driven.lookup.failure is None
    assert driven.lookup.offsets == dict.fromkeys(ALL, (7, 3, "note"))
    assert driven.lookup.next(0) is None
    assert driven.lookup.next_deadline_ms() is None


def test_the_coordinator_is_looked_up_first() -> None:
    """testRefreshOffsetRetriableErrorCoordinatorLookup"""
    driven = Driven(known=False)
    driven.look_up(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert driven.pause_ms() == 100
    driven.look_up()
    driven.respond(response({}))
    assert driven.lookup.offsets.keys() == set(ALL)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_has_moved_is_looked_up_again(code: ErrorCode) -> None:
    """testRefreshOffsetNotCoordinatorForConsumer"""
    driven = Driven()
    driven.respond(of_group(code))
    assert driven.pause_ms() == 100
    driven.coordinator = 2
    driven.look_up()
    sent = driven.sent()
    assert sent.node_id == 2


def test_a_coordinator_that_was_looked_up_meanwhile_is_kept() -> None:
    driven = Driven()
    sent = driven.sent()
    driven.coordinator = 2
    driven.find()
    driven.lookup.failed(sent, ErrorCode.NETWORK_EXCEPTION, 0.0, 0.0)
    driven.pause_ms()
    assert driven.sent().node_id == 2


def test_a_coordinator_that_is_loading_is_asked_again() -> None:
    """testRefreshOffsetLoadInProgress"""
    driven = Driven()
    for pause_ms in (100, 200, 400, 800, 1_000):
        driven.respond(of_group(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        assert driven.pause_ms() == pause_ms
    driven.respond(response({}))
    assert driven.lookup.failure is None


def test_pending_offsets_are_awaited() -> None:
    """testRefreshOffsetWithPendingTransactions"""
    driven = Driven(CommittedConfig(TIMEOUT_MS, PendingOffsets.AWAITED))
    sent = driven.sent()
    assert sent.request.require_stable
    driven.lookup.responded(sent, response({T1: ErrorCode.UNSTABLE_OFFSET_COMMIT}), 0.0, 0.0)
    assert not driven.lookup.offsets, "all of them come from one response"
    driven.pause_ms()
    driven.respond(response({}))
    assert driven.lookup.offsets.keys() == set(ALL)


@pytest.mark.parametrize("pending", [PendingOffsets.AWAITED, PendingOffsets.NEVER_IGNORED])
def test_a_broker_that_cannot_tell_which_offsets_are_pending(pending: PendingOffsets) -> None:
    """testThrowOnUnsupportedStableFlag, testNoThrowWhenStableFlagIsSupported"""
    driven = Driven(CommittedConfig(TIMEOUT_MS, pending))
    driven.lookup.failed(driven.sent(), ErrorCode.UNSUPPORTED_VERSION, 0.0, 0.0)
    if pending is PendingOffsets.NEVER_IGNORED:
        assert driven.lookup.failure == CommittedFailure(ErrorCode.UNSUPPORTED_VERSION, "")
    else:
        again = driven.sent()
        assert not again.request.require_stable
        assert not driven.lookup.awaits_pending
        driven.lookup.failed(again, ErrorCode.UNSUPPORTED_VERSION, 0.0, 0.0)
        assert driven.lookup.failure is not None, "the broker does not serve OffsetFetch at all"


@pytest.mark.parametrize(
    ("received", "where"),
    [
        (of_group(ErrorCode.GROUP_AUTHORIZATION_FAILED), ""),
        (response({U0: ErrorCode.TOPIC_AUTHORIZATION_FAILED, T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}), "u-0"),
        (OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), ""),
    ],
)
def test_an_error_that_lasts_ends_it(received: OffsetFetchResponse, where: str) -> None:
    """testRefreshOffsetsGroupNotAuthorized, testTopicAuthorizationFailedInOffsetFetch"""
    driven = Driven()
    driven.respond(received)
    assert driven.lookup.is_done
    assert driven.lookup.failure is not None
    assert driven.lookup.failure.where == where
    assert not driven.lookup.failure.code.retriable


def test_a_partition_that_is_not_named_has_failed() -> None:
    driven = Driven()
    driven.respond(response({}, [T0, U0]))
    assert not driven.lookup.is_done
    driven.pause_ms()


def test_a_partition_that_was_not_requested_is_no_offset_of_ours() -> None:
    driven = Driven()
    driven.respond(response({}, [*ALL, TopicPartition("x", 0)]))
    assert driven.lookup.offsets.keys() == set(ALL)


def test_a_member_of_the_consumer_protocol_is_named_with_its_epoch() -> None:
    """From version 9 on; older ones leave both out."""
    sent = Driven(member=Member()).sent()
    for version, expected in ((8, (None, -1)), (9, ("m", 5))):
        (group,) = decode(OffsetFetchRequest, encode(sent.request, version), version)[0].groups
        assert (group.member_id, group.member_epoch) == expected


def test_a_stale_epoch_is_replaced_by_the_newest() -> None:
    """CommitRequestManagerTest.testSyncOffsetFetchFailsWithStaleEpochAndRetriesWithNewEpoch"""
    member = Member()
    driven = Driven(member=member)
    driven.respond(of_group(ErrorCode.STALE_MEMBER_EPOCH))
    member.member_epoch = 6
    driven.pause_ms()
    sent = driven.sent()
    assert sent.request.groups[0].member_epoch == 6
    driven.lookup.responded(sent, response({}), driven.now_ms, 0.0)
    assert driven.lookup.failure is None


@pytest.mark.parametrize("epoch", [0, -1, -2])
def test_a_member_that_has_left_cannot_go_on(epoch: int) -> None:
    """CommitRequestManagerTest.testSyncOffsetFetchFailsWithStaleEpochAndNotRetriedIfMemberNotInGroupAnymore"""
    member = Member()
    driven = Driven(member=member)
    sent = driven.sent()
    member.member_epoch = epoch
    driven.lookup.responded(sent, of_group(ErrorCode.STALE_MEMBER_EPOCH), 0.0, 0.0)
    assert driven.lookup.failure == CommittedFailure(ErrorCode.STALE_MEMBER_EPOCH, "")


def test_without_time_there_is_a_single_attempt() -> None:
    driven = Driven(CommittedConfig(timeout_ms=0))
    driven.respond(of_group(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert driven.lookup.failure == CommittedFailure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")


def test_what_no_other_attempt_can_mend_is_final_whatever_its_code() -> None:
    driven = Driven(known=False)
    assert isinstance(driven.lookup.next(0), LookUpCoordinator)
    driven.lookup.coordinator_looked_up(ErrorCode.NETWORK_EXCEPTION, 0.0, 0.0, is_final=True)
    assert driven.lookup.is_done


# -- Kafka's CommitRequestManagerTest by name -----------------------------------------------------------------------------

MOVED = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT]
RETRIABLE = [
    *MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
]
LASTING = [
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("code", RETRIABLE)
def test_an_error_that_passes_is_repeated_until_the_timeout(code: ErrorCode) -> None:
    """testOffsetFetchRequestErroredRequests, testOffsetFetchRequestTimeoutRequests,
    testOffsetFetchMarksCoordinatorUnknownOnRetriableCoordinatorErrors, testSuccessfulOffsetFetch"""
    driven = Driven(member=Member())
    for pause_ms in (100, 200):
        driven.respond(of_group(code))
        assert not driven.lookup.is_done
        assert (driven.known.coordinator("g", GROUP) is None) == (code in MOVED)
        assert driven.pause_ms() == pause_ms
        if code in MOVED:
            driven.look_up()
    sent = driven.sent()
    driven.lookup.responded(sent, of_group(code), TIMEOUT_MS, 0.0)
    assert driven.lookup.failure == CommittedFailure(code, "")
    assert driven.lookup.next(TIMEOUT_MS) is None


@pytest.mark.parametrize("code", LASTING)
def test_an_error_of_the_group_that_lasts_ends_it(code: ErrorCode) -> None:
    """testOffsetFetchRequestErroredRequests, testOffsetFetchRequestTimeoutRequests"""
    driven = Driven(member=Member())
    driven.respond(of_group(code))
    assert driven.lookup.failure == CommittedFailure(code, "")
    assert driven.lookup.next(TIMEOUT_MS) is None


@pytest.mark.parametrize(
    ("code", "is_repeated"),
    [
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_two_partitions_of_three_fail(code: ErrorCode, is_repeated: bool) -> None:
    """testOffsetFetchRequestPartitionDataError: that is one failure, and its pause is the first."""
    driven = Driven(member=Member())
    driven.respond(response({T0: code, U0: code}))
    assert not driven.lookup.offsets
    assert driven.lookup.is_done != is_repeated
    if is_repeated:
        assert driven.pause_ms() == 100
        driven.respond(response({T0: code, U0: code}))
        assert driven.pause_ms() == 200


@pytest.mark.parametrize("is_found", [True, False])
def test_a_lost_connection_has_the_coordinator_looked_up(is_found: bool) -> None:
    """testOffsetFetchMarksCoordinatorUnknownOnCoordinatorDisconnectedAndRetries; and, where that lookup fails for good,
    testPollWithFatalErrorShouldFailAllUnsentRequests"""
    driven = Driven(member=Member())
    driven.lookup.failed(driven.sent(), ErrorCode.NETWORK_EXCEPTION, 0.0, 0.0)
    assert driven.known.coordinator("g", GROUP) is None
    assert driven.pause_ms() == 100
    driven.look_up(NONE if is_found else ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if is_found:
        driven.respond(response({}))
        assert driven.lookup.offsets == dict.fromkeys(ALL, (7, 3, "note"))
    else:
        assert driven.lookup.failure == CommittedFailure(ErrorCode.GROUP_AUTHORIZATION_FAILED, "")


CODES = st.sampled_from(
    [NONE]
    + [getattr(ErrorCode, name) for name in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "STALE_MEMBER_EPOCH")]
    + [getattr(ErrorCode, name) for name in ("GROUP_AUTHORIZATION_FAILED", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT")]
)
PARTITION_CODES = st.dictionaries(
    st.sampled_from(ALL), st.sampled_from([ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
)
MOVES = st.lists(st.tuples(CODES, PARTITION_CODES, st.booleans(), st.floats(-1, 1)), max_size=60)


@given(MOVES, st.booleans())
def test_it_ends_with_every_offset_or_with_an_error_that_was_met(
    moves: list[tuple[ErrorCode, dict[TopicPartition, ErrorCode], bool, float]], is_member: bool
) -> None:
    """Whatever comes, one effect at a time, never two attempts without a pause unless a lookup lies between, and an end within
    the timeout and one attempt more."""
    driven = Driven(member=Member() if is_member else None, known=False)
    lookup, met, attempts_at_ms = driven.lookup, set(), []
    for code, of_partitions, is_response, jitter in [*moves, *[(NONE, {}, True, 0.0)] * 2]:
        if lookup.is_done:
            break
        effect = lookup.next(driven.now_ms)
        if effect is None:
            driven.pause_ms()
            effect = lookup.next(driven.now_ms)
        met |= {code, *of_partitions.values()}
        assert effect is not None
        assert lookup.next(driven.now_ms) is None
        if isinstance(effect, LookUpCoordinator):
            if not code:
                driven.find()
            lookup.coordinator_looked_up(code, driven.now_ms, jitter)
            continue
        attempts_at_ms.append(driven.now_ms)
        if code and not is_response:
            lookup.failed(effect, code, driven.now_ms, jitter)
        else:
            lookup.responded(effect, of_group(code) if code else response(of_partitions), driven.now_ms, jitter)
    assert len(set(attempts_at_ms)) == len(attempts_at_ms), "two attempts at one time"
    assert all(ms <= TIMEOUT_MS for ms in attempts_at_ms)
    if lookup.failure is not None:
        assert not lookup.offsets
        assert lookup.failure.code in met
    elif lookup.is_done:
        assert lookup.offsets == dict.fromkeys(ALL, (7, 3, "note"))
