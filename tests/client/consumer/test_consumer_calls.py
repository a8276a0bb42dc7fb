"""A consumer's calls and what they request of the broker; tests named as in Kafka's KafkaConsumerTest and OffsetFetcherTest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import Admin, Assignor, ConfigError, Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from coterie.client.connection.connection import Connection
from coterie.client.consumer.classic_membership import member_config
from coterie.client.settings.settings import client_settings
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.logs.fetch import FetchRequest
from tests.awaiting import until
from tests.client.group import member, polled, read, settled

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
VALUES = [b"%d" % n for n in range(5)]
MANUAL: dict[str, Any] = {"enable_auto_commit": False}


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    """T0 has five records."""
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", *VALUES, partition=0)
    return coterie_broker


# -- polling --------------------------------------------------------------------------------------------------------------


async def test_without_a_group_no_coordinator_is_looked_up(broker: LocalBroker) -> None:
    """verifyNoCoordinatorLookupForManualAssignmentWithSeek, testPollReturnsRecords"""
    async with member(broker, group_id=None) as one:
        await one.assign([T0])
        await one.seek_to_beginning([T0])
        records = await one.poll(20_000)
        assert [r.value for r in records[T0]] == VALUES
        assert (list(records), one.position(T0)) == ([T0], 5)
        assert (broker.requested("FindCoordinator"), broker.requested("OffsetFetch")) == (0, 0)


async def test_a_coordinator_that_is_away_at_first(broker: LocalBroker) -> None:
    """verifyNoCoordinatorLookupForManualAssignmentWithOffsetCommit, testNoCommittedOffsets, testCommitsFetchedDuringAssign"""
    broker.fail("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    async with member(broker, **MANUAL) as one:
        await one.assign([T0])
        assert await read(one, 5) == VALUES
        await one.commit({T0: 5})
        assert await one.committed([T0]) == {T0: 5}
        await one.assign([T0, T1])
        assert await one.committed([T0]) == {T0: 5}
        assert await one.committed([T0, T1]) == {T0: 5, T1: -1}


async def test_fetches_name_topics_by_id(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the metadata has one, and a topic that is made again under the same name is read by its new one."""
    versions: set[int] = set()
    request_version = Connection.request_version

    async def observed(self: Connection, request: Any, response: Any, version: int, timeout_s: float) -> Any:
        if isinstance(request, FetchRequest):
            versions.add(version)
        return await request_version(self, request, response, version, timeout_s)

    monkeypatch.setattr(Connection, "request_version", observed)
    async with member(broker, group_id=None) as one:
        await one.assign([T0])
        assert await read(one, 5) == VALUES
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            await admin.delete_topic("t")
        broker.create_topic("t", 2)
        broker.produce("t", *VALUES, partition=0)
        await one.seek_to_beginning()
        assert await read(one, 5) == VALUES
    assert max(versions) == FetchRequest.versions.last


async def test_an_offset_with_a_newer_epoch_has_the_leader_looked_up(broker: LocalBroker) -> None:
    """testCommitSync and testCommitAsync of CommitRequestManagerTest: committed, read back, and sought."""
    async with member(broker, **MANUAL) as one, member(broker, **MANUAL) as other:
        await one.assign([T0, T1])
        await other.assign([T0, T1])
        assert await read(one, 5) == VALUES
        assert await read(other, 5) == VALUES
        await one.commit({T0: OffsetAndMetadata(5, 7)})
        assert (one._cluster.known.leader(*T0), one._cluster.leader_epoch(*T0)) == (-1, 7)
        await one.commit_async({T1: OffsetAndMetadata(0, 8)})
        assert (one._cluster.known.leader(*T1), one._cluster.leader_epoch(*T1)) == (-1, 8)
        assert await other.committed([T0]) == {T0: 5}
        assert (other._cluster.known.leader(*T0), other._cluster.leader_epoch(*T0)) == (-1, 7)
        other.seek(T1, OffsetAndMetadata(0, 9))
        assert (other._cluster.known.leader(*T1), other._cluster.leader_epoch(*T1)) == (-1, 9)


@pytest.mark.parametrize(
    ("committed", "policy", "sought", "position"),
    [
        (3, "none", None, 3),  # testResetToCommittedOffset
        (None, "latest", None, 5),  # testResetUsingAutoResetPolicy
        (None, "latest", 2, 2),  # testOffsetIsValidAfterSeek
    ],
)
async def test_where_reading_begins(
    broker: LocalBroker, committed: int | None, policy: str, sought: int | None, position: int
) -> None:
    async with member(broker, auto_offset_reset=policy, **MANUAL) as one:
        if committed is not None:
            await one.commit({T0: committed})
        await one.assign([T0])
        if sought is not None:
            one.seek(T0, sought)
        elif policy == "latest":
            await polled(one, lambda: one.position(T0) == position)
        broker.produce("t", b"5", partition=0)
        assert (await read(one))[0] == b"%d" % position


async def test_polls_in_a_row_without_a_timeout(broker: LocalBroker) -> None:
    """As Kafka's tests poll with Duration.ZERO: they let what is under way arrive."""
    async with member(broker) as one:
        one.subscribe(["t"])
        ends_s, records = time.monotonic() + 30, await one.poll()
        while not records and time.monotonic() < ends_s:  # no timeout of the loop, which this might hold
            records = await one.poll()
        assert records[T0][0].value == b"0"


async def test_two_tasks_do_not_poll_at_once(broker: LocalBroker) -> None:
    """testPreventMultiThread"""
    async with member(broker) as one:
        one.subscribe(["t"])
        one.pause(one.assignment())
        with broker.hold("JoinGroup", times=10):
            polling = asyncio.create_task(one.poll(20_000))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="two tasks use this consumer at once"):
                await one.poll()
        assert await polling


async def test_polls_share_a_lookup(broker: LocalBroker) -> None:
    """OffsetsRequestManagerTest.testUpdatePositionsWithCommittedOffsetsReusesRequest"""
    async with member(broker) as one:
        with broker.hold("OffsetFetch", times=10) as held:
            one.subscribe(["t"])
            await polled(one, lambda: held.held)
            for _ in range(3):
                assert await one.poll(5) == {}
            assert len(held.held) == 1
        assert await read(one, 5) == VALUES


# -- beside polls ---------------------------------------------------------------------------------------------------------


async def test_an_automatic_commit_comes_before_the_records_of_its_poll(broker: LocalBroker) -> None:
    """testAutoCommitSentBeforePositionUpdate: they are not processed yet."""
    async with member(broker) as one:
        await one.assign([T0])
        one.seek(T0, 0)
        await until(lambda: one._fetcher.positions[T0].is_buffered())
        one._auto_commit._schedule.next_ms = 0
        assert len((await one.poll())[T0]) == 5
        await asyncio.to_thread(broker.until_committed, "g", {T0: 0})


@pytest.mark.parametrize("is_buffered", [False, True])
async def test_heartbeats_go_out_beside_polls(broker: LocalBroker, is_buffered: bool) -> None:
    """verifyHeartbeatSent, verifyHeartbeatSentWhenFetchedDataReady"""
    async with member(broker) as one:
        one.subscribe(["t"])
        await polled(one, lambda: one.position(T0) == 5 if one.assignment() else False)
        if is_buffered:
            broker.produce("t", b"5", partition=0)
            await until(lambda: one._fetcher.positions[T0].is_buffered())
        beats = broker.requested("Heartbeat")
        await asyncio.to_thread(broker.until_requested, "Heartbeat", beats + 2)
        assert bool(await one.poll()) is is_buffered


# -- without a group, or a coordinator, or a leader ------------------------------------------------------------------------


@pytest.mark.parametrize("is_assigned", [False, True])
async def test_what_needs_a_group(broker: LocalBroker, is_assigned: bool) -> None:
    """testOperationsBySubscribingConsumerWithDefaultGroupId, testOperationsByAssigningConsumerWithDefaultGroupId"""
    async with member(broker, group_id=None) as one:
        if is_assigned:
            await one.assign([T0])
            one.seek(T0, 0)
        with pytest.raises(ConfigError, match=r"group\.id"):
            one.subscribe(["t"])
        with pytest.raises(ConfigError, match=r"group\.id"):
            await one.committed([T0])
        for offsets in (None, {T0: 1}) if is_assigned else ({T0: 1},):
            with pytest.raises(ConfigError, match=r"group\.id"):
                await one.commit(offsets)
            with pytest.raises(ConfigError, match=r"group\.id"):
                await one.commit_async(offsets)


class Range(Assignor):
    """Another one of that name."""

    name = "range"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"group.id": ""}, r"group\.id must not be empty"),  # testEmptyGroupId
        ({"group.id": " "}, r"group\.id must not be empty"),  # testGroupIdWithWhitespace
        ({"enable.auto.commit": True}, r"enable\.auto\.commit=true needs a group\.id"),
        ({"group.id": "g", "partition.assignment.strategy": ["range", "range"]}, "range is listed twice"),
        ({"group.id": "g", "partition.assignment.strategy": ["range", Range]}, "none of range, roundrobin"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    """testAssignorNameConflict, testOperationsBySubscribingConsumerWithDefaultGroupId"""
    with pytest.raises(ConfigError, match=sentence):
        member_config(client_settings(settings), "g")


@pytest.mark.parametrize("settings", [{"group.instance.id": "i"}, {"enable.auto.commit": False}, {}])
def test_settings_of_a_group_that_there_is_not(settings: dict[str, Any]) -> None:
    """shouldIgnoreGroupInstanceIdForEmptyGroupId"""
    assert client_settings(settings).group_id is None


TIMED: list[Callable[[Consumer], Awaitable[dict[TopicPartition, int]]]] = [
    lambda c: c.offsets_for_times({T0: 0}),
    lambda c: c.beginning_offsets([T0]),
    lambda c: c.end_offsets([T0]),
]


@pytest.mark.parametrize("call", TIMED)
async def test_a_lookup_of_offsets_ends_at_its_timeout(
    broker: LocalBroker, call: Callable[[Consumer], Awaitable[dict[TopicPartition, int]]]
) -> None:
    """testOffsetsForTimesTimeout, testBeginningOffsetsTimeout, testEndOffsetsTimeout"""
    broker.fail("ListOffsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, times=10_000)
    async with member(broker, default_api_timeout_ms=300) as one:
        with pytest.raises(
            KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: t-0: this broker has no such topic or partition"
        ):
            await call(one)
        assert broker.requested("ListOffsets") > 0


async def test_a_lookup_of_offsets_goes_on_after_request_timeout_ms(broker: LocalBroker) -> None:
    """Kafka's calls have default.api.timeout.ms, and a leader may change several times meanwhile."""
    broker.fail("ListOffsets", ErrorCode.FENCED_LEADER_EPOCH, times=4)
    async with member(broker, request_timeout_ms=100, retry_backoff_ms=50) as one:
        assert await one.end_offsets([T0]) == {T0: 5}


async def test_a_lookup_of_committed_offsets_ends_at_its_timeout(broker: LocalBroker) -> None:
    """testCommittedThrowsTimeoutExceptionForNoResponse"""
    broker.lose_response("OffsetFetch", times=10_000)
    async with member(broker, request_timeout_ms=100, default_api_timeout_ms=300) as one:
        with pytest.raises(KafkaError) as caught:
            await one.committed([T0])
        assert caught.value.retriable


async def test_a_partition_that_is_named_twice(broker: LocalBroker) -> None:
    """testBeginningOffsetsDuplicateTopicPartition, testEndOffsetsDuplicateTopicPartition"""
    async with await settled(member(broker), 2) as one:
        assert await one.beginning_offsets([T0, T0]) == {T0: 0}
        assert await one.end_offsets([T0, T0]) == {T0: 5}
