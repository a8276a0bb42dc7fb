"""Where a consumer begins to read, beside simulated brokers; tests named as in Kafka's OffsetFetcherTest and
OffsetsRequestManagerTest. The lookups themselves are in tests/consuming."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from coterie.client.consumer.poll_loop import StartingPositions
from coterie.client.errors import AuthenticationError, KafkaError
from coterie.client.offsets.lookup_steps import list_offsets_steps
from coterie.client.pauses.clock import Waits
from coterie.client.settings.settings import client_settings
from coterie.client.types import OffsetAndMetadata, TopicPartition
from coterie.consuming.effects import SendFetch
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import UNKNOWN, FetchState
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from tests.awaiting import quiet, run_in_virtual_time, until
from tests.consuming.cluster import NO_LEADER, T0, T1, SimulatedCluster

NO_OFFSET = OffsetAndMetadata(-1)
START, END = 5, 20


class Reader:
    """A consumer of T0 as far as it looks positions up; its partitions' logs are from START to END. ``responses`` cleared: no
    broker responds until it is set. ``committed``: what the group has."""

    def __init__(
        self,
        policy: str = "earliest",
        committed: dict[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        backoff_ms: int = 10,
    ) -> None:
        pauses = {"retry.backoff.ms": backoff_ms, "retry.backoff.max.ms": 100 * backoff_ms}
        self.settings = client_settings({"auto.offset.reset": policy, "group.id": "g", **pauses})
        self.waits = Waits("a reader")
        self.timeout_s, self.known, self.cluster = 30.0, ClusterMetadata(1e9), SimulatedCluster()
        for log in self.cluster.logs.values():
            log.plain(END)
            log.start = START
        self.responses = asyncio.Event()
        self.responses.set()
        self.timestamps: list[int] = []
        self.group = committed or {}
        self.refusal: KafkaError | None = None  # of the request for committed offsets
        self.machine = Fetching(FetchConfig(), self.known)
        self.machine.assign([T0])
        self.starts = StartingPositions(cast(Any, self), cast(Any, self), cast(Any, self), committed is not None)

    async def refresh(self, _: Iterable[str]) -> None:
        self.cluster.metadata(self.known)

    async def request(self, request: ListOffsetsRequest, node_id: int) -> Any:
        self.timestamps += [p.timestamp for topic in request.topics for p in topic.partitions]
        await self.responses.wait()
        return self.cluster.list_offsets(node_id, request)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = list(partitions)
        await self.responses.wait()
        if self.refusal is not None:
            raise self.refusal
        return {tp: self.group.get(tp, NO_OFFSET) for tp in wanted}

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        self.machine.seek(partition, offset, epoch)

    def lose_position(self) -> None:
        """T0's log does not have it any more."""
        self.machine.positions[T0].state = FetchState.AWAIT_RESET

    def fetched(self) -> bool:
        """Whether T0 is fetched now."""
        return any(isinstance(effect, SendFetch) and T0 in effect.wanted for effect in self.machine.next(0.0))

    def offset(self, partition: TopicPartition = T0) -> int:
        return self.machine.positions[partition].offset


@pytest.mark.parametrize(
    ("policy", "timestamp", "offset"),
    [
        ("earliest", -2, START),
        ("latest", -1, END),
    ],
)
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_reset_by_the_policy(policy: str, timestamp: int, offset: int, is_lost: bool) -> None:
    """testUpdateFetchPositionResetToEarliestOffset, testUpdateFetchPositionResetToDefaultOffset,
    testUpdateFetchPositionResetToLatestOffset"""
    reader = Reader(policy)
    if is_lost:
        reader.machine.seek(T0, 99)
        reader.lose_position()
    assert reader.starts.due()
    await reader.starts.find()
    assert (reader.timestamps, reader.offset()) == ([timestamp], offset)
    assert not reader.starts.due()
    assert reader.fetched()


async def test_a_position_is_left_alone() -> None:
    """testUpdateFetchPositionNoOpWithPositionSet, testUpdateFetchPositionOfPausedPartitionsWithAValidPosition"""
    reader = Reader()
    reader.machine.seek(T0, 5)
    for is_paused in (True, False):
        reader.machine.positions[T0].paused = is_paused
        assert not reader.starts.due()
        await reader.starts.find()
        assert (reader.timestamps, reader.offset()) == ([], 5)
    await reader.refresh("t")
    assert reader.fetched()


async def test_a_paused_partition_is_reset_and_not_fetched() -> None:
    """testUpdateFetchPositionOfPausedPartitionsRequiringOffsetReset,
    testUpdateFetchPositionOfPausedPartitionsWithoutAValidPosition: without a response it stays as it is."""
    reader = Reader("latest")
    reader.lose_position()
    reader.machine.positions[T0].paused = True
    reader.responses.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.starts.find())
        await quiet()
        assert reader.machine.resets_due() == [T0]
        assert not reader.starts.due(), "one lookup is under way"
        assert not reader.fetched()
        reader.responses.set()
    assert not reader.starts.due()
    assert reader.offset() == END
    assert not reader.fetched()


def assign_another(reader: Reader) -> None:
    reader.machine.assign([T1])


def seek(reader: Reader) -> None:
    reader.machine.seek(T0, 237)


def reset_to_start(reader: Reader) -> None:
    """What `Consumer.seek_to_beginning` does with its response."""
    reader.machine.seek(T0, START)


def reset_to_end(reader: Reader) -> None:
    reader.machine.seek(T0, END)


@pytest.mark.parametrize(
    ("change", "positions"),
    [
        (assign_another, {T1: UNKNOWN}),  # testAssignmentChangeWithInFlightReset
        (seek, {T0: 237}),  # testSeekWithInFlightReset
        (reset_to_start, {T0: START}),  # testEarlierOffsetResetArrivesLate, testChangeResetWithInFlightReset
        (reset_to_end, {T0: END}),  # testIdempotentResetWithInFlightReset
    ],
)
@pytest.mark.parametrize("committed", [None, {T0: OffsetAndMetadata(11)}])
async def test_what_happens_meanwhile_counts(
    change: Callable[[Reader], None],
    positions: dict[TopicPartition, int],
    committed: dict[TopicPartition, OffsetAndMetadata] | None,
) -> None:
    """testUpdatePositionsDoesNotApplyOffsetsIfPartitionNotInitializingAnymore, where an offset is committed."""
    reader = Reader("latest", committed)
    reader.responses.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.starts.find())
        await quiet()
        change(reader)
        reader.responses.set()
    assert {tp: p.offset for tp, p in reader.machine.positions.items()} == positions


async def test_a_committed_offset_comes_before_the_policy() -> None:
    """testUpdatePositionsWithCommittedOffsets: with its leader epoch."""
    reader = Reader(committed={T0: OffsetAndMetadata(10, 1)})
    await reader.starts.find()
    position = reader.machine.positions[T0]
    assert (position.offset, position.offset_epoch, reader.timestamps) == (10, 1, [])


@pytest.mark.parametrize("assigned_anew", [None, (), (T0,), (T1,)])
async def test_a_refusal_is_raised_while_what_was_looked_up_is_assigned(
    assigned_anew: tuple[TopicPartition, ...] | None,
) -> None:
    """The coordinator no longer knows a member that has left meanwhile; its next membership has nothing to do with that."""
    reader = Reader(committed={})
    reader.responses.clear()
    finding = asyncio.create_task(reader.starts.find())
    await quiet()
    if assigned_anew is not None:
        reader.machine.assign([])
        reader.machine.assign(assigned_anew)
    reader.refusal = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    reader.responses.set()
    with contextlib.nullcontext() if assigned_anew is not None else pytest.raises(KafkaError, match="UNKNOWN_M"):
        await finding


async def test_a_partition_that_is_assigned_meanwhile_is_not_reset() -> None:
    """testUpdatePositionsDoesNotResetPositionBeforeRetrievingOffsetsForNewlyAddedPartition: its committed offset is looked up
    before."""
    reader = Reader(committed={T0: OffsetAndMetadata(10), T1: OffsetAndMetadata(12)})
    reader.responses.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.starts.find())
        await quiet()
        reader.machine.assign([T0, T1])
        reader.responses.set()
    assert (reader.offset(T0), reader.offset(T1), reader.timestamps) == (10, UNKNOWN, [])
    await reader.starts.find()
    assert (reader.offset(T1), reader.timestamps) == (12, [])


async def test_a_partition_whose_leader_is_away_does_not_hold_its_neighbour_up() -> None:
    """KafkaConsumerTest.testFetchProgressWithMissingPartitionPosition"""
    reader = Reader()
    reader.machine.assign([T0, T1])
    reader.cluster.errors[T1] += [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.starts.find())
        await until(lambda: reader.offset(T0) == START)
        assert reader.offset(T1) == UNKNOWN
        assert reader.fetched()
    assert reader.offset(T1) == START


async def test_errors_that_pass_are_waited_out() -> None:
    """testFetchOffsetErrors, testresetPositionsMetadataRefresh: until then there is no position."""
    reader = Reader("latest")
    reader.cluster.errors[T0] += [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE]
    reader.cluster.errors[T0] += [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await reader.starts.find()
    assert (reader.offset(), len(reader.timestamps)) == (END, 4)


def test_lookups_that_fail_are_made_after_longer_and_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """testResetOffsetsAuthorizationFailure; retry.backoff.ms doubles (KIP-580), and starts again after a success."""
    jitters: list[tuple[float, float]] = []
    monkeypatch.setattr(random, "uniform", lambda low, high: jitters.append((low, high)) or (low + high) / 2)

    async def story() -> None:
        reader, loop = Reader(backoff_ms=10_000), asyncio.get_running_loop()

        async def refused(pause_s: float) -> None:
            """The next lookup is made after the pause, and fails."""
            reader.cluster.errors[T0].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            requested, before_s = len(reader.timestamps), loop.time()
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0: "):
                await reader.starts.find()
            assert len(reader.timestamps) == requested + 1
            assert loop.time() - before_s == pytest.approx(pause_s)

        for row in range(2):
            await refused(0)
            for pause_s in (10, 20, 40):
                await refused(pause_s)
            await reader.starts.find()
            assert (row, reader.offset()) == (row, START)
            reader.lose_position()
        assert set(jitters) == {(-1, 1)}

    run_in_virtual_time(story())


async def test_a_leader_that_is_not_known_is_looked_up_first() -> None:
    """testResetPositionsMissingLeader"""
    reader = Reader()
    reader.cluster.move(T0, NO_LEADER)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reader.starts.find()
    assert reader.timestamps == []


def test_a_refused_login_ends_a_lookup() -> None:
    """testRequestFails_AuthenticationException"""
    known = ClusterMetadata(1e9)
    SimulatedCluster().metadata(known)
    steps = list_offsets_steps(OffsetLookup({T0: -1}, LookupConfig(10_000, 1_000), known, 0.0))
    next(steps)
    with pytest.raises(AuthenticationError):
        steps.throw(AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED))
