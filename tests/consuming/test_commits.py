"""The machine of commits, each rule by itself; Kafka's ConsumerCoordinatorTest by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie.consuming.commits.commits import AutoCommitSchedule, CommitEffect, CommitEnded, Commits, SendCommit
from coterie.consuming.commits.offset_commit import Verdict
from coterie.consuming.commits.verdicts import CommitPurpose
from coterie.consuming.effects import LookUpCoordinator
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import GROUP, ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.member.driven import Driven

T0 = ("t", 0)
OFFSETS: Mapping[tuple[str, int], int] = {T0: 5}


def know_coordinator(known: ClusterMetadata, node_id: int = 1) -> None:
    known.coordinator_received("g", GROUP, FindCoordinatorResponse(coordinators=[Coordinator("g", node_id, "b", 9092)]))


def commits(member: Driven | None = None, *, is_known: bool = True) -> Commits:
    known = ClusterMetadata(300_000)
    if is_known:
        know_coordinator(known)
    return Commits(known, "g", Backoff(100, 1_000), None if member is None else member.machine)


def response(code: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, code)])]
    )


def tokens_sent(effects: list[CommitEffect]) -> list[int]:
    return [effect.token for effect in effects if isinstance(effect, SendCommit)]


def ends(effects: list[CommitEffect]) -> list[tuple[int, Verdict, ErrorCode]]:
    return [(effect.token, effect.verdict, effect.code) for effect in effects if isinstance(effect, CommitEnded)]


def test_asynchronous_commits_are_all_in_flight_and_a_synchronous_one_is_alone() -> None:
    """testCommitOffsetAsyncWithDefaultCallback, testAsyncCommitCallbacksInvokedPriorToSyncCommitCompletion"""
    machine = commits()
    first, second = machine.commit_async(OFFSETS), machine.commit_async(OFFSETS)
    sync, third = machine.commit(OFFSETS, 0, 1_000), machine.commit_async(OFFSETS)
    assert tokens_sent(machine.next(0)) == [first, second]
    machine.responded(second, response(), 0, 0)
    assert tokens_sent(machine.next(0)) == []
    machine.responded(first, response(), 0, 0)
    assert tokens_sent(machine.next(0)) == [sync]
    machine.responded(sync, response(), 0, 0)
    effects = machine.next(0)
    assert ends(effects) == [(sync, Verdict.DONE, ErrorCode.NONE)]
    assert tokens_sent(effects) == [third]


def test_a_synchronous_commit_is_repeated_before_any_later_commit() -> None:
    """testCommitOffsetSyncCoordinatorNotAvailable, testRetryCommitUnknownTopicOrPartition: after the pauses of KIP-580, and
    with the coordinator looked up again where the error asks for it."""
    machine = commits()
    sync, later = machine.commit(OFFSETS, 0, 10_000), machine.commit_async(OFFSETS)
    now_ms = 0.0
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000):
        assert tokens_sent(machine.next(now_ms)) == [sync]
        machine.responded(sync, response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), now_ms, 0)
        assert machine.next(now_ms) == []
        assert machine.next_deadline_ms() == now_ms + pause_ms
        assert machine.next(now_ms + pause_ms - 1) == []
        now_ms += pause_ms
    assert tokens_sent(machine.next(now_ms)) == [sync]
    machine.request_failed(sync, ErrorCode.NETWORK_EXCEPTION, now_ms, 0)
    assert machine.next(now_ms + 1_000) == [LookUpCoordinator()]
    know_coordinator(machine.known, 2)
    machine.coordinator_looked_up(ErrorCode.NONE, now_ms + 1_000, 0)
    (effect,) = machine.next(now_ms + 1_000)
    assert isinstance(effect, SendCommit)
    assert (effect.node_id, effect.token) == (2, sync)
    machine.responded(sync, response(), now_ms, 0)
    assert tokens_sent(machine.next(now_ms)) == [later]


def test_a_commit_before_a_revocation_is_not_repeated_for_a_deleted_topic() -> None:
    """KAFKA-16235: the group waits for the member meanwhile, and it reads nothing."""
    machine = commits()
    token = machine.commit(OFFSETS, 0, 300_000, CommitPurpose.REVOCATION)
    assert tokens_sent(machine.next(0)) == [token]
    machine.responded(token, response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0, 0)
    assert tokens_sent(machine.next(100)) == [token]
    machine.responded(token, response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 100, 0)
    assert ends(machine.next(100)) == [(token, Verdict.GIVE_UP, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize(
    "code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_an_asynchronous_commit_is_tried_once(code: ErrorCode) -> None:
    """testCommitOffsetAsyncCoordinatorNotAvailable, testCommitOffsetAsyncNotCoordinator, testCommitOffsetAsyncDisconnected"""
    machine = commits()
    token = machine.commit_async(OFFSETS)
    machine.next(0)
    machine.request_failed(token, code, 0, 0)
    ((ended_token, verdict, ended_code),) = ends(machine.next(0))
    assert (ended_token, ended_code) == (token, code)
    assert verdict in (Verdict.RETRY, Verdict.FIND_COORDINATOR)
    assert machine.next_deadline_ms() is None


def test_the_deadline_of_a_synchronous_commit() -> None:
    """testCommitOffsetSyncWithoutFutureGetsCompleted: it ends then, in flight, in its pause, or behind others; the response
    that comes later has no effect on it."""
    machine = commits()
    sync, behind = machine.commit(OFFSETS, 0, 500), machine.commit(OFFSETS, 0, 400)
    assert tokens_sent(machine.next(0)) == [sync]
    assert machine.next_deadline_ms() == 400
    assert ends(machine.next(400)) == [(behind, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]
    assert machine.next(499) == []
    assert ends(machine.next(500)) == [(sync, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]
    machine.responded(sync, response(), 600, 0)
    assert machine.next(600) == []
    paused = machine.commit(OFFSETS, 1_000, 50)
    assert tokens_sent(machine.next(1_000)) == [paused]
    machine.responded(paused, response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 1_000, 0)
    assert machine.next_deadline_ms() == 1_050
    assert ends(machine.next(1_050)) == [(paused, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]


def test_a_request_that_its_driver_gave_up_is_forgotten() -> None:
    machine = commits()
    token = machine.commit(OFFSETS, 0, 50)
    machine.next(0)
    assert ends(machine.next(50)) == [(token, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]
    machine.request_abandoned(token)
    with pytest.raises(KeyError):
        machine.responded(token, response(), 60, 0)
    assert machine.known.coordinator("g", GROUP) is not None, "the coordinator may well be there"


def test_a_commit_without_time_is_sent_all_the_same() -> None:
    """As KafkaConsumer.commitSync with a timeout of 0, which polls the network once."""
    machine = commits()
    token = machine.commit(OFFSETS, 0, 0)
    effects = machine.next(0)
    assert tokens_sent(effects) == [token]
    assert ends(effects) == [(token, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]


def test_one_lookup_serves_all_and_its_failure_ends_those_tried_once() -> None:
    """testCoordinatorUnknownInUnsentCallbacksAfterCoordinatorDead, testManyInFlightAsyncCommitsWithCoordinatorDisconnect"""
    machine = commits(is_known=False)
    first, second, sync = machine.commit_async(OFFSETS), machine.commit_async(OFFSETS), machine.commit(OFFSETS, 0, 999)
    assert machine.next(0) == [LookUpCoordinator()]
    assert machine.next(0) == []
    machine.coordinator_looked_up(ErrorCode.COORDINATOR_NOT_AVAILABLE, 0, 0)
    what = Verdict.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ends(machine.next(0)) == [(first, *what), (second, *what)]
    assert machine.next_deadline_ms() == 100
    assert machine.next(100) == [LookUpCoordinator()]
    know_coordinator(machine.known)
    machine.coordinator_looked_up(ErrorCode.NONE, 100, 0)
    assert tokens_sent(machine.next(100)) == [sync]


def test_what_no_attempt_can_mend_is_not_repeated() -> None:
    """An untrusted certificate is NETWORK_EXCEPTION too."""
    machine = commits()
    token = machine.commit(OFFSETS, 0, 1_000)
    machine.next(0)
    machine.request_failed(token, ErrorCode.NETWORK_EXCEPTION, 0, 0, is_final=True)
    assert ends(machine.next(0)) == [(token, Verdict.GIVE_UP, ErrorCode.NETWORK_EXCEPTION)]
    looked_up = machine.commit(OFFSETS, 0, 1_000)
    assert machine.next(0) == [LookUpCoordinator()]
    machine.coordinator_looked_up(ErrorCode.NETWORK_EXCEPTION, 0, 0, is_final=True)
    assert ends(machine.next(0)) == [(looked_up, Verdict.GIVE_UP, ErrorCode.NETWORK_EXCEPTION)]


def test_a_lost_request_forgets_only_its_own_coordinator() -> None:
    machine = commits()
    tokens = [machine.commit_async(OFFSETS), machine.commit_async(OFFSETS)]
    machine.next(0)
    machine.request_failed(tokens[0], ErrorCode.NETWORK_EXCEPTION, 0, 0)
    assert machine.known.coordinator("g", GROUP) is None
    know_coordinator(machine.known, 2)
    machine.request_failed(tokens[1], ErrorCode.NETWORK_EXCEPTION, 0, 0)
    assert machine.known.coordinator("g", GROUP) == 2


def test_a_member_commits_as_itself() -> None:
    """testCommitOffsetShouldNotSetInstanceIdIfMemberIdIsUnknown, testCommitOffsetRebalanceInProgress: nothing is sent during a
    round."""
    driven = Driven(group_instance_id="i")
    machine = commits(driven)
    refused = machine.commit_async(OFFSETS)
    assert ends(machine.next(0)) == [(refused, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]
    driven.to_stable([0])
    token = machine.commit_async(OFFSETS)
    (effect,) = machine.next(0)
    assert isinstance(effect, SendCommit)
    request = effect.request
    assert (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id) == ("me", 1, "i")
    machine.responded(token, response(ErrorCode.REBALANCE_IN_PROGRESS), 0, 0)
    assert ends(machine.next(0)) == [(token, Verdict.REBALANCING, ErrorCode.REBALANCE_IN_PROGRESS)]
    driven.next()
    driven.machine.revoked()
    driven.sent()
    refused = machine.commit(OFFSETS, 0, 1_000)
    assert ends(machine.next(0)) == [(refused, Verdict.REBALANCING, ErrorCode.REBALANCE_IN_PROGRESS)]
    machine.member = None
    machine.commit_async(OFFSETS)
    (effect,) = machine.next(0)
    assert isinstance(effect, SendCommit)
    request = effect.request
    assert (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id) == ("", -1, None)


def rebalance(driven: Driven, generation: int, partitions: list[int]) -> None:
    """A generation more, in which the member owns these partitions of t."""
    driven.machine.rejoin("the test asks for it")
    driven.next()
    driven.machine.revoked()
    driven.respond(driven.sent(), driven.joined(generation))
    driven.synced(driven.sent(), partitions)


@pytest.mark.parametrize("partitions", [[1], [0]])
def test_a_commit_is_not_repeated_in_a_later_generation(partitions: list[int]) -> None:
    """The coordinator would take it, also for a partition that another member owns by now, or that another owned meanwhile.
    Kafka's consumer sends it in its own generation, and raises CommitFailedException."""
    driven = Driven()
    driven.to_stable([0])
    machine = commits(driven)
    token = machine.commit(OFFSETS, 0, 10_000)
    assert tokens_sent(machine.next(0)) == [token]
    machine.request_failed(token, ErrorCode.REQUEST_TIMED_OUT, 0, 0)
    know_coordinator(machine.known)
    rebalance(driven, 2, partitions)
    assert ends(machine.next(500)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.ILLEGAL_GENERATION)]
    machine.commit(OFFSETS, 500, 1_000)
    assert len(tokens_sent(machine.next(500))) == 1


def test_a_commit_that_waited_behind_another_is_not_sent_in_a_later_generation() -> None:
    driven = Driven()
    driven.to_stable([0])
    machine = commits(driven)
    first, behind = machine.commit(OFFSETS, 0, 10_000), machine.commit_async(OFFSETS)
    assert tokens_sent(machine.next(0)) == [first]
    rebalance(driven, 2, [1])
    machine.responded(first, response(), 0, 0)
    assert ends(machine.next(0)) == [
        (first, Verdict.DONE, ErrorCode.NONE),
        (behind, Verdict.COMMIT_FAILED, ErrorCode.ILLEGAL_GENERATION),
    ]


def test_a_members_commit_is_not_repeated_without_the_membership() -> None:
    """A group without members takes commits of anyone."""
    driven = Driven()
    driven.to_stable([0])
    machine = commits(driven)
    token = machine.commit(OFFSETS, 0, 10_000)
    machine.next(0)
    machine.responded(token, response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0, 0)
    machine.member = None
    assert ends(machine.next(500)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]


def test_fencing_ends_every_later_asynchronous_commit() -> None:
    """testCommitOffsetRequestAsyncAlwaysReceiveFencedException"""
    driven = Driven(group_instance_id="i")
    driven.to_stable([0])
    machine = commits(driven)
    first = machine.commit_async(OFFSETS)
    machine.next(0)
    machine.responded(first, response(ErrorCode.FENCED_INSTANCE_ID), 0, 0)
    second = machine.commit_async(OFFSETS)
    fenced = Verdict.GIVE_UP, ErrorCode.FENCED_INSTANCE_ID
    assert ends(machine.next(0)) == [(first, *fenced), (second, *fenced)]


def test_a_cancelled_commit_is_not_sent_again_and_frees_those_behind_it() -> None:
    machine = commits()
    sync, later = machine.commit(OFFSETS, 0, 1_000), machine.commit_async(OFFSETS)
    machine.next(0)
    machine.cancel(sync)
    assert tokens_sent(machine.next(0)) == [later]
    machine.responded(sync, response(), 0, 0)
    assert machine.next(2_000) == []


# -- automatic commits ------------------------------------------------------------------------------------------------------


def test_an_automatic_commit_at_the_interval() -> None:
    """testAutoCommitAwaitsInterval, testAutoCommitDynamicAssignment: one at a time, of a member with a generation only."""
    driven = Driven()
    machine = commits(driven)
    schedule = AutoCommitSchedule(machine, 5_000)
    assert schedule.poll(lambda: OFFSETS, 10**9) is None, "not begun"
    schedule.restart(0)
    assert schedule.poll(lambda: OFFSETS, 4_999) is None
    assert schedule.poll(lambda: OFFSETS, 5_000) is None, "the member has not joined"
    driven.to_stable([0])
    assert schedule.poll(lambda: OFFSETS, 9_999) is None
    assert schedule.poll(dict, 10_000) is None, "without positions"
    token = schedule.poll(lambda: OFFSETS, 15_000)
    assert token is not None
    assert schedule.poll(lambda: OFFSETS, 99_000) is None, "one at a time"
    machine.next(0)
    machine.responded(token, response(), 0, 0)
    (ended,) = machine.next(0)
    assert isinstance(ended, CommitEnded)
    schedule.ended(ended, 99_000, 0)
    assert schedule.poll(lambda: OFFSETS, 99_000) is not None


def test_an_automatic_commit_that_fails_is_due_again_later_each_time() -> None:
    """testAutoCommitRetryBackoff: after the pauses of KIP-580, which start again with a success; an error that does not pass
    waits for the next interval."""
    schedule = AutoCommitSchedule(commits(), 5_000)
    schedule.restart(0)

    def fails(verdict: Verdict, now_ms: float) -> float:
        token = schedule.poll(lambda: OFFSETS, now_ms)
        assert token is not None
        schedule.ended(CommitEnded(token, OFFSETS, verdict, ErrorCode.NONE, ""), now_ms, 0)
        return schedule.next_ms - now_ms

    for start_ms in (0, 100_000):
        times_ms = range(start_ms + 10_000, start_ms + 60_000, 10_000)
        assert [fails(Verdict.RETRY, now_ms) for now_ms in times_ms] == [100, 200, 400, 800, 1_000]
        assert fails(Verdict.DONE, start_ms + 90_000) == 5_000
    assert fails(Verdict.COMMIT_FAILED, 300_000) == 5_000


def test_no_automatic_commit_without_the_setting() -> None:
    schedule = AutoCommitSchedule(commits(), None)
    schedule.restart(0)
    assert schedule.poll(lambda: OFFSETS, 10**9) is None
    assert schedule.commit_now(lambda: OFFSETS, 0, 1_000) is None
    enabled = AutoCommitSchedule(commits(), 5_000)
    assert enabled.commit_now(dict, 0, 1_000) is None
    token = enabled.commit_now(lambda: OFFSETS, 0, 1_000)
    assert tokens_sent(enabled.commits.next(0)) == [token]
