"""The group as data: its table of transitions, its vote, its bookkeeping. Names are those of Kafka's GroupMetadataTest,
MemberMetadataTest and ClassicGroupTest. What a coordinator reads of a subscription: answers of OffsetDelete recorded from
Apache Kafka 3.9.1."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from coterie.coordinator import events as e
from coterie.coordinator.classic.replay import replay
from coterie.coordinator.classic.settle import settle
from coterie.coordinator.offsets.delete import decide_expire_offsets
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import (
    CAN_REBALANCE,
    CONSUMER,
    LEGAL_PREDECESSORS,
    Cause,
    CommittedOffset,
    Group,
    Member,
    Phase,
    Protocols,
    subscribed_topics,
)
from coterie.coordinator.views.classic_group import GROUP_TYPE
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie_conformance.scenarios.groups.scenario import ScenarioRun

P, C = Phase.PREPARING, Phase.COMPLETING
WHY = Cause("member_joined", "m")
TOPICS = struct.pack(">i", 1) + struct.pack(">h1s", 1, b"t")
NO_USER_DATA = struct.pack(">i", -1)
WHOLE = TOPICS + NO_USER_DATA
NO_OWNED = struct.pack(">i", 0)
# (version named, the bytes after it)
READ = {
    "version 0": (0, WHOLE),
    "version 0 and more": (0, WHOLE + b"zzzz"),
    "version 1, cut after the user data": (1, WHOLE),
    "version 1, cut in the owned partitions": (1, WHOLE + b"\0\0"),
    "version 2, cut after the user data": (2, WHOLE),
    "version 2, cut after the owned partitions": (2, WHOLE + NO_OWNED),
    "version 2, cut in the generation": (2, WHOLE + NO_OWNED + b"\0\0"),
    "version 3, cut after the user data": (3, WHOLE),
    "version 3, cut after the generation": (3, WHOLE + NO_OWNED + struct.pack(">i", 1)),
    "version 9": (9, WHOLE),
    "version -1": (-1, WHOLE),
}
UNREADABLE = {
    "version 0, cut before the user data": struct.pack(">h", 0) + TOPICS,
    "version 1, cut before the user data": struct.pack(">h", 1) + TOPICS,
    "half a version": b"\0",
    "nothing": b"",
}


def member(member_id: str = "m", *names: str, static: str | None = None) -> Member:
    protocols: Protocols = tuple((name, name.encode()) for name in names or ("range",))
    return Member(member_id, static, "c", "/h", 10_000, 20_000, protocols)


def joined(*members: Member) -> Group:
    group = Group("g")
    for one in members:
        replay(group, e.MemberJoined(one, "consumer", one.member_id, WHY), 0)
    return group


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("testStableToPreparingRebalanceTransition", Phase.STABLE, P),
        ("testAwaitingRebalanceToPreparingRebalanceTransition", C, P),
        ("testAwaitingRebalanceToStableTransition", C, Phase.STABLE),
        ("testPreparingRebalanceToEmptyTransition", P, Phase.EMPTY),
        ("testPreparingRebalanceToDeadTransition", P, Phase.DEAD),
        ("testStableToDeadTransition", Phase.STABLE, Phase.DEAD),
        ("testEmptyToDeadTransition", Phase.EMPTY, Phase.DEAD),
    ],
)
def test_a_legal_transition(name: str, before: Phase, after: Phase) -> None:
    assert before in LEGAL_PREDECESSORS[after]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("testEmptyToStableIllegalTransition", Phase.EMPTY, Phase.STABLE),
        ("testStableToStableIllegalTransition", Phase.STABLE, Phase.STABLE),
        ("testEmptyToAwaitingRebalanceIllegalTransition", Phase.EMPTY, C),
        ("testPreparingRebalanceToPreparingRebalanceIllegalTransition", P, P),
        ("testPreparingRebalanceToStableIllegalTransition", P, Phase.STABLE),
        ("testAwaitingRebalanceToAwaitingRebalanceIllegalTransition", C, C),
        ("testDeadToStableIllegalTransition", Phase.DEAD, Phase.STABLE),
        ("testDeadToPreparingRebalanceIllegalTransition", Phase.DEAD, P),
        ("testDeadToAwaitingRebalanceIllegalTransition", Phase.DEAD, C),
        ("testDeadToDeadIllegalTransition", Phase.DEAD, Phase.DEAD),
    ],
)
def test_an_illegal_transition_is_a_bug(name: str, before: Phase, after: Phase) -> None:
    assert before not in LEGAL_PREDECESSORS[after]
    group = joined(member())
    group.phase = before
    events: dict[Phase, Any] = {P: e.RebalanceStarted((WHY,), 1), C: e.GenerationFormed(1, "range", "m", None)}
    if after in events:
        with pytest.raises(AssertionError, match="is not a transition"):
            replay(group, events[after], 0)


@pytest.mark.parametrize(
    ("name", "phase", "may"),
    [
        ("testCanRebalanceWhenStable", Phase.STABLE, True),
        ("testCanRebalanceWhenCompletingRebalance", C, True),
        ("of Empty as well", Phase.EMPTY, True),
        ("testCannotRebalanceWhenPreparingRebalance", P, False),
        ("testCannotRebalanceWhenDead", Phase.DEAD, False),
    ],
)
def test_from_where_a_rebalance_may_start(name: str, phase: Phase, may: bool) -> None:
    assert (phase in CAN_REBALANCE) is may
    group = joined(member())
    group.phase = phase
    outcome = settle(group, 0, CoordinatorConfig())
    started = outcome is not None and any(isinstance(x, e.RebalanceStarted) for x in outcome.events)
    assert started is may


def test_the_vote() -> None:
    """testVoteForPreferredProtocol, testSelectProtocolRaisesIfNoMembers, testVoteRaisesOnNoSupportedProtocols"""
    with pytest.raises(ValueError, match="empty"):
        Group("g").select_protocol()
    group = joined(
        member("a", "roundrobin", "range"), member("b", "range", "roundrobin"), member("c", "range", "roundrobin")
    )
    assert group.select_protocol() == "range"
    group = joined(member("a", "sticky", "range"), member("b", "range"))
    assert group.select_protocol() == "range"  # the vote goes to the first of one's own that all share
    with pytest.raises(StopIteration):
        joined(member("a", "sticky"), member("b", "range")).select_protocol()


def test_metadata_by_protocol() -> None:
    """testMetadata, testMetadataRaisesOnUnsupportedProtocol, testHasValidGroupInstanceId"""
    one = member("m", "range", "roundrobin", static="i")
    assert (one.metadata("range"), one.metadata("roundrobin")) == (b"range", b"roundrobin")
    with pytest.raises(AssertionError, match="does not support protocol sticky"):
        one.metadata("sticky")
    assert one.group_instance_id == "i"


def test_the_next_generation() -> None:
    """testInitNextGeneration, testInitNextGenerationEmptyGroup"""
    group = joined(member())
    replay(group, e.RebalanceStarted((WHY,), 0), 0)
    outcome = settle(group, 0, CoordinatorConfig())
    assert outcome is not None
    for event in outcome.events:
        replay(group, event, 0)
    assert (group.generation, group.protocol, group.phase) == (1, "range", C)
    replay(group, e.RebalanceStarted((WHY,), 0), 0)
    replay(group, e.MemberRemoved("m", WHY), 0)
    outcome = settle(group, 0, CoordinatorConfig())
    assert outcome is not None
    for event in outcome.events:
        replay(group, event, 0)
    assert (group.generation, group.protocol, group.phase) == (2, None, Phase.EMPTY)


def test_replacing_a_static_member_needs_an_instance_and_an_old_member() -> None:
    """testReplaceGroupInstanceWithEmptyGroupInstanceId, testReplaceGroupInstanceWithNonExistingMember,
    staticMemberReJoinWithIllegalArgumentAsMissingOldMember: internal errors, here a bug that shows at once."""
    group = joined(member("old", static="i"))
    with pytest.raises(KeyError, match="nobody"):
        replay(group, e.StaticMemberReplaced("nobody", member("new", static="i"), None, WHY, False), 0)
    group.static_members["i"] = "nobody"
    run = ScenarioRun()
    run.shard.groups["g"] = group
    with pytest.raises(KeyError, match="nobody"):
        run.step("join a instance=i")


def test_an_empty_group_that_maps_an_instance_is_a_bug() -> None:
    """staticMemberReJoinWithIllegalStateAsUnknownMember, testStaticMemberReJoinWithIllegalStateAsUnknownMember: the error
    names group and instance."""
    run = ScenarioRun()
    group = joined(member("old", static="i"))
    group.phase, group.wanted = Phase.EMPTY, []
    run.shard.groups["g"] = group
    with pytest.raises(AssertionError, match="group g is Empty and yet maps i"):
        run.step("join a instance=i")


def test_a_waiting_request_is_answered_once_and_nobody_else_is() -> None:
    """testInvokeJoinCallback, testNotInvokeJoinCallback, testInvokeSyncCallback, testNotInvokeSyncCallback,
    testCompleteAllJoinFutures, testCompleteAllSyncFutures, testCompleteJoinFuture, testNotCompleteJoinFuture,
    testCompleteSyncFuture, testNotCompleteSyncFuture: the ledger of ScenarioRun raises on a second answer."""
    run = ScenarioRun()
    run.step("join a version=3")
    run.step("sync a")
    assert run.step("join b version=3") == ["g: Stable -> PreparingRebalance (member_joined b-1)"]
    assert run.ledger.open == {"b#3"}
    responded = run.step("join a")
    assert [line.split(":")[0] for line in responded if "JoinGroup" in line] == ["b", "a"]
    assert run.step("sync b") == []
    responded = run.step("sync a assign=a:x,b:y")
    assert [line for line in responded if "SyncGroup" in line] == [
        "b: SyncGroup NONE assignment=y",
        "a: SyncGroup NONE assignment=x",
    ]
    assert not run.ledger.open


def test_pending_ids_are_strict() -> None:
    """testCannotAddPendingMemberIfStable, testRemovalFromPendingAfterMemberIsStable,
    testRemovalFromPendingWhenMemberIsRemoved, testCannotAddStaticMemberIfAlreadyPresent, testUpdateMember"""
    run = ScenarioRun()
    run.step("join a")
    assert list(run.shard.groups["g"].reservations) == ["a-1"]
    run.step("join a")
    group = run.shard.groups["g"]
    assert (list(group.members), group.reservations) == (["a-1"], {})
    run.step("join b")
    run.step("leave b")
    assert not group.reservations
    with pytest.raises(AssertionError, match="is a member already"):
        replay(group, e.MemberJoined(member("a-1"), "consumer", "t", WHY), 0)
    replay(group, e.MemberJoined(member("s", static="i"), "consumer", "t", WHY), 0)
    with pytest.raises(AssertionError, match="i is taken"):
        replay(group, e.MemberJoined(member("s2", static="i"), "consumer", "t", WHY), 0)
    replay(group, e.MemberRejoined("a-1", (("sticky", b""),), 7, 8, "t", None), 0)
    updated = group.members["a-1"]
    assert (updated.protocols, updated.session_timeout_ms, updated.rebalance_timeout_ms) == ((("sticky", b""),), 7, 8)


@pytest.mark.parametrize(("group_id", "delay_ms"), [("own", 7), ("g", 3_000)])
def test_a_group_settles_by_its_own_settings(group_id: str, delay_ms: int) -> None:
    shard = Shard(CoordinatorConfig(), own_configs={"own": CoordinatorConfig(group_initial_rebalance_delay_ms=7)})
    request = JoinGroupRequest(group_id, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    decision = shard.decide(request, Context(1_000, "token", "new", 3, "c", "/h"))
    shard.commit(decision)
    settled = shard.settle(decision.group, 1_000)
    assert settled is not None
    (started,) = settled.outcome.events
    assert isinstance(started, e.RebalanceStarted)
    assert started.deadline_ms == 1_000 + delay_ms


def test_commits_of_one_partition_become_visible_as_they_are_written() -> None:
    """testOffsetCommitWithAnotherPending, testOffsetCommitFailureWithAnotherPending, testHasPendingNonTxnOffsets: a
    plain commit is decided, appended and kept in one step, so none is ever pending; a failed one leaves no trace."""
    run = ScenarioRun()
    run.step("commit s t-0=1")
    run.step("fail-append KAFKA_STORAGE_ERROR")
    assert run.step("commit s t-0=2") == ["s: OffsetCommit t-0=NOT_COORDINATOR"]
    assert run.step("fetch t-0") == ["t-0: 1"]
    run.step("commit s t-0=3")
    assert run.step("fetch t-0") == ["t-0: 3"]
    assert not run.shard.groups["g"].has_pending_offset(("t", 0))


def test_when_an_offset_expires() -> None:
    """testOffsetExpirationCondition, testIsSubscribedToTopic: the rules of KIP-211, state by state."""
    config = CoordinatorConfig(offsets_retention_ms=1000)

    def gone(phase: Phase, kind: str | None, now_ms: int, subscribed: tuple[bytes, ...] | None = ()) -> bool:
        group = Group("g", phase=phase, phase_since_ms=500, protocol_type=kind)
        group.subscriptions = subscribed
        group.offsets["t", 0] = CommittedOffset(1, -1, "", 0)
        return e.OffsetRemoved("t", 0) in decide_expire_offsets(group, now_ms, config).events

    assert gone(Phase.EMPTY, None, 1000)  # a simple consumer: from the commit
    assert not gone(Phase.EMPTY, "consumer", 1499)  # from when the group became Empty
    assert gone(Phase.EMPTY, "consumer", 1500)
    assert gone(Phase.STABLE, "consumer", 1000)  # nobody subscribes to it
    assert not gone(Phase.STABLE, "consumer", 9999, None)  # nobody knows who subscribes
    assert not gone(Phase.PREPARING, "consumer", 9999)
    assert not gone(Phase.STABLE, "connect", 9999)
    assert subscribed_topics(Group("g", protocol_type="consumer")) is None


def test_a_group_is_made_once() -> None:
    """testAddGroup, testGroupNotExists: absent and Dead groups do not exist; the one that is there stays the one."""
    shard = Shard(CoordinatorConfig())
    run = ScenarioRun()
    run.shard = shard
    assert "g" not in shard.groups
    run.step("commit s t-0=1")
    first = shard.groups["g"]
    run.step("commit s t-0=2")
    assert shard.groups["g"] is first
    run.step("delete")
    assert "g" not in shard.groups
    assert GROUP_TYPE == "classic"


@pytest.mark.parametrize(
    ("code", "response"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("RECORD_LIST_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("CORRUPT_MESSAGE", "CORRUPT_MESSAGE"),
    ],
)
def test_how_a_failed_append_sounds_to_a_joining_member(code: str, response: str) -> None:
    """testJoinGroupAppendErrorConversion: a static member whose new id cannot be stored."""
    run = ScenarioRun()
    run.step("join a instance=i")
    run.step("sync a")
    run.step(f"fail-append {code}")
    assert run.step("join b instance=i client=b") == [f"b: JoinGroup {response} protocol=range"]


def topics_of(subscription: bytes) -> frozenset[str] | None:
    return subscribed_topics(Group("g", protocol_type=CONSUMER, subscriptions=(subscription,)))


@pytest.mark.parametrize("name", READ)
def test_the_fields_of_version_0_are_read_whatever_version_is_named(name: str) -> None:
    version, rest = READ[name]
    assert topics_of(struct.pack(">h", version) + rest) == {"t"}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_subscription_without_those_fields_cannot_be_read(name: str) -> None:
    assert topics_of(UNREADABLE[name]) is None
