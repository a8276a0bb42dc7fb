"""Commits of a whole consumer when it closes, and its interceptors; Kafka's CommitRequestManagerTest by name. The machine's
rules are in tests/consuming/test_consumer_commits.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import CommitFailedError, ConsumerInterceptor, KafkaError, TopicPartition
from coterie.testing import ErrorCode, LocalBroker
from tests.client.consumer.test_consumer_membership import member as consumer_member
from tests.client.group import member, polled, settled

T0 = TopicPartition("t", 0)
MANUAL: dict[str, Any] = {"enable_auto_commit": False}
Heard = list[tuple[dict[TopicPartition, int], Exception | None]]


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 1)
    return coterie_broker


@pytest.mark.parametrize("how", ["classic", "consumer", "without membership"])
async def test_a_commit_that_is_under_way_is_made_before_the_end(broker: LocalBroker, how: str) -> None:
    """testSignalClose: without membership the coordinator is still to be looked up. The callback is called."""
    heard: Heard = []
    of_protocol = consumer_member if how == "consumer" else member
    async with of_protocol(broker, **MANUAL) as one:
        if how != "without membership":
            await settled(one, 1)
        one.commit_async({T0: 7}, lambda offsets, error: heard.append((offsets, error)))
    assert heard == [({T0: 7}, None)]
    assert broker.committed("g") == {T0: 7}


async def test_a_commit_ends_at_the_close_with_the_error_of_its_coordinator(broker: LocalBroker) -> None:
    """testPollWithFatalErrorDuringCoordinatorIsEmptyAndClosing"""
    heard: Heard = []
    async with member(broker, **MANUAL) as one:
        broker.fail("FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        one.commit_async({T0: 7}, lambda offsets, error: heard.append((offsets, error)))
    ((_, error),) = heard
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert broker.requested("OffsetCommit") == 0


async def test_a_commit_without_a_coordinator_does_not_hold_up_the_close(broker: LocalBroker) -> None:
    """testPollWithClosingAndPendingRequests"""
    one = member(broker, **MANUAL)
    with broker.hold("FindCoordinator"):
        task = one.commit_async({T0: 7})
        await one.close(timeout_ms=50)
        await asyncio.wait([task])
    assert task.cancelled() or task.exception() is not None
    assert broker.requested("OffsetCommit") == 0


async def test_a_stale_epoch_ends_a_users_commit(broker: LocalBroker) -> None:
    """testCommitSyncFailsWithCommitFailedExceptionOnStaleMemberEpoch"""
    async with await settled(consumer_member(broker, **MANUAL), 1) as one:
        broker.fail("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, times=2)
        for commit in (one.commit, one.commit_async):
            with pytest.raises(CommitFailedError) as failed:
                await commit({T0: 7})
            assert failed.value.code == ErrorCode.STALE_MEMBER_EPOCH
        await one.commit({T0: 8})
    assert broker.requested("OffsetCommit") == 3


class Committed(ConsumerInterceptor):
    def __init__(self) -> None:
        self.offsets: list[object] = []

    def on_commit(self, offsets: object) -> None:
        self.offsets.append(offsets)


async def test_interceptors_see_automatic_commits_that_were_made(broker: LocalBroker) -> None:
    """testAutocommitInterceptorsInvoked, testAutocommitInterceptorsNotInvokedOnError"""
    seen = Committed()
    broker.produce("t", b"a")
    async with member(broker, interceptor_classes=[seen], auto_commit_interval_ms=20) as one:
        await one.assign([T0])
        rule = broker.fail("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=2)
        await polled(one, lambda: rule.times == 0, "two automatic commits fail")
        assert seen.offsets == []
        await polled(one, lambda: {T0: 1} in seen.offsets, "an automatic commit is made")
    assert len(seen.offsets) == broker.requested("OffsetCommit") - 2
