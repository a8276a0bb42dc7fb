"""The commits of a member of the consumer protocol (KIP-848); Kafka's CommitRequestManagerTest by name."""

from __future__ import annotations

import pytest

from coterie.consuming.commits.commits import AutoCommitSchedule, CommitEnded, Commits, SendCommit
from coterie.consuming.commits.offset_commit import Verdict
from coterie.consuming.commits.verdicts import CommitPurpose
from coterie.consuming.effects import LookUpCoordinator
from coterie.machines.cluster_metadata import GROUP
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import ConsumerStage
from coterie.member.effects import Send
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.consuming.test_commits import OFFSETS, commits, ends, know_coordinator, response, tokens_sent

TOPIC_ID = b"t" * 16


class Member:
    """A member with its coordinator in the test's hands, and its commits."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.machine = ConsumerMemberMachine(ConsumerMemberConfig("g", "me"))
        self.commits: Commits = commits(is_known=is_known)
        self.commits.member = self.machine
        self.machine.subscribe(frozenset({"t"}), 0)
        self.machine.next(0)
        self.machine.coordinator_found()

    def heartbeat(self, epoch: int = 0, partitions: list[int] | None = None, code: ErrorCode = ErrorCode.NONE) -> None:
        """The next one is answered; listeners return at once."""
        now_ms = self.machine.next_deadline_ms() or 0
        (effect,) = [effect for effect in self.machine.next(now_ms) if isinstance(effect, Send)]
        response = ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=epoch, heartbeat_interval_ms=1_000)
        response.assignment = None if partitions is None else Assignment([TopicPartitions(TOPIC_ID, partitions)])
        self.machine.responded(effect.request, response, now_ms)
        self.machine.next(now_ms)
        self.machine.topics_looked_up({TOPIC_ID: "t"}, now_ms)
        self.machine.next(now_ms)
        while self.machine.state.assignment.calls:
            self.machine.revoked()

    def sent(self, now_ms: float = 0) -> tuple[int, str]:
        """Epoch and member id of the one commit that goes out."""
        (effect,) = [effect for effect in self.commits.next(now_ms) if isinstance(effect, SendCommit)]
        return effect.request.generation_id_or_member_epoch, effect.request.member_id


def joined() -> Member:
    """In epoch 3, with partition 0 of t."""
    member = Member()
    member.heartbeat(3, [0])
    return member


def test_a_commit_carries_the_epoch() -> None:
    member = joined()
    member.commits.commit_async(OFFSETS)
    assert member.sent() == (3, "me")


def test_a_commit_outside_the_group_is_not_sent() -> None:
    """testCommitSyncFailsWithCommitFailedExceptionIfUnknownMemberId"""
    member = Member()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    assert ends(member.commits.next(0)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]


def test_a_commit_before_a_revocation_is_repeated_in_the_new_epoch() -> None:
    """testLastEpochSentOnCommit"""
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000, CommitPurpose.REVOCATION)
    for epoch, now_ms in ((3, 0), (4, 200), (5, 500)):
        if epoch > 3:
            member.heartbeat(epoch)
        assert member.sent(now_ms) == (epoch, "me")
        member.commits.responded(token, response(ErrorCode.STALE_MEMBER_EPOCH), now_ms, 0)
    member.heartbeat(code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert ends(member.commits.next(990)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]


def test_an_old_commit_is_not_made_for_the_partition_of_another() -> None:
    """The member was fenced while the commit waited for its next attempt, and joined again without the partition: its new epoch
    would make the coordinator take what only the owner may commit."""
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.commits.request_failed(token, ErrorCode.REQUEST_TIMED_OUT, 0, 0)
    member.heartbeat(code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.heartbeat(7, [1])
    assert member.machine.stage == ConsumerStage.ACKNOWLEDGING
    know_coordinator(member.commits.known)
    assert ends(member.commits.next(500)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.STALE_MEMBER_EPOCH)]


def test_an_unknown_member_is_fenced() -> None:
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.commits.responded(token, response(ErrorCode.UNKNOWN_MEMBER_ID), 0, 0)
    assert ends(member.commits.next(0)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]
    assert member.machine.lost
    assert member.machine.stage == ConsumerStage.FENCED


def test_a_late_response_does_not_fence_the_next_life() -> None:
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.heartbeat(4)
    member.commits.responded(token, response(ErrorCode.UNKNOWN_MEMBER_ID), 0, 0)
    member.commits.next(0)
    assert not member.machine.lost


# -- Kafka's table of errors ------------------------------------------------------------------------------------------------

RETRIABLE = {  # whether the coordinator is looked up again
    ErrorCode.NOT_COORDINATOR: True,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: True,
    ErrorCode.REQUEST_TIMED_OUT: True,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: False,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: False,
}
LASTING = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.GIVE_UP,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: Verdict.GIVE_UP,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Verdict.GIVE_UP,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.GIVE_UP,
    ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.GIVE_UP,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.COMMIT_FAILED,
    ErrorCode.STALE_MEMBER_EPOCH: Verdict.COMMIT_FAILED,
}
THREE = {("t", 0): 1, ("t", 1): 2, ("t", 2): 3}


def responded(member: Member, token: int, code: ErrorCode, now_ms: float = 0) -> None:
    """The request goes out, and its response has the error for each partition."""
    (effect,) = member.commits.next(now_ms)
    assert isinstance(effect, SendCommit)
    failed = response(code)
    failed.topics[0].partitions *= 3
    member.commits.responded(token, failed, now_ms, 0)


@pytest.mark.parametrize(("code", "looks_up"), RETRIABLE.items())
def test_a_synchronous_commit_is_repeated_until_its_deadline(code: ErrorCode, looks_up: bool) -> None:
    """testCommitSyncRetriedAfterExpectedRetriableException, testEnsureBackoffRetryOnOffsetCommitRequestTimeout,
    testOffsetCommitSingleFailedAttemptPerRequestWhenPartitionErrors (one failure, however many partitions failed),
    testOffsetCommitSyncTimeoutNotReturnedOnPollAndFails,
    testOffsetCommitSyncFailedWithRetriableThrowsTimeoutWhenRetryTimeExpires"""
    member = joined()
    token = member.commits.commit(THREE, 0, 350)
    for now_ms, pause_ms in ((0, 100), (100, 200)):
        responded(member, token, code, now_ms)
        assert (member.commits.known.coordinator("g", GROUP) is None) == looks_up
        assert member.commits.next(now_ms + pause_ms - 1) == []
        assert member.commits.next_deadline_ms() == now_ms + pause_ms
        if looks_up:
            assert member.commits.next(now_ms + pause_ms) == [LookUpCoordinator()]
            know_coordinator(member.commits.known)
            member.commits.coordinator_looked_up(ErrorCode.NONE, now_ms + pause_ms, 0)
    responded(member, token, code, 300)
    assert ends(member.commits.next(350)) == [(token, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]


@pytest.mark.parametrize(("code", "verdict"), LASTING.items())
def test_a_synchronous_commit_ends_with_an_error_that_lasts(code: ErrorCode, verdict: Verdict) -> None:
    """testCommitSyncRetriedAfterExpectedRetriableException, testCommitSyncFailsWithCommitFailedExceptionIfUnknownMemberId,
    testCommitSyncFailsWithCommitFailedExceptionOnStaleMemberEpoch"""
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    responded(member, token, code)
    assert ends(member.commits.next(0)) == [(token, verdict, code)]
    assert member.commits.next(10_000) == []


@pytest.mark.parametrize("code", [*RETRIABLE, *LASTING])
def test_an_asynchronous_commit_is_tried_once(code: ErrorCode) -> None:
    """testOffsetCommitRequestErroredRequestsNotRetriedForAsyncCommit,
    testOffsetCommitAsyncFailedWithRetriableThrowsRetriableCommitException"""
    member = joined()
    token = member.commits.commit_async(OFFSETS)
    responded(member, token, code)
    ((_, verdict, ended_code),) = ends(member.commits.next(0))
    assert ended_code == code
    assert (verdict in (Verdict.RETRY, Verdict.FIND_COORDINATOR)) == (code in RETRIABLE)
    assert member.commits.next(10_000) == []


@pytest.mark.parametrize("code", [*RETRIABLE, *LASTING])
def test_which_commit_before_a_revocation_is_repeated(code: ErrorCode) -> None:
    """testAutoCommitSyncBeforeRevocationRetriesOnRetriableAndStaleEpoch: not for a topic that may be deleted."""
    member = joined()
    token = AutoCommitSchedule(member.commits, 10**9).commit_now(lambda: OFFSETS, 0, 200)
    assert token is not None
    responded(member, token, code)
    is_repeated = code == ErrorCode.STALE_MEMBER_EPOCH or (
        code in RETRIABLE and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    if code == ErrorCode.STALE_MEMBER_EPOCH:
        member.heartbeat(8)
    assert bool(ends(member.commits.next(0))) != is_repeated
    know_coordinator(member.commits.known)
    repeated = [effect for effect in member.commits.next(100) if isinstance(effect, SendCommit)]
    epoch = 8 if code == ErrorCode.STALE_MEMBER_EPOCH else 3
    assert [effect.request.generation_id_or_member_epoch for effect in repeated] == [epoch] * is_repeated


@pytest.mark.parametrize("code", [*RETRIABLE, *LASTING])
def test_the_commit_of_a_batch_is_repeated_for_all_that_passes(code: ErrorCode) -> None:
    """Spark commits what it has processed before it gives partitions up."""
    member = joined()
    token = member.commits.commit(OFFSETS, 0, 1_000, CommitPurpose.BATCH)
    responded(member, token, code)
    assert (ends(member.commits.next(0)) == []) == (code in RETRIABLE or code == ErrorCode.STALE_MEMBER_EPOCH)


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT])
def test_a_lost_connection_forgets_the_coordinator(code: ErrorCode) -> None:
    """testCommitAsyncFailsWithRetriableOnCoordinatorDisconnected"""
    member = joined()
    token = member.commits.commit_async(OFFSETS)
    member.sent()
    member.commits.request_failed(token, code, 0, 0)
    assert member.commits.known.coordinator("g", GROUP) is None
    assert ends(member.commits.next(0)) == [(token, Verdict.FIND_COORDINATOR, code)]


# -- from the call to the request -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sync", [True, False])
def test_what_is_committed(is_sync: bool) -> None:
    """testCommitSync, testCommitAsync, testPollEnsureManualCommitSent, testPollEnsureEmptyPendingRequestAfterPoll: the offsets
    of the call, once, and they are the result's."""
    member, offsets = joined(), {("t", 1): (0, 1, "")}
    assert member.commits.next(0) == []
    token = member.commits.commit(offsets, 0, 60_000) if is_sync else member.commits.commit_async(offsets)
    (sent,) = member.commits.next(0)
    assert isinstance(sent, SendCommit)
    (topic,) = sent.request.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("t", 1)
    assert (partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata) == (0, 1, "")
    assert member.commits.next(0) == []
    member.commits.responded(token, response(), 0, 0)
    assert member.commits.next(0) == [CommitEnded(token, offsets, Verdict.DONE, ErrorCode.NONE, "")]


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_commit_of_nothing_is_made_without_a_request(is_sync: bool) -> None:
    """testCommitSyncWithEmptyOffsets, testCommitAsyncWithEmptyOffsets: also outside the group."""
    for member in (joined(), Member(is_known=False)):
        token = member.commits.commit({}, 0, 60_000) if is_sync else member.commits.commit_async({})
        assert member.commits.next(0) == [CommitEnded(token, {}, Verdict.DONE, ErrorCode.NONE, "")]


def test_a_commit_waits_for_the_coordinator() -> None:
    """testPollSkipIfCoordinatorUnknown, testAsyncCommitWhileCoordinatorUnknownIsSentOutWhenCoordinatorDiscovered"""
    member = Member(is_known=False)
    member.heartbeat(3, [0])
    assert member.commits.next(0) == []
    token = member.commits.commit_async(OFFSETS)
    assert member.commits.next(0) == [LookUpCoordinator()]
    assert member.commits.next(0) == []
    know_coordinator(member.commits.known)
    member.commits.coordinator_looked_up(ErrorCode.NONE, 0, 0)
    assert tokens_sent(member.commits.next(0)) == [token]


# -- automatic commits ------------------------------------------------------------------------------------------------------


def automatic(interval_ms: float = 100) -> tuple[Member, AutoCommitSchedule]:
    member = joined()
    schedule = AutoCommitSchedule(member.commits, interval_ms)
    schedule.restart(0)
    return member, schedule


def end(member: Member, schedule: AutoCommitSchedule, token: int, code: ErrorCode, now_ms: float) -> None:
    """The commit under way is answered."""
    assert tokens_sent(member.commits.next(now_ms)) == [token]
    member.commits.responded(token, response(code), now_ms, 0)
    (ended,) = member.commits.next(now_ms)
    assert isinstance(ended, CommitEnded)
    schedule.ended(ended, now_ms, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NETWORK_EXCEPTION]
)
def test_an_automatic_commit_that_fails_waits_for_the_next_interval(code: ErrorCode) -> None:
    """testAsyncAutocommitNotRetriedAfterException, testAutoCommitAsyncFailsWithStaleMemberEpochContinuesToCommitOnTheInterval;
    a member of a classic group repeats it after a pause (testAutoCommitRetryBackoff)."""
    member, schedule = automatic(200)
    token = schedule.poll(lambda: OFFSETS, 200)
    assert token is not None
    end(member, schedule, token, code, 200)
    assert schedule.poll(lambda: OFFSETS, 300) is None
    assert schedule.poll(lambda: OFFSETS, 399) is None
    assert schedule.poll(lambda: OFFSETS, 400) is not None


def test_one_automatic_commit_at_a_time() -> None:
    """testPollEnsureAutocommitSent, testAutocommitEnsureOnlyOneInflightRequest,
    testAutoCommitOnIntervalSkippedIfPreviousOneInFlight: the interval goes on meanwhile, so
    that the next one follows the response at once."""
    member, schedule = automatic()
    assert schedule.poll(lambda: OFFSETS, 99) is None
    token = schedule.poll(lambda: OFFSETS, 100)
    assert token is not None
    assert schedule.poll(lambda: OFFSETS, 200) is None
    assert schedule.next_ms == 200
    end(member, schedule, token, ErrorCode.NONE, 210)
    assert schedule.poll(lambda: OFFSETS, 210) == token + 1


def test_an_automatic_commit_of_nothing() -> None:
    """testAutoCommitEmptyOffsetsDoesNotGenerateRequest, testAutoCommitEmptyDoesNotLeaveInflightRequestFlagOn: the interval
    starts again, and the next one is made."""
    member, schedule = automatic()
    assert schedule.poll(dict, 100) is None
    assert member.commits.next(100) == []
    assert schedule.next_ms == 200
    assert schedule.poll(lambda: OFFSETS, 200) is not None
    assert schedule.next_ms == 300


def test_the_commit_before_a_revocation_is_made_while_one_at_the_interval_is_in_flight() -> None:
    """testAutoCommitBeforeRevocationNotBlockedByAutoCommitOnIntervalInflightRequest: it follows that one, and ends with its own
    response."""
    member, schedule = automatic()
    interval = schedule.poll(lambda: OFFSETS, 100)
    assert interval is not None
    assert tokens_sent(member.commits.next(100)) == [interval]
    revocation = schedule.commit_now(lambda: OFFSETS, 100, 200)
    assert revocation is not None
    member.commits.responded(interval, response(), 110, 0)
    effects = member.commits.next(110)
    assert ends(effects) == [(interval, Verdict.DONE, ErrorCode.NONE)]
    assert tokens_sent(effects) == [revocation]
    member.commits.responded(revocation, response(), 120, 0)
    assert ends(member.commits.next(120)) == [(revocation, Verdict.DONE, ErrorCode.NONE)]
