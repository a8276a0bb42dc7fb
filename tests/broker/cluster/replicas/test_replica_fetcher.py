"""The fetcher of a follower's replicas: Kafka's AbstractFetcherThreadTest, by name. In Kafka a partition that fails is given up
until it has another leader; here it is tried again after the back-off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.replication.states import TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchRequest
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from tests.awaiting import quiet
from tests.broker.cluster.scripted_leader import (
    BACKOFF_MS,
    T0,
    FetchersConnection,
    FollowerAndLeader,
    batch,
    log,
    play,
    stored,
)

T1: TopicPartition = ("orders", 1)
T2: TopicPartition = ("other", 0)
LOOKUP, FETCH, ENDS = OffsetForLeaderEpochRequest, FetchRequest, ListOffsetsRequest


def error(code: ErrorCode) -> Callable[[Any], None]:
    """The response with that error for its only partition."""

    def change(response: Any) -> None:
        topics = response.topics if hasattr(response, "topics") else response.responses
        topics[0].partitions[0].error_code = code

    return change


@play({T0: []}, {T0: [batch(0, 0, records=2)]})
async def test_simple_fetch(both: FollowerAndLeader) -> None:
    """testSimpleFetch"""
    both.led_in(0)
    both.follows_in(0)
    await both.exchange(FETCH, FETCH)
    assert both.log().end_offset == 2
    await both.until_equal()


@pytest.mark.parametrize("while_fetching", [False, True])
@play({T0: log(0)}, {T0: [batch(0, 0), batch(1, 0, records=2)]})
async def test_fenced(both: FollowerAndLeader, while_fetching: bool) -> None:
    """testFencedTruncation, testFencedFetch: nothing more is requested before the controller names another epoch."""
    both.led_in(0 if while_fetching else 1)
    both.follows_in(0)
    if while_fetching:
        await both.exchange(LOOKUP, FETCH)
        both.led_in(1)
        await both.exchange(FETCH)
    else:
        await both.exchange(LOOKUP)
    before = 3 if while_fetching else 1
    assert both.log().end_offset == before
    await both.nothing_is_requested()
    both.follows_in(1)
    await both.exchange(LOOKUP)
    await both.until_equal()


@play({T0: log(0)}, {T0: log(0, 0)})
async def test_unknown_leader_epoch_in_truncation(both: FollowerAndLeader) -> None:
    """testUnknownLeaderEpochInTruncation: the leader has not heard of the epoch yet."""
    both.led_in(0)
    both.follows_in(1)
    await both.exchange(LOOKUP)
    assert both.role().truncates
    both.led_in(1)
    await quiet()
    assert FetchersConnection.sent.empty(), "not before the back-off ends"
    both.pass_ms(BACKOFF_MS)
    await both.exchange(LOOKUP)
    assert not both.role().truncates
    await both.until_equal()


@play({T0: []}, {T0: log(0, 0)})
async def test_unknown_leader_epoch_while_fetching(both: FollowerAndLeader) -> None:
    """testUnknownLeaderEpochWhileFetching: the follower stays at its offset, and goes on fetching there."""
    both.led_in(1)
    both.follows_in(1)
    await both.exchange(FETCH)
    assert both.log().end_offset == 1
    await both.respond(await both.next(FETCH), error(ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert (both.log().end_offset, both.role().truncates) == (1, False)
    both.pass_ms(BACKOFF_MS)
    await both.exchange(FETCH)
    assert both.log().end_offset == 2


@pytest.mark.parametrize(
    ("follower", "leader", "kinds"),
    [
        pytest.param(log(0, 2, 4), log(1, 3, 5), [LOOKUP] * 3, id="testTruncation"),
        pytest.param(log(0, 2, 4), log(0, 2, 4), [LOOKUP], id="equal"),
        pytest.param(log(0, 0, 4), log(0, 0, 0, 5), [LOOKUP], id="the leader's end is higher"),
        pytest.param([], [batch(3, 2), batch(4, 5)], [FETCH, ENDS, ENDS], id="the follower has nothing"),
    ],
)
@play()
async def test_truncation(
    both: FollowerAndLeader, follower: list[bytes], leader: list[bytes], kinds: list[type[Message]]
) -> None:
    """testTruncation, and other pairs of logs: the epochs that the leader lacks go one by one."""
    both.hold({T0: follower}, {T0: leader})
    both.led_in(5)
    both.follows_in(5)
    await both.exchange(*kinds)
    await both.until_equal()


@play({T0: log(0, 2, 4)}, {T0: log(0, 2, 4)})
async def test_without_epochs_the_high_watermark_counts(both: FollowerAndLeader) -> None:
    """testTruncateToHighWatermarkIfLeaderEpochInfoNotAvailable"""
    both.log().epochs.clear()
    both.follower_logs.high_watermarks[T0] = 2
    both.led_in(5)
    both.follows_in(5)
    sent = await both.next(FETCH)
    assert sent.message.topics[0].partitions[0].fetch_offset == 2  # type: ignore[attr-defined]
    assert both.log().end_offset == 2


@play({T0: log(0, 2, 4), T1: log(0, 2, 4)}, {T0: log(0, 2, 4), T1: log(1)})
async def test_a_replica_that_is_removed_is_not_truncated(both: FollowerAndLeader) -> None:
    """testTruncateToHighWatermarkDuringRemovePartitions: before the fetcher comes to it.
    testTruncateToEpochEndOffsetsDuringRemovePartitions: while its look-up is under way."""
    both.led_in(5)
    both.log().epochs.clear()
    both.follower_logs.high_watermarks[T0] = 2
    both.follows_in(5)
    both.follows_in(5, T1)
    both.stopped()
    lookup = await both.next(LOOKUP)
    assert lookup.partitions() == [T1]
    both.led_in(5, T1)
    both.stopped(T1)
    await both.respond(lookup)
    assert [both.log(partition).end_offset for partition in (T0, T1)] == [3, 3]
    await both.nothing_is_requested()


@play({T0: log(1)}, {T0: log(1, 3, 5)})
async def test_truncation_skipped_if_no_epoch_change(both: FollowerAndLeader) -> None:
    """testTruncationSkippedIfNoEpochChange: the controller repeats what the follower knows."""
    both.led_in(5)
    both.follows_in(5)
    await both.exchange(LOOKUP, FETCH)
    cuts = both.log().cuts
    both.follows_in(5)
    await both.exchange(FETCH)
    assert (both.log().cuts, both.log().end_offset) == (cuts, 3)


@play({T0: log(0, 2, 4)}, {T0: log(0, 2, 4)})
async def test_follower_fetch_out_of_range_high(both: FollowerAndLeader) -> None:
    """testFollowerFetchOutOfRangeHigh: the leader's log is empty all at once."""
    both.led_in(4)
    both.follows_in(4)
    await both.exchange(LOOKUP, FETCH)
    assert both.log().end_offset == 3
    both.leader_logs.hold(T0, [])
    both.leader.replicas.partitions.clear()
    both.led_in(4)
    await both.exchange(FETCH, ENDS, ENDS)
    end = both.log()
    assert (end.log_start_offset, end.end_offset, both.role().high_watermark) == (0, 0, 0)


@play({T0: []}, {T0: [batch(1, 2), batch(2, 4)]})
async def test_fenced_offset_reset_after_out_of_range(both: FollowerAndLeader) -> None:
    """testFencedOffsetResetAfterOutOfRange"""
    both.led_in(4)
    both.follows_in(4)
    await both.exchange(FETCH)
    both.led_in(5)
    await both.exchange(ENDS)
    assert both.log().end_offset == 0
    await both.nothing_is_requested()


@pytest.mark.parametrize("is_unknown_first", [False, True])
@play({T0: log(0)}, {T0: [batch(2, 4)]})
async def test_follower_fetch_out_of_range_low(both: FollowerAndLeader, is_unknown_first: bool) -> None:
    """testFollowerFetchOutOfRangeLow: the leader's log begins behind the follower's end.
    testRetryAfterUnknownLeaderEpochInLatestOffsetFetch: the leader says at first that it does not know the epoch."""
    both.led_in(4)
    both.follows_in(4)
    await both.exchange(LOOKUP, FETCH)
    if is_unknown_first:
        await both.exchange(ENDS)
        await both.respond(await both.next(ENDS), error(ErrorCode.UNKNOWN_LEADER_EPOCH))
        assert (both.log().end_offset, both.role().truncates) == (1, False)
        both.pass_ms(BACKOFF_MS)
        await both.exchange(FETCH)
    await both.exchange(ENDS, ENDS)
    assert (both.log().log_start_offset, stored(both.log())) == (2, [])
    await both.until_equal()


@play({T0: []}, {T0: [batch(0, 0, records=2)]})
async def test_corrupt_message(both: FollowerAndLeader) -> None:
    """testCorruptMessage"""

    def corrupt(response: Any) -> None:
        row = response.responses[0].partitions[0]
        row.records = row.records[:30] + bytes([row.records[30] ^ 0xFF]) + row.records[31:]

    both.led_in(0)
    both.follows_in(0)
    await both.respond(await both.next(FETCH), corrupt)
    assert both.log().end_offset == 0
    both.pass_ms(BACKOFF_MS)
    await both.exchange(FETCH)
    assert both.log().end_offset == 2


@pytest.mark.parametrize("leaders_epoch", [0, 1])
@play({T0: log(0, 0)}, {T0: log(0)})
async def test_leader_epoch_change_during_fetch_epochs_from_leader(both: FollowerAndLeader, leaders_epoch: int) -> None:
    """testLeaderEpochChangeDuringFencedFetchEpochsFromLeader, testLeaderEpochChangeDuringSuccessfulFetchEpochsFromLeader: the
    response is to an earlier epoch's request."""
    both.led_in(leaders_epoch)
    both.follows_in(0)
    lookup = await both.next(LOOKUP)
    both.follows_in(1)
    await both.respond(lookup)
    assert (both.role().truncates, both.role().is_fenced) == (True, False)
    assert (both.role().state.leader_epoch, both.log().end_offset) == (1, 2)
    if leaders_epoch == 0:
        both.led_in(1)
    await both.exchange(LOOKUP)
    assert both.log().end_offset == 1
    await both.until_equal()


@play({T0: log(0, 0), T2: log(0)}, {T0: log(0)})
async def test_a_response_with_a_partition_that_was_not_requested(both: FollowerAndLeader) -> None:
    """testTruncationThrowsExceptionIfLeaderReturnsPartitionsNotRequestedInFetchEpochs: in Kafka the fetcher's thread ends; here
    what was not requested is passed over, and the rest counts."""

    def add(response: Any) -> None:
        response.topics.append(OffsetForLeaderTopicResult(T2[0], [OffsetForLeaderPartitionResult(0, 0, 0, 0)]))

    both.led_in(0)
    both.follows_in(0)
    both.follower_leads(0, T2)
    await both.respond(await both.next(LOOKUP), add)
    assert [both.log(partition).end_offset for partition in (T0, T2)] == [1, 1]
    assert not both.role().truncates


@pytest.mark.parametrize(
    ("failing", "held", "rounds"),
    [
        pytest.param(
            "truncate_to", log(0, 0, 0), [LOOKUP], id="testFetcherThreadHandlingPartitionFailureDuringTruncation"
        ),
        pytest.param(
            "append_as_follower", log(0), [LOOKUP, FETCH], id="testFetcherThreadHandlingPartitionFailureDuringAppending"
        ),
    ],
)
@play()
async def test_a_partition_that_fails_holds_up_no_other(
    both: FollowerAndLeader,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    held: list[bytes],
    rounds: list[type[Message]],
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk")

    both.hold({T0: held, T1: log(0)}, {T0: log(0, 0), T1: log(0, 0)})
    for partition in (T0, T1):
        both.led_in(0, partition)
    both.follows_in(0, T0, T1)
    with monkeypatch.context() as patch:
        patch.setattr(both.follower.replicas.partitions[T0].log, failing, fail)
        assert sorted((await both.exchange(*rounds)).partitions()) == [T0, T1]
        fetch = await both.exchange(FETCH)
    assert fetch.partitions() == [T1], "the other one rests"
    assert (both.log(T1).end_offset, both.log().end_offset) == (2, len(held))
    both.led_in(1)
    both.follows_in(1)
    assert both.role().truncates
    await both.exchange(FETCH, LOOKUP)
    assert not both.role().truncates
