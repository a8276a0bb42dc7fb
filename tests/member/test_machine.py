"""The member machine alone: what it asks for, and what it makes of each response."""

from __future__ import annotations

import pytest

from coterie.assignors import AssignableTopics
from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.member.effects import Assigned, AssignGroup, Failed, FindCoordinator, Revoke
from coterie.member.state import Stage
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.member.driven import Driven


def test_a_follower_joins_syncs_and_owns() -> None:
    driven = Driven()
    first = driven.to_join()
    assert isinstance(first, JoinGroupRequest)
    assert (first.member_id, [p.name for p in first.protocols]) == ("", ["range", "cooperative-sticky"])
    driven.respond(first, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    second = driven.sent()
    assert isinstance(second, JoinGroupRequest)
    assert second.member_id == "me"
    driven.respond(second, JoinGroupResponse(generation_id=3, protocol_name="range", leader="x", member_id="me"))
    sync = driven.sent()
    assert isinstance(sync, SyncGroupRequest)
    assert (sync.generation_id, sync.assignments) == (3, [])
    driven.respond(sync, SyncGroupResponse(assignment=encode_assignment({"t": [1]})))
    assert driven.next() == [Assigned((("t", 1),), 3, (("t", 1),))]
    assert driven.machine.stage == Stage.STABLE


def test_a_leader_assigns_for_all() -> None:
    driven = Driven()
    members = [JoinGroupResponseMember(m, None, encode_subscription({"t", "u"})) for m in ("me", "other")]
    joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader="me", member_id="me", members=members)
    driven.respond(driven.to_join(), joined)
    (effect,) = driven.next()
    assert isinstance(effect, AssignGroup)
    assert (effect.protocol, effect.topics) == ("range", frozenset({"t", "u"}))
    driven.machine.group_assigned({"me": {"t": [0]}, "other": {"t": [1]}}, AssignableTopics({"t": 2}))
    sync = driven.sent()
    assert isinstance(sync, SyncGroupRequest)
    assert {a.member_id for a in sync.assignments} == {"me", "other"}


def test_a_rebalance_revokes_before_it_joins_and_heartbeats_go_on() -> None:
    driven = Driven()
    driven.to_stable([0, 1])
    driven.now_ms = 3_000
    beat = driven.sent()
    assert isinstance(beat, HeartbeatRequest)
    driven.respond(beat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert driven.next() == [Revoke((("t", 0), ("t", 1)), lost=False)]
    driven.now_ms = 6_000
    assert isinstance(driven.sent(), HeartbeatRequest), "while the listener is busy"
    driven.machine.revoked()
    rejoin = driven.sent()
    assert isinstance(rejoin, JoinGroupRequest)
    assert rejoin.member_id == "me"


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_losing_membership_loses_the_partitions(code: ErrorCode, member_id: str) -> None:
    """testIllegalGeneration, testUnknownMemberId, testCommitOffsetIllegalGenerationShouldResetGenerationId"""
    driven = Driven()
    driven.to_stable([0])
    driven.now_ms = 3_000
    driven.respond(driven.sent(), HeartbeatResponse(error_code=code))
    assert driven.next() == [Revoke((("t", 0),), lost=True)]
    driven.machine.revoked()
    rejoin = driven.sent()
    assert isinstance(rejoin, JoinGroupRequest)
    assert rejoin.member_id == member_id


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_lost_its_membership_commits_in_transactions_as_before(code: ErrorCode) -> None:
    """Without its own data a coordinator would take the offsets of a transaction unchecked. Seed 400021 of the laboratory."""
    driven = Driven()
    assert driven.machine.committing_as == ("", -1)
    driven.to_stable([0])
    assert driven.machine.committing_as == ("me", 1)
    driven.now_ms = 3_000
    driven.respond(driven.sent(), HeartbeatResponse(error_code=code))
    driven.next()
    assert driven.machine.generation == -1
    assert driven.machine.committing_as == ("me", 1)


def test_a_member_that_was_not_polled_in_time_commits_in_transactions_as_before() -> None:
    """As a consumer whose user works longer than max.poll.interval.ms, and then sends its offsets."""
    driven = Driven(max_poll_interval_ms=5_000)
    driven.to_stable([0])
    driven.now_ms = 5_001
    driven.next()
    assert driven.machine.member_id == ""
    assert driven.machine.committing_as == ("me", 1)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_cannot_be_mended_is_told_to_the_caller(code: ErrorCode) -> None:
    """testGroupMaxSizeExceptionIsFatal, testInvalidSessionTimeout, testJoinGroupInvalidGroupId, testGroupReadUnauthorized"""
    driven = Driven()
    driven.respond(driven.to_join(), JoinGroupResponse(error_code=code))
    (effect,) = driven.next()
    assert isinstance(effect, Failed)
    assert effect.code == code
    assert driven.next() == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up_again_after_a_pause(code: ErrorCode) -> None:
    """testCoordinatorNotAvailable, testNotCoordinator"""
    driven = Driven()
    driven.to_stable([0])
    driven.now_ms = 3_000
    driven.respond(driven.sent(), HeartbeatResponse(error_code=code))
    assert driven.next() == []
    driven.now_ms += 100
    assert driven.next() == [FindCoordinator()]
    assert driven.machine.owned == (("t", 0),), "membership stays"


def test_a_lost_connection_in_the_middle_of_a_join_starts_it_over() -> None:
    """testDisconnectInJoin"""
    driven = Driven()
    join = driven.to_join()
    driven.machine.lost_connection(join, driven.now_ms)
    driven.now_ms += 100
    assert driven.next() == [FindCoordinator()]
    driven.machine.coordinator_found()
    assert isinstance(driven.sent(), JoinGroupRequest)
    driven.respond(join, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    assert driven.next() == [], "the answer to the join that was given up on means nothing any more"


def test_no_poll_within_max_poll_interval_leaves_the_group() -> None:
    driven = Driven(max_poll_interval_ms=10_000)
    driven.to_stable([0])
    driven.now_ms = 10_001
    leave = driven.sent()
    assert isinstance(leave, LeaveGroupRequest)
    assert "max.poll.interval.ms" in (leave.members[0].reason or "")
    assert driven.next() == []
    driven.machine.polled(driven.now_ms)
    assert driven.next() == [Revoke((("t", 0),), lost=True)]
    driven.machine.revoked()
    assert isinstance(driven.sent(), JoinGroupRequest)


def test_a_static_member_does_not_leave() -> None:
    driven = Driven(group_instance_id="i")
    driven.to_stable([0])
    driven.machine.leave("closing")
    assert driven.next() == []


def test_an_assignment_of_a_topic_not_subscribed_to_is_refused() -> None:
    """testOutdatedCoordinatorAssignment"""
    driven = Driven()
    joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader="other", member_id="me")
    driven.respond(driven.to_join(), joined)
    driven.respond(driven.sent(), SyncGroupResponse(assignment=encode_assignment({"strange": [0]})))
    assert isinstance(driven.sent(), JoinGroupRequest)


def test_a_coordinator_that_is_being_looked_for_wakes_nobody_for_heartbeats() -> None:
    """A heartbeat that is due while the coordinator is unknown cannot be sent: waking for it would be a busy loop."""
    driven = Driven(heartbeat_interval_ms=1000)
    driven.to_stable([0])
    driven.now_ms = 1000
    beat = driven.sent()
    driven.machine.lost_connection(beat, driven.now_ms)
    driven.now_ms = 5000
    assert driven.next() == [FindCoordinator()]
    due_ms = driven.machine.next_deadline_ms()
    assert due_ms is not None
    assert due_ms > driven.now_ms
    driven.machine.lookup_failed(driven.now_ms)
    due_ms = driven.machine.next_deadline_ms()
    assert due_ms is not None
    assert due_ms > driven.now_ms


def test_a_sync_response_after_the_member_failed_is_ignored() -> None:
    """Found on reading: a heartbeat between join and sync was refused with FENCED_INSTANCE_ID, the SyncGroup response came
    after it, and the member went from FAILED to STABLE, which is no transition."""
    driven = Driven(group_instance_id="i")
    driven.respond(driven.to_join(), driven.joined())
    sync = driven.sent()
    driven.beat(ErrorCode.FENCED_INSTANCE_ID)
    (failed,) = driven.next()
    assert isinstance(failed, Failed)
    assert driven.synced(sync, [0]) == []
    assert driven.machine.stage == Stage.FAILED


def test_a_check_for_unassigned_partitions_that_ends_after_the_member_left() -> None:
    """Found on reading: a member outside the group, without an id, took itself for its leader and joined again."""
    driven = Driven(max_poll_interval_ms=10_000)
    driven.to_stable([0])
    driven.now_ms = 10_001
    assert isinstance(driven.sent(), LeaveGroupRequest)
    driven.machine.unassigned_seen(True)
    assert driven.machine.stage == Stage.UNJOINED
