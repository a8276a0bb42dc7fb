"""A consumer in its group, on a real socket: joins that wait, callbacks, wake-ups, metadata,
heartbeats while the loop is held, closing. The machine alone is in tests/member."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from coterie.client import (
    Admin,
    ConfigError,
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    Producer,
    RebalanceListener,
    TopicPartition,
    WakeupError,
)
from coterie.client.consumer.classic_membership import JOIN_GRACE_S, member_config
from coterie.client.settings.settings import client_settings
from coterie.member.remedies import leave_refusal
from coterie.member.state import Stage
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.leave_group import LeaveGroupResponse, MemberResponse
from tests.awaiting import LoopClock, quiet, until, until_in_thread
from tests.client.group import member, polled, settled


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 2)
    return coterie_broker


# -- settings --------------------------------------------------- -----------------------------------------


def test_assignors_by_name_or_by_class_name() -> None:
    """shouldInstantiateNewAssignors, shouldInstantiateFromListOfOldAndNewClassTypes, shouldThrowKafkaExceptionOnNonAssignor,
    shouldThrowKafkaExceptionOnAssignorNotFound, shouldThrowKafkaExceptionOnListWithNonAssignorClassType,
    testSubscriptionWithEmptyPartitionAssignment"""

    def assignors(given: object) -> tuple[str, ...]:
        return member_config(client_settings({"partition_assignment_strategy": given}), "g").assignors

    assert assignors("org.apache.kafka.clients.consumer.CooperativeStickyAssignor") == ("cooperative-sticky",)
    assert assignors(["range", "org.apache.kafka.clients.consumer.StickyAssignor"]) == ("range", "sticky")
    for wrong in ("java.lang.String", ["range", "nothing"], ""):
        with pytest.raises(ConfigError, match="there is no assignor"):
            assignors(wrong)
    for no_name in (dict, ["range", dict], 5, None):
        with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy takes names of assignors"):
            assignors(no_name)


async def test_a_join_may_wait_for_the_whole_group(broker: LocalBroker) -> None:
    """testJoinGroupRequestTimeout, testJoinGroupRequestTimeoutLowerBoundedByDefaultRequestTimeout,
    testJoinGroupRequestMaxTimeout: the rebalance timeout and 5 s, at least the request timeout, and no overflow."""
    assert JOIN_GRACE_S == 5
    # A join that waits longer than request.timeout.ms, but not than max.poll.interval.ms, is waited for.
    async with member(broker, request_timeout_ms=200, max_poll_interval_ms=2**31 - 1) as one:
        with broker.hold("JoinGroup") as held:
            one.subscribe(["t"])
            await asyncio.to_thread(broker.until_held, held)
            LoopClock().jump(0.4)
            await quiet()
        await polled(one, lambda: len(one.assignment()) == 2)
        assert broker.requested("JoinGroup") == 2, "one without a member id and one with it"


# -- joining ---------------------------------------------------- -----------------------------------------


async def test_a_join_goes_on_while_polls_time_out(broker: LocalBroker) -> None:
    """testTimeoutAndRetryJoinGroupIfNeeded, testReturnUponRetriableErrorAndExpiredTimer,
    verifyPollTimesOutDuringMetadataUpdate"""
    async with member(broker) as one:
        broker.fail("JoinGroup", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        with broker.hold("JoinGroup") as held:
            one.subscribe(["t"])
            for _ in range(5):
                started = time.monotonic()
                assert await one.poll(20) == {}
                assert time.monotonic() - started < 1
            await asyncio.to_thread(broker.until_held, held)
            assert await one.poll(20) == {}
            assert len(held.held) == 1, "the one in flight is picked up, no other is sent"
            assert broker.requested("Fetch") == 0
        await polled(one, lambda: len(one.assignment()) == 2)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup"])
@pytest.mark.parametrize("sent_first", [True, False])
async def test_a_wakeup_loses_nothing(broker: LocalBroker, api: str, sent_first: bool) -> None:
    """testWakeupAfterJoinGroupSent, testWakeupAfterJoinGroupSentExternalCompletion, testWakeupAfterJoinGroupReceived,
    testWakeupAfterJoinGroupReceivedExternalCompletion, testWakeupAfterSyncGroupSentExternalCompletion,
    testWakeupAfterSyncGroupReceived, testWakeupAfterSyncGroupReceivedExternalCompletion,
    testWakeupFromEnsureCoordinatorReady, testWakeupDuringJoin: raised once, and the same round goes on to its end."""
    heard: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            heard.append(f"assigned {len(partitions)}")

    async with member(broker) as one:
        with broker.hold(api) as held:
            one.subscribe(["t"], Listener())
            if sent_first:
                await asyncio.to_thread(broker.until_held, held)
            one.wakeup()
            with pytest.raises(WakeupError):
                await one.poll(1_000)
            assert await one.poll(0) == {}
        await polled(one, lambda: len(one.assignment()) == 2)
        assert heard == ["assigned 2"]
        assert broker.until_stable("g") == 1


async def test_a_callback_that_is_cancelled_runs_again(broker: LocalBroker) -> None:
    """testWakeupFromAssignmentCallback, testWakeupInOnJoinComplete"""
    heard: list[str] = []

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            heard.append("begins")
            if len(heard) == 1:
                await asyncio.Event().wait()
            heard.append("ends")

    async with member(broker) as one:
        one.subscribe(["t"], Listener())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(polled(one, lambda: False), 1)
        await polled(one, lambda: "ends" in heard)
        assert heard == ["begins", "begins", "ends"]
        assert len(one.assignment()) == 2


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.SASL_AUTHENTICATION_FAILED])
async def test_who_may_not_look_the_coordinator_up_is_told(broker: LocalBroker, code: ErrorCode) -> None:
    """testGroupDescribeUnauthorized, testAuthenticationErrorInEnsureCoordinatorReady,
    testAuthenticationFailureInEnsureActiveGroup"""
    async with member(broker) as one:
        broker.fail("FindCoordinator", code)
        one.subscribe(["t"])
        with pytest.raises(KafkaError) as raised:
            await polled(one, lambda: one.assignment())
        assert raised.value.code == code


async def test_an_error_nobody_foresaw_surfaces_in_poll(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """testUncaughtExceptionInHeartbeatThread"""
    async with await settled(member(broker), 2) as one:
        assert one._membership is not None
        monkeypatch.setattr(one._membership.machine, "responded", lambda *_: 1 / 0)
        with pytest.raises(KafkaError, match="division by zero"):
            await polled(one, lambda: False)


async def test_an_idle_consumer_sleeps(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on reading: past auto.commit.interval.ms a consumer without auto-commit looked a thousand times a second."""
    async with await settled(member(broker, enable_auto_commit=False, auto_commit_interval_ms=10), 2) as one:
        await one.poll(100)
        looked: list[int] = []
        take = one._fetcher.take
        monkeypatch.setattr(one._fetcher, "take", lambda limit: looked.append(1) or take(limit))
        await one.poll(500)
        assert len(looked) < 20


async def test_what_comes_while_positions_are_looked_up_is_not_missed(broker: LocalBroker) -> None:
    """Found on reading: a revocation that came in the middle of a lookup waited for the whole poll timeout."""
    heard: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            heard.append("revoked")

    async with await settled(member(broker), 2) as one:
        one.subscribe(["t"], Listener())
        await polled(one, lambda: one.position(("t", 0)) == 0)
        with broker.hold("ListOffsets", times=10) as held:
            one._fetcher.seek(TopicPartition("t", 0), -1)
            polling = asyncio.create_task(one.poll(10_000))
            await asyncio.to_thread(broker.until_held, held)
            joins = broker.requested("JoinGroup")
            broker.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
            await asyncio.to_thread(broker.until_requested, "JoinGroup", joins + 1, 3.0)
            assert heard == ["revoked"]
        one.wakeup()
        with pytest.raises(WakeupError):
            await polling


# -- callbacks -------------------------------------------------- -----------------------------------------


async def test_all_callbacks_run_and_the_first_error_is_raised(broker: LocalBroker) -> None:
    """testRevokeExceptionThrownFirstNonBlockingSubCallbacks, testOnAssignmentExceptionThrownFirstNonBlockingSubCallbacks,
    testOnPartitionsAssignExceptionThrownWhenNoPreviousThrownCallbacks,
    testOnRevokeExceptionShouldBeRenderedIfNotKafkaException, testOnAssignmentExceptionShouldBeRenderedIfNotKafkaException,
    testOnPartitionsAssignExceptionShouldBeRenderedIfNotKafkaException: the listener's own exception, as it was raised."""
    heard: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            heard.append("revoked")
            raise ValueError("revoking failed")

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            heard.append("assigned")
            if "revoked" in heard:
                raise ValueError("assigning failed")

    one = member(broker, partition_assignment_strategy="cooperative-sticky")
    one.subscribe(["t"], Listener())
    await polled(one, lambda: len(one.assignment()) == 2)
    async with member(broker, "two", partition_assignment_strategy="cooperative-sticky") as two:
        two.subscribe(["t"])
        errors: list[str] = []
        async with asyncio.timeout(20):
            while len(two.assignment()) != 1:
                came = await asyncio.gather(one.poll(10), two.poll(10), return_exceptions=True)
                errors += [str(error) for error in came if isinstance(error, ValueError)]
        assert errors[0] == "revoking failed"
        assert set(errors) <= {"revoking failed", "assigning failed"}
        assert heard[:3] == ["assigned", "revoked", "assigned"], "the second ran although the first had failed"
    with pytest.raises(ValueError, match="revoking failed"):
        await one.close()


async def test_group_metadata_is_new_when_callbacks_run(broker: LocalBroker) -> None:
    """testGetGroupMetadata, shouldUpdateConsumerGroupMetadataBeforeCallbacks"""
    seen: list[ConsumerGroupMetadata] = []
    one = member(broker, group_instance_id="i")
    assert one.group_metadata() == ConsumerGroupMetadata("g", group_instance_id="i")

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            seen.append(one.group_metadata())

    one.subscribe(["t"], Listener())
    await polled(one, lambda: seen)
    (member_id,) = broker.members("g")
    assert seen == [ConsumerGroupMetadata("g", 1, member_id, "i")]
    await one.close()


async def test_group_metadata_after_the_membership_is_lost_is_refused(broker: LocalBroker) -> None:
    """Without member and generation the offsets of a transaction would be taken unchecked."""
    one = await settled(member(broker), 2)
    before = one.group_metadata()
    address = {"bootstrap.servers": broker.bootstrap_servers}
    async with Admin(address) as admin:
        await admin.remove_members_from_consumer_group("g", [before.member_id])
    await until(lambda: one.generation < 0, "the member knows that it is none")
    assert one.group_metadata() == before
    async with Producer(address | {"transactional.id": "mover"}) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaError) as caught:
            await producer.send_offsets_to_transaction({("t", 0): 1}, one.group_metadata())
        assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        await producer.abort_transaction()
    await one.close()


async def test_metrics_count_and_are_readable_from_any_thread(broker: LocalBroker) -> None:
    """testMetrics, testThreadSafeAssignedPartitionsMetric, testAssignedPartitionCountMetricRegistered"""
    broker.produce("t", b"a", b"b")
    async with await settled(member(broker), 2) as one:
        await polled(one, lambda: one.position(("t", 0)) == 2)
        await one.commit()
        await asyncio.to_thread(broker.until_requested, "Heartbeat", 2)
        readings: list[dict[str, float]] = []
        thread = threading.Thread(target=lambda: readings.append(one.metrics()))
        thread.start()
        thread.join()
        (metrics,) = readings
        assert (metrics["records_consumed"], metrics["assigned_partitions"], metrics["rebalances"]) == (2, 2, 1)
        assert metrics["commits"] >= 1
        assert metrics["joins"] >= 1
        assert metrics["syncs"] == 1
        assert metrics["failed_rebalances"] == 0
        assert 0 <= metrics["last_rebalance_seconds_ago"] < 20


# -- topics ----------------------------------------------------- -----------------------------------------


async def test_an_unauthorized_topic_fails_the_poll_and_can_be_mended(broker: LocalBroker) -> None:
    """testSubscriptionChangeWithAuthorizationFailure"""
    async with member(broker, metadata_max_age_ms=60_000) as one:
        broker.fail("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        one.subscribe(["t"])
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await polled(one, lambda: False)
        broker.create_topic("other", 1)
        one.subscribe(["other"])
        await polled(one, lambda: one.assignment() == {("other", 0)})


async def test_topics_that_appear_later(broker: LocalBroker) -> None:
    """testRebalanceAfterTopicUnavailableWithSubscribe, testRebalanceAfterTopicUnavailableWithPatternSubscribe,
    testRebalanceAfterNotMatchingTopicUnavailableWithPatternSubscribe"""
    quiet: dict[str, Any] = {"allow_auto_create_topics": False}
    async with member(broker, **quiet) as one, member(broker, "two", group_id="h", **quiet) as two:
        one.subscribe(["late"])
        two.subscribe(re.compile("l.*"))
        for _ in range(3):
            assert await one.poll(20) == {}
            assert await two.poll(20) == {}
        broker.create_topic("late", 1)
        await polled(one, lambda: one.assignment() == {("late", 0)})
        await polled(two, lambda: two.assignment() == {("late", 0)})
        assert two.subscription() == {"late"}
        generation = broker.until_stable("h")
        broker.create_topic("other", 1)
        requested = broker.requested("Metadata")
        await polled(two, lambda: broker.requested("Metadata") >= requested + 6, "both ask for the topics again")
        assert broker.until_stable("h") == generation, "a topic that does not match means nothing"


async def test_internal_topics_match_only_when_told_to(broker: LocalBroker) -> None:
    """testExcludeInternalTopicsConfigOption, testIncludeInternalTopicsConfigOption"""
    async with await settled(member(broker, group_id="first"), 2) as first:
        await first.commit({("t", 0): 0})
        async with (
            member(broker, "two", exclude_internal_topics=False) as two,
            member(broker, group_id="h") as three,
        ):
            two.subscribe(re.compile("__consumer.*|t"))
            three.subscribe(re.compile("__consumer.*|t"))
            await polled(two, lambda: {t for t, _ in two.assignment()} == {"__consumer_offsets", "t"})
            await polled(three, lambda: {t for t, _ in three.assignment()} == {"t"})


async def test_subscribing_and_assigning_do_not_mix(broker: LocalBroker) -> None:
    async with member(broker) as one:
        await one.assign([("t", 0)])
        with pytest.raises(ConfigError, match="cannot be mixed"):
            one.subscribe(["t"])
        await one.unsubscribe()
        with pytest.raises(ConfigError, match="takes a list"):
            one.subscribe("t")
        one.subscribe(["t"])
        with pytest.raises(ConfigError, match="cannot be mixed"):
            await one.assign([("t", 0)])


# -- heartbeats ------------------------------------------------- -----------------------------------------


def test_heartbeats_go_out_while_user_code_holds_the_loop(
    broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """testPollHeartbeatAwakesHeartbeatThread, testHeartbeatThreadClose, and the issue's own: held for longer than the
    session, the member stays in, and a warning names the line that holds the loop."""
    lost: list[object] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.extend(partitions)

    async def story() -> None:
        async with member(broker, session_timeout_ms=30_000) as one:
            one.subscribe(["t"], Listener())
            await polled(one, lambda: len(one.assignment()) == 2)
            hold_the_loop()
            assert broker.members("g"), "twice its session, and still a member"
            await one.poll(50)
            assert (lost, one.generation) == ([], 1)
            thread = one._membership._thread._thread if one._membership is not None else None
        assert thread is not None
        thread.join(5)
        assert not thread.is_alive()

    def hold_the_loop() -> None:
        holding = threading.Thread(target=two_sessions)
        holding.start()
        holding.join()

    def two_sessions() -> None:
        for _ in range(4):
            before = broker.requested("Heartbeat")
            until_in_thread(lambda before=before: broker.requested("Heartbeat") > before, "a heartbeat")  # type: ignore[misc]
            broker.jump(20_000)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    held = r"the event loop has been held by .*test_group\.py:\d+ in hold_the_loop; heartbeats go out from a thread"
    assert sum(re.search(held, record.getMessage()) is not None for record in caplog.records) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="usleep is POSIX's")
def test_when_the_whole_interpreter_is_held_a_warning_says_where(
    broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Then no thread can send anything: the heartbeat is late, and the culprit is named."""
    holding = ctypes.PyDLL(None).usleep  # called without giving the GIL up, as a careless extension does

    late = (
        r"a heartbeat is \d+\.\d s late: the interpreter was held, last seen at .*test_group\.py:\d+ in hold_everything"
    )

    def warned() -> bool:
        return any(re.search(late, record.getMessage()) for record in caplog.records)

    def hold_everything() -> None:
        holding(900_000)
        end_s = time.monotonic() + 2
        while not warned() and time.monotonic() < end_s:  # still here when the thread gets its turn
            pass

    async def story() -> None:
        async with await settled(member(broker), 2) as one:

            async def held() -> bool:
                """Again where no heartbeat was due: a busy machine may have delayed the member too, so that it joins again."""
                hold_everything()
                await one.poll(100)
                return warned()

            await until(held, lambda: [record.getMessage() for record in caplog.records], patience_s=120)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


async def test_a_static_member_that_is_stuck_only_falls_silent(broker: LocalBroker) -> None:
    settings: dict[str, Any] = {"max_poll_interval_ms": 200, "group_instance_id": "i", "session_timeout_ms": 5_000}
    async with await settled(member(broker, **settings), 2):
        time.sleep(0.7)
        assert len(broker.members("g")) == 1
        assert broker.requested("LeaveGroup") == 0


async def test_a_member_that_is_stuck_leaves_even_while_it_holds_the_loop(broker: LocalBroker) -> None:
    """max.poll.interval.ms holds for the thread, too."""
    async with await settled(member(broker, max_poll_interval_ms=300), 2):
        until_in_thread(lambda: broker.members("g") == {}, "the member leaves")


async def test_a_coordinator_that_is_gone_is_found_again(broker: LocalBroker) -> None:
    """testCoordinatorDisconnect"""
    async with await settled(member(broker), 2) as one:
        broker.drop_connections("one")
        requested = broker.requested("Heartbeat")
        await asyncio.to_thread(broker.until_requested, "Heartbeat", requested + 2)
        assert (len(one.assignment()), broker.until_stable("g")) == (2, 1)


# -- leaving ---------------------------------------------------- -----------------------------------------


def test_what_the_answer_to_leaving_means() -> None:
    """testHandleNormalLeaveGroupResponse, testHandleLeaveGroupResponseWithEmptyMemberResponse,
    testHandleLeaveGroupResponseWithException, testHandleMultipleMembersLeaveGroupResponse"""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert leave_refusal(LeaveGroupResponse(members=[MemberResponse("me")])) == ErrorCode.NONE
    assert leave_refusal(LeaveGroupResponse()) == ErrorCode.NONE
    assert leave_refusal(LeaveGroupResponse(members=[MemberResponse("me", error_code=unknown)])) == unknown
    assert leave_refusal(LeaveGroupResponse(error_code=unknown)) == unknown
    two = [MemberResponse("me"), MemberResponse("other")]
    assert leave_refusal(LeaveGroupResponse(members=two)) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("member_still", [True, False])
async def test_unsubscribing_revokes_or_loses(broker: LocalBroker, member_still: bool) -> None:
    """testUnsubscribeWithValidGeneration, testUnsubscribeWithInvalidGeneration"""
    heard: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            heard.append("revoked")

        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            heard.append("lost")

    async with member(broker) as one:
        one.subscribe(["t"], Listener())
        await polled(one, lambda: len(one.assignment()) == 2)
        if not member_still:
            broker.expire("g", "one")
            assert one._membership is not None
            machine = one._membership.machine
            await until(lambda: machine.generation < 0, "the member hears that it is none")
        await one.unsubscribe()
        assert heard == ["revoked" if member_still else "lost"]
        assert (one.assignment(), one.subscription()) == (set(), set())
        await settled(one, 2)


async def holds(condition: Callable[[], object], what: str) -> None:
    async def once() -> bool:
        return bool(condition())

    await until(once, what)


@pytest.mark.parametrize("how", ["removed", "too late"])
async def test_a_revocation_that_waits_for_a_poll_while_the_membership_ends(broker: LocalBroker, how: str) -> None:
    """ConsumerCoordinator.onJoinPrepare decides at the poll: the partitions are lost by then. The listener was called with
    revoked, and its automatic commit refused."""
    heard: list[tuple[str, int]] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            heard.append(("revoked", len(partitions)))

        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            heard.append(("lost", len(partitions)))

    async with member(broker, max_poll_interval_ms=1_000) as one:
        one.subscribe(["t"], Listener())
        await polled(one, lambda: len(one.assignment()) == 2)
        membership = one._membership
        assert membership is not None
        membership.machine.rejoin("the test asked for it")
        membership.wake()
        await holds(lambda: membership.for_poll, "the revocation waits for a poll")
        if how == "removed":
            broker.expire("g", "one")
        await holds(lambda: membership.machine.generation < 0, "the membership has ended")
        await polled(one, lambda: one.generation > 0 and len(one.assignment()) == 2)
        assert heard == [("lost", 2)]


async def test_a_revocation_is_reported_once_although_its_callback_ran_twice(broker: LocalBroker) -> None:
    """testWakeupFromAssignmentCallback, of a revocation: cancelled in the middle it runs again, and only its end counts."""
    started, going = asyncio.Event(), asyncio.Event()

    class Listener(RebalanceListener):
        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            started.set()
            await going.wait()

    async with member(broker) as one:
        one.subscribe(["t"], Listener())
        await polled(one, lambda: len(one.assignment()) == 2)
        membership = one._membership
        assert membership is not None
        membership.machine.rejoin("the test asked for it")
        membership.wake()
        await holds(lambda: membership.for_poll, "the revocation waits for a poll")
        poll = asyncio.create_task(one.poll(1_000))
        await started.wait()
        poll.cancel()
        await asyncio.wait({poll})
        assert membership.machine.stage == Stage.REVOKING, "the listener has not returned"
        going.set()
        await polled(one, lambda: one.generation == 2)


async def test_after_leaving_commits_name_no_member(broker: LocalBroker) -> None:
    """testCommitAfterLeaveGroup"""
    async with await settled(member(broker, enable_auto_commit=False), 2) as one:
        await one.unsubscribe()
        assert broker.members("g") == {}
        await one.assign([("t", 0)])
        await one.commit({("t", 0): 7})
        assert broker.committed("g") == {("t", 0): 7}


@pytest.mark.parametrize("how", ["dynamic", "manual"])
async def test_closing_commits_and_leaves(broker: LocalBroker, how: str) -> None:
    """testCloseDynamicAssignment, testCloseManualAssignment, testCloseCoordinatorNotKnownWithCommits, testGracefulClose,
    testCloseShouldBeIdempotent"""
    broker.produce("t", b"a", b"b")
    one = member(broker)
    if how == "dynamic":
        await settled(one, 2)
    else:
        await one.assign([("t", 0)])
    await polled(one, lambda: one.position(("t", 0)) == 2)
    await one.close()
    assert broker.committed("g")["t", 0] == 2
    assert broker.members("g") == {}
    await one.close()
    with pytest.raises(RuntimeError, match="closed"):
        await one.poll()


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetCommit", "LeaveGroup"])
async def test_closing_takes_no_longer_than_it_may(broker: LocalBroker, api: str) -> None:
    """testCloseCoordinatorUnavailableNoCommits, testCloseTimeoutCoordinatorUnavailableForCommit,
    testCloseMaxWaitCoordinatorUnavailableForCommit, testCloseNoResponseForCommit, testCloseNoResponseForLeaveGroup,
    testCloseTimeout, testLeaveGroupTimeout"""
    broker.produce("t", b"a")
    one = await settled(member(broker), 2)
    await polled(one, lambda: one.position(("t", 0)) == 1)
    with broker.hold(api, times=100):
        started = time.monotonic()
        await one.close(timeout_ms=300)
        assert time.monotonic() - started < 3


async def test_closing_at_once_where_there_is_nothing_to_do(broker: LocalBroker) -> None:
    """testCloseNoWait, testCloseCoordinatorNotKnownNoCommits, testCloseCoordinatorNotKnownManualAssignment"""
    started = time.monotonic()
    await Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}).close(timeout_ms=0)
    one = member(broker, enable_auto_commit=False)
    await one.assign([("t", 0)])
    await one.close(timeout_ms=0)
    with broker.hold("FindCoordinator", times=100):
        two = member(broker)
        two.subscribe(["t"])
        await two.poll(20)
        await two.close(timeout_ms=0)
    assert time.monotonic() - started < 3
    assert (broker.requested("OffsetCommit"), broker.requested("LeaveGroup")) == (0, 0)
