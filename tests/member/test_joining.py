"""Joining, syncing, heartbeating and leaving, as Kafka's AbstractCoordinatorTest and HeartbeatTest have it. What needs a socket
or a clock is in tests/client/consumer/test_group.py."""

from __future__ import annotations

import pytest

from coterie.assignors import ASSIGNORS, AssignableTopics, AssignorSpec, RebalanceProtocol
from coterie.assignors.blobs import decode_subscription, encode_assignment, encode_subscription
from coterie.member.config import MemberConfig
from coterie.member.effects import (
    Assigned,
    AssignGroup,
    Failed,
    FindCoordinator,
    LookForUnassigned,
    Revoke,
    Send,
    WatchTopics,
)
from coterie.member.machine import MemberMachine
from coterie.member.state import Stage
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.member.driven import Driven

COOPERATIVE = {"assignors": ("cooperative-sticky",)}
OWNED = (("t", 0), ("t", 1))


# -- timers (HeartbeatTest) ------------------------------------- -----------------------------------------


def test_heartbeats_are_due_after_the_interval() -> None:
    """testShouldHeartbeat, testShouldNotHeartbeat, testTimeToNextHeartbeat, testNormalHeartbeat"""
    driven = Driven(heartbeat_interval_ms=100)
    driven.to_stable([0])
    driven.now_ms = 99
    assert driven.next() == []
    assert driven.machine.next_deadline_ms() == 100
    driven.now_ms = 100
    beat = driven.sent()
    assert isinstance(beat, HeartbeatRequest)
    driven.respond(beat, HeartbeatResponse())
    assert driven.next() == []
    assert (driven.machine.stage, driven.machine.next_deadline_ms()) == (Stage.STABLE, 200)


def test_the_session_counts_from_the_last_heartbeat() -> None:
    """testSessionTimeoutExpired, testResetSession, testResetTimeouts: an unanswered heartbeat makes the coordinator
    unknown after the session timeout; a response in between moves that."""
    driven = Driven(heartbeat_interval_ms=100, session_timeout_ms=1_000)
    driven.to_stable([0])
    driven.now_ms = 100
    driven.respond(driven.sent(), HeartbeatResponse())
    driven.now_ms = 200
    driven.sent()
    driven.now_ms = 1_199
    assert driven.next() == []
    assert driven.machine.coordinator_known
    driven.now_ms = 1_200
    assert driven.next() == []
    assert not driven.machine.coordinator_known
    driven.now_ms += 100
    assert driven.next() == [FindCoordinator()]


def test_the_poll_deadline_is_apart_from_heartbeats() -> None:
    """testPollTimeout, testUpdateLastHeartbeatPollWhenCoordinatorUnknown"""
    driven = Driven(max_poll_interval_ms=5_000)
    driven.machine.subscribe(frozenset({"t"}), 0)
    driven.now_ms = 4_000
    driven.machine.polled(driven.now_ms)
    assert driven.next() == [FindCoordinator()], "the coordinator is unknown, and polling counts all the same"
    assert driven.machine.poll_deadline_ms == 9_000
    driven.now_ms = 9_001
    driven.next()
    assert driven.machine.stage == Stage.UNJOINED


# -- finding the coordinator ------------------------------------ -----------------------------------------


def test_one_lookup_at_a_time_and_pauses_that_double() -> None:
    """testLookupCoordinator, testCoordinatorDiscoveryBackoff, testCoordinatorDiscoveryExponentialBackoff"""
    driven = Driven(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    driven.machine.subscribe(frozenset({"t"}), 0)
    assert driven.next() == [FindCoordinator()]
    driven.now_ms += 50
    assert driven.next() == [], "the first is still under way"
    pauses = []
    for _ in range(6):
        driven.machine.lookup_failed(driven.now_ms)
        due_ms = driven.machine.next_deadline_ms()
        assert due_ms is not None
        pauses.append(due_ms - driven.now_ms)
        driven.now_ms = due_ms - 1
        assert driven.next() == []
        driven.now_ms = due_ms
        assert driven.next() == [FindCoordinator()]
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


# -- join and sync ---------------------------------------------- -----------------------------------------


def test_member_id_required() -> None:
    """testJoinGroupRequestWithMemberIdRequired"""
    driven = Driven()
    driven.respond(driven.to_join(), JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    assert driven.machine.stage != Stage.STABLE
    second = driven.sent()
    assert isinstance(second, JoinGroupRequest)
    assert second.member_id == "me"


def test_a_join_that_is_told_unknown_member_forgets_everything() -> None:
    """testJoinGroupRequestWithGroupInstanceIdNotFound"""
    driven = Driven(group_instance_id="i")
    driven.to_stable([0])
    driven.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driven.next()
    driven.machine.revoked()
    driven.respond(driven.sent(), JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    again = driven.sent()
    assert isinstance(again, JoinGroupRequest)
    assert (again.member_id, driven.machine.generation) == ("", -1)


@pytest.mark.parametrize("where", ["join", "sync", "heartbeat"])
def test_a_fenced_instance_is_fatal_wherever_it_appears(where: str) -> None:
    """testJoinGroupRequestWithFencedInstanceIdException, testSyncGroupRequestWithFencedInstanceIdException,
    testHeartbeatRequestWithFencedInstanceIdException"""
    driven, code = Driven(group_instance_id="i"), ErrorCode.FENCED_INSTANCE_ID
    if where == "heartbeat":
        driven.to_stable([])
        driven.beat(code)
    else:
        join = driven.to_join()
        if where == "join":
            driven.respond(join, JoinGroupResponse(error_code=code))
        else:
            driven.respond(join, driven.joined())
            driven.respond(driven.sent(), SyncGroupResponse(error_code=code))
    (failed,) = driven.next()
    assert isinstance(failed, Failed)
    assert failed.code == code


@pytest.mark.parametrize(
    ("join", "sync", "right"),
    [
        ((None, "range"), (None, None), True),
        (("consumer", "range"), ("consumer", "range"), True),
        (("connect", "range"), (None, None), False),
        (("consumer", "range"), ("connect", "range"), False),
        (("consumer", "range"), ("consumer", "roundrobin"), False),
    ],
)
def test_protocol_type_and_name_are_checked(
    join: tuple[str | None, str], sync: tuple[str | None, str | None], right: bool
) -> None:
    """testJoinGroupProtocolTypeAndName"""
    driven = Driven()
    response = driven.joined()
    response.protocol_type, response.protocol_name = join
    driven.respond(driven.to_join(), response)
    effects = driven.next()
    if isinstance(effects[0], Send):
        request = effects[0].request
        driven.respond(request, SyncGroupResponse(0, ErrorCode.NONE, *sync, encode_assignment({"t": [0]})))
        effects = driven.next()
    if right:
        assert isinstance(effects[0], Assigned)
    else:
        assert isinstance(effects[0], Failed)
        assert effects[0].code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_generation_that_was_reset_has_no_protocol_to_compare() -> None:
    """testNoGenerationWillNotTriggerProtocolNameCheck: the sync under way is given up with its generation."""
    driven = Driven()
    driven.respond(driven.to_join(), driven.joined())
    sync = driven.sent()
    driven.machine.membership_refused(ErrorCode.ILLEGAL_GENERATION)
    driven.respond(sync, SyncGroupResponse(protocol_name="other", assignment=encode_assignment({"t": [0]})))
    assert isinstance(driven.sent(), JoinGroupRequest)


def test_answers_that_come_too_late_undo_nothing() -> None:
    """testJoinGroupUnknownMemberResponseWithOldGeneration, testSyncGroupUnknownMemberResponseWithOldGeneration,
    testSyncGroupIllegalGenerationResponseWithOldGeneration"""
    driven = Driven()
    join = driven.to_join()
    driven.machine.lost_connection(join, 0)
    driven.now_ms = 100
    driven.next()
    driven.machine.coordinator_found()
    second = driven.sent()
    driven.respond(join, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    driven.respond(second, driven.joined(5))
    sync = driven.sent()
    driven.machine.lost_connection(sync, driven.now_ms)
    driven.now_ms += 1_000
    driven.next()
    driven.machine.coordinator_found()
    driven.respond(driven.sent(), driven.joined(6))
    third = driven.sent()
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        driven.respond(sync, SyncGroupResponse(error_code=code))
    assert (driven.machine.generation, driven.machine.member_id) == (6, "me")
    assert isinstance(driven.synced(third, [0])[0], Assigned)


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_a_heartbeat_of_an_older_generation_undoes_nothing(code: ErrorCode) -> None:
    """testHeartbeatIllegalGenerationResponseWithOldGeneration, testHeartbeatUnknownMemberResponseWithOldGeneration,
    testHeartbeatInstanceFencedResponseWithOldGeneration"""
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0])
    driven.now_ms = 3_000
    beat = driven.sent()
    driven.machine.rejoin("the user asked for it")
    driven.respond(driven.sent(), driven.joined(2))
    sync = driven.sent()
    driven.respond(beat, HeartbeatResponse(error_code=code))
    assert driven.machine.generation == 2
    assert driven.synced(sync, [0]) == [Assigned((("t", 0),), 2, ())]


def test_a_rebalance_heard_of_while_rejoining_changes_nothing() -> None:
    """testHeartbeatRebalanceInProgressResponseDuringRebalancing, testHeartbeatSentWhenCompletingRebalance"""
    driven = Driven()
    driven.respond(driven.to_join(), driven.joined())
    sync = driven.sent()
    driven.now_ms = 3_000
    beat = driven.sent()
    assert isinstance(beat, HeartbeatRequest), "heartbeats go on between join and sync"
    driven.respond(beat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert driven.next() == []
    assert driven.machine.stage == Stage.SYNCING
    assert isinstance(driven.synced(sync, [0])[0], Assigned)
    assert driven.machine.stage == Stage.STABLE


def test_a_join_told_to_rebalance_is_repeated() -> None:
    """testJoinGroupRequestWithRebalanceInProgress, testBackoffAndRetryUponRetriableError"""
    driven = Driven()
    driven.respond(driven.to_join(), JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    again = driven.sent()
    assert isinstance(again, JoinGroupRequest)
    driven.respond(again, JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert driven.next() == [], "after a pause"
    driven.now_ms += 100
    assert isinstance(driven.sent(), JoinGroupRequest)


@pytest.mark.parametrize("during", ["join", "sync"])
def test_a_lost_connection_keeps_the_member_id(during: str) -> None:
    """testRetainMemberIdAfterJoinGroupDisconnect, testRetainMemberIdAfterSyncGroupDisconnect, testDisconnectInJoin"""
    driven = Driven()
    driven.respond(driven.to_join(), JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    request = driven.sent()
    if during == "sync":
        driven.respond(request, driven.joined())
        request = driven.sent()
    driven.machine.lost_connection(request, 0)
    driven.now_ms = 100
    driven.next()
    driven.machine.coordinator_found()
    again = driven.sent()
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me", "so that no ghost is left"


@pytest.mark.parametrize(
    ("code", "member_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
        (ErrorCode.ILLEGAL_GENERATION, "me"),
        (ErrorCode.REBALANCE_IN_PROGRESS, "me"),
        (ErrorCode.NOT_COORDINATOR, "me"),
    ],
)
def test_errors_of_a_sync(code: ErrorCode, member_id: str) -> None:
    """testUnknownMemberIdOnSyncGroup, testIllegalGenerationOnSyncGroup, testRebalanceInProgressOnSyncGroup, testRejoinGroup,
    testConsumerRejoinAfterRebalance, testPrepareJoinAndRejoinAfterFailedRebalance"""
    driven = Driven()
    driven.respond(driven.to_join(), driven.joined())
    driven.respond(driven.sent(), SyncGroupResponse(error_code=code))
    if code == ErrorCode.NOT_COORDINATOR:
        driven.now_ms += 100
        assert driven.next() == [FindCoordinator()]
        driven.machine.coordinator_found()
    again = driven.sent()
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == member_id


def test_an_unexpected_error_of_a_sync_is_raised() -> None:
    """testUnexpectedErrorOnSyncGroup"""
    driven = Driven()
    driven.respond(driven.to_join(), driven.joined())
    driven.respond(driven.sent(), SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    (failed,) = driven.next()
    assert isinstance(failed, Failed)


def test_the_reason_travels_and_is_cut() -> None:
    """testRejoinReason, testHandleNormalLeaveGroupResponseAndTruncatedLeaveReason"""
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0])
    driven.machine.rejoin("x" * 300)
    join = driven.sent()
    assert isinstance(join, JoinGroupRequest)
    assert join.reason == "x" * 255
    driven.machine.leave("y" * 300)
    leave = driven.sent()
    assert isinstance(leave, LeaveGroupRequest)
    assert leave.members[0].reason == "y" * 255


# -- leading ---------------------------------------------------- -----------------------------------------


def led(driven: Driven, join: JoinGroupRequest, *members: JoinGroupResponseMember, generation: int = 1) -> AssignGroup:
    """We are let in as the leader of these."""
    response = driven.joined(generation, leader="me")
    response.members = list(members) or [JoinGroupResponseMember("me", None, join.protocols[0].metadata)]
    driven.respond(join, response)
    (effect,) = driven.next()
    assert isinstance(effect, AssignGroup)
    return effect


def test_the_leader_watches_the_topics_of_the_whole_group() -> None:
    """testNormalJoinGroupLeader, testPatternJoinGroupLeader, testMetadataChangeTriggersRebalance,
    testRebalanceWithMetadataChange, testPerformAssignmentShouldUpdateGroupSubscriptionAfterAssignmentIfNeeded,
    testUpdateMetadataDuringRebalance, testMetadataRefreshDuringRebalance"""
    driven = Driven(**COOPERATIVE)
    join = driven.to_join()
    assert isinstance(join, JoinGroupRequest)
    other = JoinGroupResponseMember("other", None, encode_subscription({"u"}))
    effect = led(driven, join, JoinGroupResponseMember("me", None, join.protocols[0].metadata), other)
    assert effect.topics == {"t", "u"}
    before = AssignableTopics({"t": 1, "u": 1})
    driven.machine.group_assigned({"me": {"t": [0]}, "other": {"u": [0]}}, before)
    sync = driven.sent()
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 2}))  # during the rebalance: exactly one more follows
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 2}))
    effects = driven.synced(sync, [0])
    assert effects[0] == Assigned((("t", 0),), 1, (("t", 0),))
    assert isinstance(effects[1], Send)
    led(driven, effects[1].request, JoinGroupResponseMember("me", None, b"\0\0" + bytes(8)), generation=2)  # type: ignore[arg-type]
    driven.machine.group_assigned({"me": {"t": [0]}}, AssignableTopics({"t": 1, "u": 2}))
    assert driven.synced(driven.sent(), [0]) == [Assigned((("t", 0),), 2, ())]
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 2}))
    assert driven.next() == []
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 1}))
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 2}))  # back again: rejoined once all the same
    assert isinstance(driven.sent(), JoinGroupRequest)


def test_a_follower_does_not_watch() -> None:
    """testNormalJoinGroupFollower, testPatternJoinGroupFollower"""
    driven = Driven()
    driven.to_stable([0])
    driven.machine.topics_seen(AssignableTopics({"t": 1}))
    driven.machine.topics_seen(AssignableTopics({"t": 9}))
    assert driven.next() == []


def test_a_change_of_racks_rebalances_groups_that_know_racks() -> None:
    """testRackAwareConsumerRebalanceWithDifferentRacks, testNonRackAwareConsumerRebalanceWithDifferentRacks,
    testRackAwareConsumerRebalanceWithAdditionalRacks, testRackAwareConsumerRebalanceWithLessRacks,
    testRackAwareConsumerRebalanceWithNewPartitions, testRackAwareConsumerRebalanceWithNoMetadataChange,
    testRackAwareConsumerRebalanceWithNoRackChange, testRackAwareConsumerRebalanceWithNewReplicasOnSameRacks,
    testSubscriptionRackId"""

    def rejoins(before: AssignableTopics, after: AssignableTopics) -> bool:
        driven = Driven(rack="a")
        join = driven.to_join()
        assert isinstance(join, JoinGroupRequest)
        assert decode_subscription(join.protocols[0].metadata).rack == "a"
        led(driven, join)
        driven.machine.group_assigned({"me": {}}, before)
        driven.synced(driven.sent(), [])
        driven.machine.topics_seen(after)
        return driven.next() != []

    def on(*racks: str) -> AssignableTopics:
        return AssignableTopics({"t": 1}, {"t": [frozenset(racks)]})

    assert rejoins(on("a", "b"), on("a", "c"))
    assert rejoins(on("a", "b"), on("a", "b", "c"))
    assert rejoins(on("a", "b"), on("a"))
    assert rejoins(on("a"), AssignableTopics({"t": 2}, {"t": [frozenset("a")] * 2}))
    assert not rejoins(on("a", "b"), on("b", "a")), "other replicas on the same racks"
    assert not rejoins(AssignableTopics({"t": 1}), AssignableTopics({"t": 1})), (
        "without racks nothing of them is compared"
    )


def test_a_leader_that_is_told_to_skip_only_watches() -> None:
    """testOnLeaderElectedShouldSkipAssignment, testStaticLeaderRejoinsGroupAndCanTriggersRebalance,
    testStaticLeaderRejoinsGroupAndCanDetectMetadataChangesForOtherMembers (KIP-814)"""
    driven = Driven(group_instance_id="i")
    response = driven.joined(leader="me")
    response.skip_assignment = True
    response.members = [
        JoinGroupResponseMember(m, m, encode_subscription({topic})) for m, topic in (("me", "t"), ("x", "u"))
    ]
    driven.respond(driven.to_join(), response)
    watch, send = driven.next()
    assert watch == WatchTopics(frozenset({"t", "u"}))
    assert isinstance(send, Send)
    assert isinstance(send.request, SyncGroupRequest)
    assert send.request.assignments == []
    driven.synced(send.request, [0])
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 1}))
    assert driven.next() == []
    driven.machine.topics_seen(AssignableTopics({"t": 1, "u": 2}))
    assert isinstance(driven.next()[0], Revoke)


def test_a_cooperative_assignor_may_not_hand_over_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """testPerformAssignmentShouldValidateCooperativeAssignment,
    testPerformAssignmentShouldSkipValidateCooperativeAssignmentForBuiltInCooperativeStickyAssignor, testAssign,
    shouldAdaptOldAssignors: one of the user's own, beside ours"""
    both = frozenset(RebalanceProtocol)
    monkeypatch.setitem(ASSIGNORS, "mine", AssignorSpec(ASSIGNORS["range"].assign, both))
    monkeypatch.setitem(ASSIGNORS, "careful", AssignorSpec(ASSIGNORS["range"].assign, both, withholds_claimed=True))
    for name, refused in (("mine", True), ("careful", False), ("cooperative-sticky", False)):
        driven = Driven(assignors=(name,))
        other = JoinGroupResponseMember("other", None, encode_subscription({"t"}, {"t": [0]}, 1))
        join = driven.to_join()
        assert isinstance(join, JoinGroupRequest)
        led(driven, join, JoinGroupResponseMember("me", None, join.protocols[0].metadata), other)
        driven.machine.group_assigned({"me": {"t": [0]}, "other": {}}, AssignableTopics({"t": 1}))
        (effect,) = driven.next()
        assert isinstance(effect, Failed) == refused


# -- giving up and taking --------------------------------------- -----------------------------------------


def test_cooperative_keeps_what_it_keeps() -> None:
    """KIP-429: nothing is revoked before; what went to others is revoked after; then once more."""
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0, 1])
    driven.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    join = driven.sent()
    assert isinstance(join, JoinGroupRequest), "nothing is revoked before"
    subscription = decode_subscription(join.protocols[0].metadata)
    assert (subscription.owned, subscription.generation) == ({"t": (0, 1)}, 1)
    driven.respond(join, driven.joined(2))
    assert driven.synced(driven.sent(), [1]) == [Revoke((("t", 0),), lost=False)]
    driven.now_ms += 3_000
    assert isinstance(driven.sent(), HeartbeatRequest), "while the listener is busy"
    driven.machine.revoked()
    assigned, rejoin = driven.next()
    assert assigned == Assigned((("t", 1),), 2, ())
    assert isinstance(rejoin, Send)
    driven.respond(rejoin.request, driven.joined(3))
    assert driven.synced(driven.sent(), [1, 2]) == [Assigned((("t", 1), ("t", 2)), 3, (("t", 2),))]


def test_cooperative_revokes_what_is_no_longer_subscribed_to_before() -> None:
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0, 1])
    driven.machine.subscribe(frozenset({"u"}), driven.now_ms)
    assert driven.next() == [Revoke(OWNED, lost=False)]
    driven.machine.revoked()
    assert isinstance(driven.sent(), JoinGroupRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_cooperative_loses_everything_before_it_rejoins(code: ErrorCode) -> None:
    """shouldLoseAllOwnedPartitionsBeforeRejoiningAfterDroppingOutOfTheGroup,
    shouldLoseAllOwnedPartitionsBeforeRejoiningAfterResettingGenerationId"""
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0, 1])
    driven.beat(code)
    assert driven.next() == [Revoke(OWNED, lost=True)]
    driven.machine.revoked()
    join = driven.sent()
    assert isinstance(join, JoinGroupRequest)
    assert decode_subscription(join.protocols[0].metadata).owned == {}
    for where in (JoinGroupResponse, SyncGroupResponse):
        driven = Driven(**COOPERATIVE)
        driven.to_stable([0, 1])
        driven.beat(ErrorCode.REBALANCE_IN_PROGRESS)
        request = driven.sent()
        if where is SyncGroupResponse:
            driven.respond(request, driven.joined(2))
            request = driven.sent()
        driven.respond(request, where(error_code=code))
        assert driven.next() == [Revoke(OWNED, lost=True)]


def test_membership_lost_while_partitions_are_released() -> None:
    driven = Driven(**COOPERATIVE)
    driven.to_stable([0, 1])
    driven.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driven.respond(driven.sent(), driven.joined(2))
    assert driven.synced(driven.sent(), [1]) == [Revoke((("t", 0),), lost=False)]
    driven.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    driven.machine.revoked()
    assert driven.next() == [Revoke((("t", 1),), lost=True)]


def test_a_subscription_that_changes_during_a_round() -> None:
    """testMetadataTopicsDuringSubscriptionChange, testForceMetadataRefreshForPatternSubscriptionDuringRebalance,
    testForceMetadataDeleteForPatternSubscriptionDuringRebalance"""
    driven = Driven(**COOPERATIVE)
    join = driven.to_join()
    driven.machine.subscribe(frozenset({"t", "u"}), 0)
    driven.respond(join, driven.joined())
    effects = driven.synced(driven.sent(), [0])
    assert effects[0] == Assigned((("t", 0),), 1, (("t", 0),))
    assert isinstance(effects[1], Send)
    again = effects[1].request
    assert isinstance(again, JoinGroupRequest)
    assert decode_subscription(again.protocols[0].metadata).topics == {"t", "u"}


def test_sticky_remembers_what_it_gave_up() -> None:
    """testOnAssignment: eager sticky sends its last assignment and generation as user data."""
    driven = Driven(assignors=("sticky",))
    driven.to_stable([0, 1])
    driven.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driven.next() == [Revoke(OWNED, lost=False)]
    driven.machine.revoked()
    join = driven.sent()
    assert isinstance(join, JoinGroupRequest)
    subscription = decode_subscription(join.protocols[0].metadata)
    assert subscription.owned == {}
    assert subscription.user_data == ASSIGNORS["sticky"].user_data({"t": [0, 1]}, 1)


def test_assignors_that_share_no_protocol_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """testSelectRebalanceProtcol, testSelectRebalanceProtocol"""
    monkeypatch.setitem(
        ASSIGNORS, "only", AssignorSpec(ASSIGNORS["range"].assign, frozenset({RebalanceProtocol.COOPERATIVE}))
    )
    assert MemberMachine(MemberConfig("g", assignors=("only", "cooperative-sticky"))).rebalance_protocol == 1
    with pytest.raises(ValueError, match="share no rebalance protocol"):
        MemberMachine(MemberConfig("g", assignors=("only", "range")))


# -- leaving ---------------------------------------------------- -----------------------------------------


def test_who_leaves_and_how() -> None:
    """testLeaveGroupSentWithGroupInstanceIdUnSet, testLeaveGroupOnClose, testMaybeLeaveGroup,
    testPendingMemberShouldLeaveGroup"""
    for static, sends in ((None, True), ("i", False)):
        driven = Driven(group_instance_id=static)
        driven.to_stable([0])
        driven.machine.leave("closing")
        effects = driven.next()
        assert bool(effects) == sends
        assert (driven.machine.generation, driven.machine.member_id) == (-1, "")
        if effects:
            (send,) = effects
            assert isinstance(send, Send)
            assert isinstance(send.request, LeaveGroupRequest)
            assert [m.member_id for m in send.request.members] == ["me"]
    pending = Driven()
    pending.respond(pending.to_join(), JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    pending.machine.leave("closing")
    leave = pending.sent()
    assert isinstance(leave, LeaveGroupRequest)
    assert leave.members[0].member_id == "me"


def test_partitions_that_nobody_would_give_out() -> None:
    """Found by the laboratory (seed 24787): a static leader released partitions, died before it joined again, and came back
    without a rebalance; what it had released stayed without an owner. Now a leader that held something back, or cannot know,
    looks after a session's time, and asks for a rebalance where something is left."""
    for seen in (True, False):
        driven = Driven(group_instance_id="i", session_timeout_ms=2_000, **COOPERATIVE)
        response = driven.joined(leader="me")
        response.skip_assignment = True
        response.members = [JoinGroupResponseMember("me", "i", encode_subscription({"t"}))]
        driven.respond(driven.to_join(), response)
        driven.synced(driven.next()[1].request, [0])  # type: ignore[union-attr]
        assert driven.machine.next_deadline_ms() == 2_000
        driven.now_ms = 2_000
        assert driven.next() == [LookForUnassigned(frozenset({"t"}))]
        driven.machine.unassigned_seen(seen)
        assert bool(driven.next()) == seen
    driven = Driven(session_timeout_ms=2_000, **COOPERATIVE)
    join = driven.to_join()
    assert isinstance(join, JoinGroupRequest)
    led(driven, join)
    driven.machine.group_assigned({"me": {"t": [0]}}, AssignableTopics({"t": 2}))
    driven.synced(driven.sent(), [0])
    driven.now_ms = 2_000
    assert driven.next() == [LookForUnassigned(frozenset({"t"}))]
