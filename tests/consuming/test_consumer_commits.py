"""The commits of a member of the consumer protocol (KIP-848); Kafka's CommitRequestManagerTest by name."""

from __future__ import annotations

from coterie.consuming.commit_verdicts import Verdict
from coterie.consuming.commits import Commits, SendCommit
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.stages import ConsumerStage
from coterie.member.effects import Send
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.consuming.test_commits import OFFSETS, commits, ends, know_coordinator, response

TOPIC_ID = b"t" * 16


class Member:
    """A member with its coordinator in the test's hands, and its commits."""

    def __init__(self) -> None:
        self.machine = ConsumerMemberMachine(ConsumerMemberConfig("g", "me"))
        self.commits: Commits = commits()
        self.commits.member = self.machine
        self.machine.subscribe(frozenset({"t"}), 0)
        self.machine.next(0)
        self.machine.coordinator_found()

    def heartbeat(self, epoch: int = 0, partitions: list[int] | None = None, code: ErrorCode = ErrorCode.NONE) -> None:
        """The next one is answered; listeners return at once."""
        now_ms = self.machine.next_deadline_ms() or 0
        (effect,) = [effect for effect in self.machine.next(now_ms) if isinstance(effect, Send)]
        answer = ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=epoch, heartbeat_interval_ms=1_000)
        answer.assignment = None if partitions is None else Assignment([TopicPartitions(TOPIC_ID, partitions)])
        self.machine.answered(effect.request, answer, now_ms)
        self.machine.next(now_ms)
        self.machine.topics_looked_up({TOPIC_ID: "t"}, now_ms)
        self.machine.next(now_ms)
        while self.machine.state.assignment.calls:
            self.machine.revoked()

    def sent(self, now_ms: float = 0) -> tuple[int, str]:
        """Epoch and member id of the one commit that goes out."""
        (effect,) = [effect for effect in self.commits.next(now_ms) if isinstance(effect, SendCommit)]
        return effect.request.generation_id_or_member_epoch, effect.request.member_id


def test_a_commit_carries_the_epoch() -> None:
    member = Member()
    member.heartbeat(3, [0])
    member.commits.commit_async(OFFSETS)
    assert member.sent() == (3, "me")


def test_a_commit_outside_the_group_is_not_sent() -> None:
    """testCommitSyncFailsWithCommitFailedExceptionIfUnknownMemberId"""
    member = Member()
    token = member.commits.commit(OFFSETS, 0, 1_000)
    assert ends(member.commits.next(0)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]


def test_a_stale_commit_is_repeated_in_the_new_epoch() -> None:
    """testAutoCommitSyncBeforeRevocationRetriesOnRetriableAndStaleEpoch, testLastEpochSentOnCommit"""
    member = Member()
    member.heartbeat(3, [0])
    token = member.commits.commit(OFFSETS, 0, 1_000)
    assert member.sent() == (3, "me")
    member.commits.answered(token, response(ErrorCode.STALE_MEMBER_EPOCH), 0, 0)
    member.heartbeat(4)
    assert member.sent(200) == (4, "me")
    member.commits.answered(token, response(), 200, 0)
    assert ends(member.commits.next(200)) == [(token, Verdict.DONE, ErrorCode.NONE)]


def test_an_asynchronous_commit_is_not_repeated() -> None:
    """testAutoCommitAsyncFailsWithStaleMemberEpochContinuesToCommitOnTheInterval"""
    member = Member()
    member.heartbeat(3, [0])
    token = member.commits.commit_async(OFFSETS)
    member.sent()
    member.commits.answered(token, response(ErrorCode.STALE_MEMBER_EPOCH), 0, 0)
    ((_, verdict, code),) = ends(member.commits.next(0))
    assert code == ErrorCode.STALE_MEMBER_EPOCH
    assert verdict != Verdict.DONE


def test_an_old_commit_is_not_made_for_the_partition_of_another() -> None:
    """The member was fenced while the commit waited for its next attempt, and joined again without the partition: its new epoch
    would make the coordinator take what only the owner may commit."""
    member = Member()
    member.heartbeat(3, [0])
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.commits.request_failed(token, ErrorCode.REQUEST_TIMED_OUT, 0, 0)
    member.heartbeat(code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.heartbeat(7, [1])
    assert member.machine.stage == ConsumerStage.ACKNOWLEDGING
    know_coordinator(member.commits.known)
    assert ends(member.commits.next(500)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.STALE_MEMBER_EPOCH)]


def test_an_unknown_member_is_fenced() -> None:
    member = Member()
    member.heartbeat(3, [0])
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.commits.answered(token, response(ErrorCode.UNKNOWN_MEMBER_ID), 0, 0)
    assert ends(member.commits.next(0)) == [(token, Verdict.COMMIT_FAILED, ErrorCode.UNKNOWN_MEMBER_ID)]
    assert member.machine.lost
    assert member.machine.stage == ConsumerStage.FENCED


def test_a_late_response_does_not_fence_the_next_life() -> None:
    member = Member()
    member.heartbeat(3, [0])
    token = member.commits.commit(OFFSETS, 0, 1_000)
    member.sent()
    member.heartbeat(4)
    member.commits.answered(token, response(ErrorCode.UNKNOWN_MEMBER_ID), 0, 0)
    member.commits.next(0)
    assert not member.machine.lost
