"""Commits and committed offsets, on a real socket and as verdicts of the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.storage.topic import Partition
from coterie.client import (
    CommitFailedError,
    Consumer,
    ConsumerInterceptor,
    FencedInstanceIdError,
    KafkaError,
    LogTruncationError,
    OffsetAndMetadata,
    RebalanceInProgressError,
    RebalanceListener,
    Record,
    TopicPartition,
)
from coterie.consuming.commits.offset_commit import Verdict
from coterie.consuming.commits.verdicts import may_commit, verdict
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.member.state import Stage
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.errors import ErrorCode as Code
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.awaiting import until
from tests.client.group import member, polled, read, settled
from tests.member.driven import Driven

T0, T1 = ("t", 0), ("t", 1)
MANUAL: dict[str, Any] = {"enable_auto_commit": False}


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 2)
    return coterie_broker


# -- what a response means --------------------------------------- -----------------------------------------


def stable() -> Driven:
    driven = Driven(group_instance_id="i")
    driven.to_stable([0])
    return driven


def rebalancing() -> Driven:
    """A join is under way, and the commit's generation is one older."""
    driven = stable()
    driven.beat(Code.REBALANCE_IN_PROGRESS)
    driven.next()
    driven.machine.revoked()
    driven.respond(driven.sent(), driven.joined(2))
    return driven


def new_generation() -> Driven:
    driven = rebalancing()
    driven.synced(driven.sent(), [0])
    return driven


@pytest.mark.parametrize(
    ("where", "sent", "code", "expected"),
    [
        # testCommitOffsetIllegalGeneration, testCommitOffsetUnknownMemberId
        (stable, ("me", 1), Code.ILLEGAL_GENERATION, Verdict.COMMIT_FAILED),
        (stable, ("me", 1), Code.UNKNOWN_MEMBER_ID, Verdict.COMMIT_FAILED),
        # testCommitOffsetRequestSyncWithFencedInstanceIdException
        (stable, ("me", 1), Code.FENCED_INSTANCE_ID, Verdict.GIVE_UP),
        # testCommitOffsetIllegalGenerationWithNewGeneration, testCommitOffsetUnknownMemberWithNewGenearion,
        # testCommitOffsetUnknownMemberWithNewGeneration, testCommitOffsetFencedInstanceWithRebalancingGenearion,
        # testCommitOffsetFencedInstanceWithRebalancingGeneration
        (rebalancing, ("me", 1), Code.ILLEGAL_GENERATION, Verdict.REBALANCING),
        (rebalancing, ("me", 1), Code.UNKNOWN_MEMBER_ID, Verdict.REBALANCING),
        (rebalancing, ("me", 1), Code.FENCED_INSTANCE_ID, Verdict.REBALANCING),
        # testCommitOffsetFencedInstanceWithNewGenearion, testCommitOffsetFencedInstanceWithNewGeneration
        (new_generation, ("me", 1), Code.FENCED_INSTANCE_ID, Verdict.COMMIT_FAILED),
        # testCommitOffsetIllegalGenerationWithResetGenearion, testCommitOffsetIllegalGenerationWithResetGeneration,
        # testCommitOffsetUnknownMemberWithResetGenearion, testCommitOffsetUnknownMemberWithResetGeneration
        (stable, ("me", 0), Code.ILLEGAL_GENERATION, Verdict.COMMIT_FAILED),
        (stable, ("me", 0), Code.UNKNOWN_MEMBER_ID, Verdict.COMMIT_FAILED),
        # testCommitOffsetRebalanceInProgress
        (stable, ("me", 1), Code.REBALANCE_IN_PROGRESS, Verdict.REBALANCING),
        # testCommitOffsetMetadataTooLarge, testCommitOffsetSyncCallbackWithNonRetriableException
        (stable, ("me", 1), Code.OFFSET_METADATA_TOO_LARGE, Verdict.GIVE_UP),
        (stable, ("me", 1), Code.UNKNOWN_SERVER_ERROR, Verdict.GIVE_UP),
        # testRetryCommitUnknownTopicOrPartition, testCommitOffsetSyncNotCoordinator, ...
        (stable, ("me", 1), Code.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY),
        (stable, ("me", 1), Code.NOT_COORDINATOR, Verdict.FIND_COORDINATOR),
    ],
)
def test_verdicts(where: Callable[[], Driven], sent: tuple[str, int], code: Code, expected: Verdict) -> None:
    assert verdict(where().machine, code, sent) == expected


def test_what_is_forgotten_after_which_error() -> None:
    """testCommitOffsetUnknownMemberShouldResetToNoGeneration, testCommitOffsetIllegalGenerationShouldResetGenerationId; and a
    newer generation is left alone."""
    for code, member_id in ((Code.UNKNOWN_MEMBER_ID, ""), (Code.ILLEGAL_GENERATION, "me")):
        driven = stable()
        verdict(driven.machine, code, ("me", 1))
        assert (driven.machine.generation, driven.machine.member_id) == (-1, member_id)
    driven = new_generation()
    verdict(driven.machine, Code.UNKNOWN_MEMBER_ID, ("me", 1))
    assert (driven.machine.generation, driven.machine.member_id, driven.machine.stage) == (2, "me", Stage.STABLE)


def test_when_a_commit_may_be_sent() -> None:
    """testCommitOffsetRebalanceInProgress: refused before it is sent while a round is under way; asked to rejoin, the
    generation is kept."""
    driven = stable()
    assert may_commit(driven.machine) == Verdict.DONE
    verdict(driven.machine, Code.REBALANCE_IN_PROGRESS, ("me", 1))
    assert (driven.machine.stage, driven.machine.generation) == (Stage.REJOIN_NEEDED, 1)
    assert may_commit(driven.machine) == Verdict.DONE, "before the join a last commit is right"
    assert may_commit(rebalancing().machine) == Verdict.REBALANCING
    assert may_commit(Driven().machine) == Verdict.COMMIT_FAILED


# -- on the wire ------------------------------------------------ -----------------------------------------


async def test_offsets_and_their_metadata(broker: LocalBroker) -> None:
    """testCommitOffsetOnly, testCommitOffsetMetadata, testCommitOffsetMetadataSync, testFetchCommittedOffsets,
    testRefreshOffsetWithNoFetchableOffsets"""
    async with await settled(member(broker, **MANUAL), 2) as one:
        await one.commit({T0: 100})
        await one.commit({T1: OffsetAndMetadata(7, 0, "hello")})
        assert await one.committed([T0, T1]) == {T0: 100, T1: 7}
        assert (await one.committed_metadata([T1]))[T1] == OffsetAndMetadata(7, 0, "hello")
        assert await one.committed([("t", 9)]) == {("t", 9): -1}


async def test_async_commits_keep_their_order_and_come_before_a_sync_one(broker: LocalBroker) -> None:
    """testCommitOffsetAsyncWithDefaultCallback, testAsyncCommitCallbacksInvokedPriorToSyncCommitCompletion,
    testCommitOffsetMetadataAsync, testEnsureCompletingAsyncCommitsWhenSyncCommitWithoutOffsets"""
    heard: list[int] = []
    async with await settled(member(broker, **MANUAL), 2) as one:
        for n in range(20):
            one.commit_async({T0: OffsetAndMetadata(n, -1, "text")}, lambda offsets, error: heard.append(offsets[T0]))
        await one.commit({T1: 1})
        assert heard == list(range(20))
        assert broker.committed("g") == {T0: 19, T1: 1}
        one.commit_async({T0: 20}, lambda offsets, error: heard.append(offsets[T0]))
        await one.commit({})
        assert heard[-1] == 20
        task = one.commit_async({T0: 21})
        await task
        assert broker.committed("g")[T0] == 21


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION]
)
async def test_an_async_commit_is_not_repeated(broker: LocalBroker, code: ErrorCode) -> None:
    """testCommitOffsetAsyncFailedWithDefaultCallback, testCommitOffsetAsyncCoordinatorNotAvailable,
    testCommitOffsetAsyncNotCoordinator, testCommitOffsetAsyncDisconnected, testCoordinatorDisconnectAfterNotCoordinatorError,
    testCoordinatorDisconnectAfterCoordinatorNotAvailableError"""
    heard: list[Exception | None] = []
    async with await settled(member(broker, **MANUAL), 2) as one:
        lookups = broker.requested("FindCoordinator")
        rule = broker.fail("OffsetCommit", code)
        task = one.commit_async({T0: 1}, lambda offsets, error: heard.append(error))
        await task
        (error,) = heard
        assert isinstance(error, KafkaError)
        assert error.code == code
        assert error.code.retriable
        assert (rule.times, broker.requested("OffsetCommit")) == (0, 1)
        await one.commit({T0: 1})
        assert broker.requested("FindCoordinator") > lookups, "the coordinator was forgotten, and looked up again"
        broker.fail("OffsetCommit", code)
        with pytest.raises(KafkaError):
            await one.commit_async({T0: 2})


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
@pytest.mark.parametrize("how", ["dynamic", "manual"])
async def test_a_sync_commit_is_repeated(broker: LocalBroker, code: ErrorCode, how: str) -> None:
    """testCommitOffsetSyncNotCoordinator, testCommitOffsetSyncCoordinatorNotAvailable,
    testCommitOffsetSyncCoordinatorDisconnected, testRetryCommitUnknownTopicOrPartition, testCommitAsyncWithUserAssignedType,
    testCoordinatorNotAvailableWithUserAssignedType"""
    async with member(broker, **MANUAL) as one:
        await (settled(one, 2) if how == "dynamic" else one.assign([T0]))
        broker.fail("OffsetCommit", code, times=2)
        await one.commit({T0: 5})
        assert broker.committed("g") == {T0: 5}
        await one.commit_async({T0: 6})
        assert broker.committed("g") == {T0: 6}


async def test_a_sync_commit_without_time_left(broker: LocalBroker) -> None:
    """testCommitOffsetSyncWithoutFutureGetsCompleted"""
    async with await settled(member(broker, **MANUAL), 2) as one:
        with broker.hold("OffsetCommit"), pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await one.commit({T0: 5}, timeout_ms=50)
        assert not one._committer.machine._requests, "what was sent is forgotten with its commit"


async def test_errors_that_are_raised(broker: LocalBroker) -> None:
    """testCommitOffsetMetadataTooLarge, testCommitOffsetSyncCallbackWithNonRetriableException,
    testCommitOffsetIllegalGeneration, testCommitOffsetUnknownMemberId, testCommitOffsetRebalanceInProgress"""
    async with await settled(member(broker, **MANUAL), 2) as one:
        with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
            await one.commit({T0: OffsetAndMetadata(1, -1, "x" * 5_000)})
        broker.fail("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await one.commit({T0: 1})
        broker.fail("OffsetCommit", ErrorCode.REBALANCE_IN_PROGRESS)
        with pytest.raises(RebalanceInProgressError):
            await one.commit({T0: 1})
    async with await settled(member(broker, "two", **MANUAL), 2) as two:
        broker.fail("OffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID)
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
            await two.commit({T0: 1})


async def test_fencing_is_raised_again_and_again(broker: LocalBroker) -> None:
    """testCommitOffsetRequestSyncWithFencedInstanceIdException, testCommitOffsetRequestAsyncWithFencedInstanceIdException,
    testCommitOffsetRequestAsyncAlwaysReceiveFencedException"""
    async with await settled(member(broker, group_instance_id="i", **MANUAL), 2) as one:
        broker.fail("OffsetCommit", ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            await one.commit_async({T0: 1})
        for _ in range(3):
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await one.commit_async({T0: 1})
        assert broker.requested("OffsetCommit") == 1, "not asked again"
        for _ in range(2):
            with pytest.raises(FencedInstanceIdError):
                await one.poll(0)


async def test_a_poll_raises_that_an_automatic_commit_was_fenced(broker: LocalBroker) -> None:
    """It went on reading and committed nothing any more, without a sign (seed 4273 of the stories). As in Java,
    ConsumerCoordinator.invokeCompletedOffsetCommitCallbacks raises."""
    own: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 10}
    async with await settled(member(broker, group_instance_id="i", **own), 2) as one:
        broker.fail("OffsetCommit", ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(FencedInstanceIdError):
            await poll_on(one)


async def poll_on(consumer: Consumer[Any, Any]) -> None:
    while True:
        await consumer.poll(50)


async def test_a_thousand_commits_fail_once_each_with_their_coordinator(broker: LocalBroker) -> None:
    """testManyInFlightAsyncCommitsWithCoordinatorDisconnect, testCoordinatorUnknownInUnsentCallbacksAfterCoordinatorDead"""
    heard: list[Exception | None] = []
    async with await settled(member(broker, **MANUAL), 2) as one:
        with broker.hold("OffsetCommit", times=1_000) as held:
            for n in range(1_000):
                one.commit_async({T0: n}, lambda offsets, error: heard.append(error))
            await asyncio.to_thread(broker.until_held, held)
            broker.drop_connections("one")
            await until(lambda: _true(len(heard) == 1_000))
        assert all(isinstance(error, KafkaError) for error in heard)
        await one.commit({T0: 1})


async def _true(value: bool) -> bool:
    return value


async def test_a_commit_without_a_member_id_names_no_instance(broker: LocalBroker) -> None:
    """testCommitOffsetShouldNotSetInstanceIdIfMemberIdIsUnknown"""
    async with member(broker, group_instance_id="i", **MANUAL) as one:
        await one.assign([T0])
        await one.commit({T0: 3})
        assert broker.committed("g") == {T0: 3}


# -- auto commit ------------------------------------------------ -----------------------------------------


@pytest.mark.parametrize("how", ["dynamic", "manual"])
async def test_auto_commit_at_the_interval(broker: LocalBroker, how: str) -> None:
    """testAutoCommitDynamicAssignment, testAutoCommitManualAssignment, testAutoCommitAwaitsInterval,
    testAutoCommitAsyncWithUserAssignedType: not before the interval, and one at a time."""
    broker.produce("t", b"a", b"b", b"c")
    async with member(broker, auto_commit_interval_ms=300) as one:
        started = time.monotonic()  # the interval begins with the subscription
        await (settled(one, 2) if how == "dynamic" else one.assign([T0, T1]))
        await polled(one, lambda: one.position(T0) == 3)
        with broker.hold("OffsetCommit") as held:
            await polled(one, lambda: held.held)
            assert time.monotonic() - started >= 0.3
            for _ in range(30):
                await one.poll(20)
            assert broker.requested("OffsetCommit") == 1, "one at a time"
        await polled(one, lambda: broker.committed("g").get(T0) == 3)


async def test_auto_commit_after_a_failure_comes_sooner(broker: LocalBroker) -> None:
    """testAutoCommitRetryBackoff, testAutoCommitManualAssignmentCoordinatorUnknown,
    testAutoCommitAfterCoordinatorBackToService"""
    broker.produce("t", b"a")
    async with await settled(member(broker, auto_commit_interval_ms=1_500), 2) as one:
        broker.fail("OffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await polled(one, lambda: broker.requested("OffsetCommit") == 1)
        failed = time.monotonic()
        await polled(one, lambda: broker.committed("g").get(T0) == 1)
        assert time.monotonic() - failed < 1.2, "after the back-off, not after the next interval"


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("auto", [True, False])
async def test_what_is_given_up_is_committed_first(broker: LocalBroker, protocol: str, auto: bool) -> None:
    """testAutoCommitDynamicAssignmentRebalance, testJoinPrepareAndCommitCompleted, testJoinPrepareWithDisableAutoCommit"""
    broker.produce("t", b"a", partition=0)
    broker.produce("t", b"b", partition=1)
    settings: dict[str, Any] = {"partition_assignment_strategy": protocol, "enable_auto_commit": auto}
    async with await settled(member(broker, **settings), 2) as one, member(broker, "two", **settings) as two:
        await polled(one, lambda: (one.position(T0), one.position(T1)) == (1, 1))
        two.subscribe(["t"])

        async def one_each() -> bool:
            await asyncio.gather(one.poll(10), two.poll(10))
            return len(one.assignment()) == len(two.assignment()) == 1

        await until(one_each)
        (theirs,) = two.assignment()
        assert (broker.committed("g").get(theirs) == 1) == auto


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.OFFSET_METADATA_TOO_LARGE]
)
async def test_a_commit_that_fails_does_not_keep_the_rebalance(broker: LocalBroker, code: ErrorCode) -> None:
    """testJoinPrepareAndCommitWithCoordinatorNotAvailable, testJoinPrepareAndCommitWithUnknownMemberId,
    testOnJoinPrepareWithOffsetCommitShouldSuccessAfterRetry,
    testOnJoinPrepareWithOffsetCommitShouldKeepJoinAfterNonRetryableException"""
    broker.produce("t", b"a")
    # Short where the member takes itself for removed: the group waits for its former id.
    session_timeout_ms = 45_000 if code.retriable else 1_000
    async with await settled(member(broker, session_timeout_ms=session_timeout_ms), 2) as one:
        await polled(one, lambda: one.position(T0) == 1)
        broker.fail("OffsetCommit", code)
        broker.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
        before = broker.requested("SyncGroup")
        await polled(one, lambda: broker.requested("SyncGroup") > before and len(one.assignment()) == 2)
        if code.retriable:
            assert broker.committed("g")[T0] == 1


async def test_a_commit_does_not_hold_a_rebalance_beyond_its_timeout(broker: LocalBroker) -> None:
    """testOnJoinPrepareWithOffsetCommitShouldKeepJoinAfterRebalanceTimeout"""
    broker.produce("t", b"a")
    async with await settled(member(broker, max_poll_interval_ms=600), 2) as one:
        await polled(one, lambda: one.position(T0) == 1)
        broker.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=10_000)
        broker.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
        before = broker.requested("SyncGroup")
        await polled(one, lambda: broker.requested("SyncGroup") > before)


# -- reading committed offsets ---------------------------------- -----------------------------------------


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNSTABLE_OFFSET_COMMIT],
)
async def test_committed_offsets_are_asked_for_again(broker: LocalBroker, code: ErrorCode) -> None:
    """testRefreshOffset, testRefreshOffsetLoadInProgress, testRefreshOffsetNotCoordinatorForConsumer,
    testRefreshOffsetWithPendingTransactions, testRefreshOffsetRetriableErrorCoordinatorLookup"""
    broker.produce("t", b"a", b"b", b"c")
    async with await settled(member(broker, **MANUAL), 2) as one:
        await one.commit({T0: 2})
    broker.fail("OffsetFetch", code, times=2)
    async with await settled(member(broker, "two", **MANUAL), 2) as two:
        await polled(two, lambda: two.position(T0) >= 2)
        assert broker.requested("OffsetFetch") >= 3


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_committed_offsets_that_may_not_be_read(broker: LocalBroker, code: ErrorCode) -> None:
    """testRefreshOffsetsGroupNotAuthorized, testTopicAuthorizationFailedInOffsetFetch,
    testRefreshOffsetUnknownTopicOrPartition: raised; an unknown topic may yet appear, and is asked for again."""
    async with member(broker) as one:
        broker.fail("OffsetFetch", code)
        one.subscribe(["t"])
        with pytest.raises(KafkaError) as raised:
            await polled(one, lambda: False)
        assert raised.value.code == code
        broker.fail("OffsetFetch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert await one.committed([T0]) == {T0: -1}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_offsets_of_open_transactions(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """testThrowOnUnsupportedStableFlag, testNoThrowWhenStableFlagIsSupported, testRefreshOffsetWithPendingTransactions: of any
    isolation level, since a producer may commit for a group that reads all records (KIP-447)."""
    async with member(broker, isolation_level=isolation, default_api_timeout_ms=200, **MANUAL) as one:
        await one.assign([T0])
        await one.commit({T0: 1})
        assert await one.committed([T0]) == {T0: 1}
        offset = TxnOffsetCommitRequestPartition(0, 5)
        known = broker._request(InitProducerIdRequest("x", 60_000), broker.host, broker.port)
        identity = ("x", known.producer_id, known.producer_epoch)
        broker._request(AddOffsetsToTxnRequest(*identity, "g"), broker.host, broker.port)
        topics = [TxnOffsetCommitRequestTopic("t", broker.broker.topics.by_name["t"].topic_id, [offset])]
        broker._request(TxnOffsetCommitRequest("x", "g", *identity[1:], topics=topics), broker.host, broker.port)
        with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
            await one.committed([T0])
        monkeypatch.setattr("coterie.client.connection.connection.Connection.version_of", lambda *_: 6)
        assert await one.committed([T0]) == {T0: 1}, "a broker before Kafka 2.5 cannot say what is pending"


async def test_nothing_is_looked_up_where_positions_are_known(broker: LocalBroker) -> None:
    """testNoCoordinatorDiscoveryIfPositionsKnown, testNoCoordinatorDiscoveryIfPartitionAwaitingReset"""
    broker.produce("t", b"a", b"b")
    async with member(broker, group_id=None) as one:
        await one.assign([T0])
        one.seek(T0, 1)
        await polled(one, lambda: one.position(T0) == 2)
        one.seek(T0, 99)
        await polled(one, lambda: one.position(T0) == 2, "out of range: reset to the beginning, and read again")
        assert broker.requested("FindCoordinator") == broker.requested("OffsetFetch") == 0


async def test_positions_are_committed_with_their_leader_epoch(broker: LocalBroker) -> None:
    """SubscriptionState.allConsumed: the next owner validates the position by it (KIP-320). One that was sought has none."""
    broker.produce("t", b"a", b"b")
    async with member(broker, **MANUAL) as one:
        await one.assign([T0])
        await polled(one, lambda: one.position(T0) == 2)
        await one.commit()
        assert (await one.committed_metadata([T0]))[T0] == OffsetAndMetadata(2, 0)
        one.seek(T0, 1)
        await one.commit()
        assert (await one.committed_metadata([T0]))[T0] == OffsetAndMetadata(1, -1)
    async with member(broker, "two", auto_commit_interval_ms=20) as two:
        await two.assign([T0])
        await polled(two, lambda: two.position(T0) == 2)
    async with member(broker, "three", **MANUAL) as three:
        assert (await three.committed_metadata([T0]))[T0] == OffsetAndMetadata(2, 0), "by the automatic commit too"


async def test_a_log_that_was_cut_behind_the_committed_offset(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """testRefreshOffsetWithValidation: a leader epoch older than the metadata's asks for validation first."""
    broker.produce("t", b"a", b"b", b"c")
    async with member(broker, **MANUAL) as one:
        await one.assign([T0])
        await one.commit({T0: OffsetAndMetadata(9, 0)})
    # The broker's leader epoch is 0; a client with metadata of epoch 1 asks where epoch 0 ended: at 3.
    monkeypatch.setattr(ClusterMetadata, "leader_epoch", lambda *_: 1)
    monkeypatch.setattr(Partition, "check_leader", lambda *_: None)
    for policy in ("latest", "none"):
        async with member(broker, auto_offset_reset=policy, **MANUAL) as two:
            await two.assign([T0])
            if policy == "latest":
                await polled(two, lambda: two.position(T0) == 3)
                continue
            for _ in range(2):
                with pytest.raises(LogTruncationError, match="cut by a new leader at 3, before the position 9") as cut:
                    await polled(two, lambda: False)
                assert cut.value.divergent_offset == OffsetAndMetadata(3, 0)
            two.seek(T0, 3)
            broker.produce("t", b"d")
            await polled(two, lambda: two.position(T0) == 4)


async def test_without_an_offset_and_without_a_policy(broker: LocalBroker) -> None:
    """testMissingOffsetNoResetPolicy: positions are looked up by polls, so that one can seek before; a seek also takes back the
    error of a lookup that no poll has raised yet."""
    broker.produce("t", b"a", b"b")
    async with member(broker, auto_offset_reset="none") as one:
        sentence = r"t-0 has no offset to start from, and auto\.offset\.reset is none"
        await one.assign([T0])
        assert (one.position(T0), broker.requested("OffsetFetch")) == (-1, 0)
        for _ in range(2):
            with pytest.raises(KafkaError, match=sentence):
                await one.poll(20_000)
        await one.poll(0)  # begins another lookup
        await until(lambda: one._starts.due(), "the lookup has ended")
        one.seek(T0, 1)
        assert await read(one, 1) == [b"b"]


async def test_seeking_right_after_assign_needs_no_lookup(broker: LocalBroker) -> None:
    """Issue M, 5: auto.offset.reset=none and nothing committed."""
    broker.produce("t", b"a", b"b")
    async with member(broker, auto_offset_reset="none") as one:
        await one.assign([T0, T1])
        one.seek(T0, 1)
        await one.seek_to_end([T1])
        assert await read(one, 1) == [b"b"]
        assert broker.requested("OffsetFetch") == 0


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_partition_that_cannot_be_read_is_not_asked_for_in_a_frenzy(
    broker: LocalBroker, code: ErrorCode
) -> None:
    """Found on reading. What is retriable is asked again after a pause, the rest is raised and waits for the next poll."""
    async with member(broker, group_id=None) as one:
        broker.fail("Fetch", code, times=1_000)
        await one.assign([T0])
        await asyncio.sleep(0.3)
        assert broker.requested("Fetch") < 40
        if not code.retriable:
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0: "):
                await one.poll(1_000)


# -- interceptors, seeking -------------------------------------- -----------------------------------------


class Seen(ConsumerInterceptor):
    def __init__(self) -> None:
        self.committed: list[dict[tuple[str, int], int]] = []

    def on_consume(self, records: dict[TopicPartition, list[Record]]) -> dict[TopicPartition, list[Record]]:
        return {tp: [r._replace(value=b"seen " + (r.value or b"")) for r in rows] for tp, rows in records.items()}

    def on_commit(self, offsets: object) -> None:
        self.committed.append(dict(offsets))  # type: ignore[call-overload]


async def test_interceptors_see_records_and_commits(broker: LocalBroker) -> None:
    seen = Seen()
    async with await settled(member(broker, interceptor_classes=[seen], **MANUAL), 2) as one:
        broker.produce("t", b"a")
        assert await read(one) == [b"seen a"]
        await one.commit()
        assert seen.committed[-1][T0] == 1


async def test_a_listener_may_seek(broker: LocalBroker) -> None:
    """A position set in on_partitions_assigned counts, and the committed one is not looked up."""
    broker.produce("t", b"a", b"b", b"c")
    async with member(broker, **MANUAL) as one:

        class Listener(RebalanceListener):
            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                await one.seek_to_end([T1])
                one.seek(T0, 2)

        one.subscribe(["t"], Listener())
        assert await read(one) == [b"c"]
        assert broker.requested("OffsetFetch") == 0
        await one.seek_to_beginning()
        assert (one.position(T0), one.position(T1)) == (0, 0)
        await one.seek_to_timestamp(int(time.time() * 1000) + 60_000)
        assert (one.position(T0), one.position(T1)) == (3, 0)


async def test_batches_as_an_arrow_table(broker: LocalBroker) -> None:
    for n in range(3):
        broker.produce("t", *(b"%d" % (10 * n + k) for k in range(10)), key=None, partition=0)
    async with member(broker, group_id=None) as one:
        await one.assign([T0])
        one.seek(T0, 5)
        rows = 0
        for _ in range(100):
            if rows == 25:
                break
            table = await one.poll_arrow(1_000)
            if table.num_rows:
                assert table["offset"].to_pylist()[0] == 5 + rows
                assert table["value"].to_pylist()[0] == b"%d" % (5 + rows)
                assert set(table["topic"].to_pylist()) == {"t"}
            rows += table.num_rows
        assert one.position(T0) == 30
        assert (await one.poll_arrow(20)).num_rows == 0
