"""A follower: Kafka's AbstractFetcherThreadTest and ReplicaFetcherThreadTest, by their names where they have one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EndOfEpoch, LeaderEpochCache
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.states import EpochLookup, ReplicaError, ReplicaFetch, ReplicaFetched
from tests.replication.fakes import CONFIG, PARTITION, Batch, MemoryReplicaLog, log_of, state

NOW = 1_000_000


def follower(log: MemoryReplicaLog, high_watermark: int = 0, epoch: int = 5) -> Follower:
    return Follower(2, log, CONFIG, state(leader=1, epoch=epoch), high_watermark)


def ask_epoch(made: Follower, now_ms: int = NOW) -> EpochLookup:
    request = made.next_request(now_ms)
    assert isinstance(request, EpochLookup)
    return request


def ask_records(made: Follower, now_ms: int = NOW) -> ReplicaFetch:
    request = made.next_request(now_ms)
    assert isinstance(request, ReplicaFetch)
    return request


def test_simple_fetch() -> None:
    made = follower(log_of([]))
    request = ask_records(made)
    assert request == ReplicaFetch(2, 5, 0, 0)
    made.fetched(request, ReplicaFetched([Batch(0, 5, "a"), Batch(1, 5, "b")], 1, 0, 2))
    assert (made.log.end_offset, made.high_watermark) == (2, 1)
    assert ask_records(made).fetch_offset == 2


def test_one_request_at_a_time() -> None:
    made = follower(log_of([0]))
    ask_epoch(made)
    assert made.next_request(NOW) is None
    assert made.next_deadline_ms() is None


def test_should_fetch_leader_epoch_request_if_last_epoch_defined() -> None:
    assert ask_epoch(follower(log_of([0, 3]))) == EpochLookup(5, 3)
    ask_records(follower(log_of([])))  # nothing to compare


def test_truncate_to_high_watermark_if_the_log_has_no_epochs() -> None:
    log = log_of([0, 0, 0])
    log.epochs.entries.clear()
    made = follower(log, high_watermark=1)
    ask_records(made)
    assert log.end_offset == 1


def test_truncation() -> None:
    """shouldTruncateToOffsetSpecifiedInEpochOffsetResponse"""
    made = follower(log_of([0, 0, 4, 4]), high_watermark=1)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(4, 3))
    assert made.log.end_offset == 3
    assert ask_records(made).fetch_offset == 3


def test_should_truncate_if_follower_has_more_of_the_epoch_than_the_leader_or_less() -> None:
    made = follower(log_of([0, 0, 4, 4]))
    made.epoch_ended(ask_epoch(made), EndOfEpoch(4, 9))
    assert made.log.end_offset == 4


def test_a_replica_outside_the_isr_is_cut_at_its_gap() -> None:
    """The leader fills it."""
    log = log_of([0, 0, 4, 4, 4])
    log.gap_offset = 3
    made = Follower(2, log, CONFIG, state(leader=1, isr=(1, 3)), 5)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(4, 9))
    assert (log.end_offset, made.high_watermark, log.gap_offset) == (3, 3, None)
    assert ask_records(made).fetch_offset == 3


def test_a_replica_in_the_isr_keeps_what_is_behind_its_gap() -> None:
    """It may be the next leader."""
    log = log_of([0, 0, 4, 4, 4])
    log.gap_offset = 3
    made = Follower(2, log, CONFIG, state(leader=1), 5)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(4, 9))
    assert (log.end_offset, made.high_watermark, log.gap_offset) == (5, 5, 3)


def test_should_fetch_leader_epoch_second_time_if_leader_replies_with_epoch_not_known_to_follower() -> None:
    """shouldFetchLeaderEpochSecondTimeIfLeaderRepliesWithEpochNotKnownToFollower"""
    made = follower(log_of([0, 0, 2, 4, 4]))
    made.epoch_ended(ask_epoch(made), EndOfEpoch(3, 6))  # the leader has no epoch 4; the follower has no epoch 3
    assert made.log.end_offset == 3
    second = ask_epoch(made)
    assert second.epoch == 2
    made.epoch_ended(second, EndOfEpoch(2, 2))
    assert (made.log.end_offset, ask_records(made).fetch_offset) == (2, 2)


class ForgetfulCache(LeaderEpochCache):
    """It knows the last epoch only: the log is older than epochs."""

    def end_of(self, epoch: int, log_end_offset: int) -> EndOfEpoch:
        return EndOfEpoch()


@pytest.mark.parametrize(("end_offset", "cut_at"), [(156, 156), (202, 200)])
@pytest.mark.parametrize("is_known", [False, True])
def test_truncation_to_the_leaders_offset(end_offset: int, cut_at: int, is_known: bool) -> None:
    """shouldTruncateToOffsetSpecifiedInEpochOffsetResponseIfFollowerHasNoMoreEpochs: the leader's response is epoch 4.
    shouldUseLeaderEndOffsetIfInterBrokerVersionBelow20: a leader before Kafka 2.0 names no epoch."""
    log = log_of([5] * 200)
    if not is_known:
        log.epochs = ForgetfulCache(log.epochs.entries)
    made = follower(log, high_watermark=150)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(UNDEFINED_EPOCH if is_known else 4, end_offset))
    assert (made.log.end_offset, ask_records(made).fetch_offset) == (cut_at, cut_at)


def test_should_truncate_to_initial_fetch_offset_if_leader_returns_undefined_offset() -> None:
    """shouldTruncateToInitialFetchOffsetIfLeaderReturnsUndefinedOffset: the high watermark"""
    made = follower(log_of([0, 0, 4, 4]), high_watermark=2)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(UNDEFINED_EPOCH, UNDEFINED_OFFSET))
    assert ask_records(made).fetch_offset == 2


def test_fenced_truncation_and_fetch() -> None:
    made = follower(log_of([0]))
    made.refused(ask_epoch(made), ReplicaError.FENCED_LEADER_EPOCH, NOW)
    assert made.next_request(NOW + 60_000) is None
    assert made.next_deadline_ms() is None
    made.resumed(state(leader=3, epoch=6))
    assert ask_epoch(made).current_leader_epoch == 6


def test_unknown_leader_epoch_in_truncation_and_while_fetching() -> None:
    made = follower(log_of([0]))
    made.refused(ask_epoch(made), ReplicaError.UNKNOWN_LEADER_EPOCH, NOW)
    assert made.next_request(NOW + 499) is None
    ask_epoch(made, NOW + 500)


def test_should_poll_indefinitely_if_leader_returns_any_exception() -> None:
    """shouldPollIndefinitelyIfLeaderReturnsAnyException"""
    made, now_ms = follower(log_of([5] * 300), high_watermark=100), NOW
    for _ in range(20):
        made.failed(ask_epoch(made, now_ms), now_ms)
        now_ms += CONFIG.replica_fetch_backoff_ms
        made.refused(ask_epoch(made, now_ms), ReplicaError.NOT_LEADER_OR_FOLLOWER, now_ms)
        now_ms += CONFIG.replica_fetch_backoff_ms
    assert (made.truncates, made.log.end_offset) == (True, 300)
    made.epoch_ended(ask_epoch(made, now_ms), EndOfEpoch(5, 156))
    assert made.log.end_offset == 156


def test_leader_epoch_change_during_successful_fetch_epochs_from_leader() -> None:
    made = follower(log_of([0, 0, 0]))
    old = ask_epoch(made)
    made.resumed(state(leader=3, epoch=6))
    made.epoch_ended(old, EndOfEpoch(0, 1))
    assert made.log.end_offset == 3
    assert made.truncates
    assert ask_epoch(made).current_leader_epoch == 6


def test_follower_fetch_out_of_range_high() -> None:
    made = follower(log_of([0] * 5), high_watermark=4)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(0, 5))
    made.out_of_range(ask_records(made), 0, 3)
    assert (made.log.end_offset, made.high_watermark) == (3, 3)


def test_no_leader_no_request() -> None:
    made = Follower(2, log_of([0]), CONFIG, state(leader=-1), 0)
    assert made.next_request(NOW) is None


def epochs_of(steps: list[int]) -> list[int]:
    """Epochs that rise: 0 stays, 1 and more are added."""
    return [sum(steps[: n + 1]) for n in range(len(steps))]


STEPS = st.lists(st.sampled_from((0, 0, 1, 2)), max_size=8)


@given(STEPS, STEPS, STEPS)
def test_should_not_allow_divergent_logs(common: list[int], of_leader: list[int], of_follower: list[int]) -> None:
    """EpochDrivenReplicationProtocolAcceptanceTest: a follower with any tail of its own ends with the leader's log. An epoch
    has one leader, so the two tails have no epoch in common but the last common one, of which one tail may hold more."""
    base = epochs_of(common)
    last = base[-1] if base else 0
    ours = [last + 2 * e for e in epochs_of(of_leader)]  # the leader's: that of the common part, and even steps
    theirs = [last + 2 * e + 1 for e in epochs_of(of_follower)]
    leaders, followers = log_of([*base, *ours]), log_of([*base, *theirs])
    leader = Leader(1, PARTITION, leaders, CONFIG, state(epoch=1_000), 0, NOW)
    made = Follower(2, followers, CONFIG, state(epoch=1_000), len(base))
    for _ in range(200):
        request = made.next_request(NOW)
        if isinstance(request, EpochLookup):
            made.epoch_ended(request, leader.end_of_epoch(request))
        elif request is not None:
            result, _ = leader.fetch(request, NOW)
            made.fetched(request, result)
            if not result.batches:
                break
    assert followers.batches == leaders.batches
    assert followers.epochs.entries == [e for e in leaders.epochs.entries if e.epoch != 1_000]


def test_an_epoch_in_which_nothing_was_appended_goes() -> None:
    """Of a broker that led and wrote nothing: the leader lacks that epoch, and the lookup would not end."""
    log = log_of([0, 0])
    log.epochs.assign(2, 2)
    made = follower(log)
    made.epoch_ended(ask_epoch(made), EndOfEpoch(1, 3))
    assert log.epochs.latest == 0
    made.epoch_ended(ask_epoch(made), EndOfEpoch(0, 2))
    assert ask_records(made).fetch_offset == 2
