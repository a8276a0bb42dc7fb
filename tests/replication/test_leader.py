"""A partition's leader: Kafka's PartitionTest and IsrExpirationTest, by their names where they have one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.laboratory.cluster.replica_log import Batch, MemoryReplicaLog
from coterie.replication.leader import Leader
from coterie.replication.states import (
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    PartitionState,
    ReplicaError,
    ReplicaFetch,
    ReplicaRefusal,
    WriteIsr,
)
from tests.replication.fakes import CONFIG, PARTITION, log_of, state

NOW = 1_000_000


def leader(
    log: MemoryReplicaLog, of: PartitionState | None = None, high_watermark: int = 0, at_least: int = 2
) -> Leader:
    config = replace(CONFIG, min_insync_replicas=at_least)
    made = Leader(1, PARTITION, log, config, of or state(), high_watermark, NOW)
    made.begin(NOW)
    return made


def fetch(by: int, offset: int, epoch: int = 5) -> ReplicaFetch:
    return ReplicaFetch(by, epoch, offset, 0)


def written(effects: list[Effect]) -> list[tuple[int, ...]]:
    return [e.state.isr for e in effects if isinstance(e, WriteIsr)]


def decided(effects: list[Effect]) -> list[AppendDecided]:
    return [e for e in effects if isinstance(e, AppendDecided)]


def test_make_leader_updates_epoch_cache() -> None:
    log = log_of([0, 0, 4])
    leader(log)
    assert (log.epochs.latest, log.epochs.entries[-1].start_offset) == (5, 3)


def test_a_fetch_without_room_for_bytes_still_counts() -> None:
    """A response that is full already: the follower's offset is known all the same."""
    made = leader(log_of([0] * 5), high_watermark=2)
    made.fetch(fetch(3, 5), NOW)
    fetched, effects = made.fetch(replace(fetch(2, 4), max_bytes=0), NOW)
    assert (fetched.batches, effects) == ([], [HighWatermarkMoved(PARTITION, 4), FollowerStartMoved(PARTITION)])


def test_the_high_watermark_waits_for_every_member_of_the_isr() -> None:
    """testUpdateFollowerFetchState"""
    made = leader(log_of([0] * 5), high_watermark=2)
    assert made.fetch(fetch(2, 5), NOW)[1] == [FollowerStartMoved(PARTITION)]
    assert made.high_watermark == 2
    _, effects = made.fetch(fetch(3, 4), NOW)
    assert effects == [HighWatermarkMoved(PARTITION, 4), FollowerStartMoved(PARTITION)]


def test_an_append_is_acknowledged_when_the_isr_has_it() -> None:
    made = leader(log_of([0]))
    assert decided(made.append("a", "token", NOW, acks_all=True)) == []
    made.fetch(fetch(2, 2), NOW)
    assert decided(made.fetch(fetch(3, 1), NOW)[1]) == []
    assert decided(made.fetch(fetch(3, 2), NOW)[1]) == [AppendDecided("token")]


def test_an_append_that_adds_nothing_is_acknowledged_where_the_isr_has_everything() -> None:
    """A repeated batch: its first response was lost, and nothing else may ever move the high watermark."""
    log = log_of([0] * 5)
    made = leader(log, high_watermark=5)
    log.append_as_leader = lambda batch, leader_epoch: None  # type: ignore[method-assign]
    assert decided(made.append("again", "token", NOW, acks_all=True)) == [AppendDecided("token")]
    made = leader(log, high_watermark=3)
    assert decided(made.append("again", "token", NOW, acks_all=True)) == []


def test_an_append_without_acks_all_is_acknowledged_at_once() -> None:
    made = leader(log_of([]))
    assert decided(made.append("a", "token", NOW, acks_all=False)) == [AppendDecided("token")]
    assert made.high_watermark == 0


def test_at_min_isr() -> None:
    made = leader(log_of([]), state(isr=(1,)))
    with pytest.raises(ReplicaRefusal, match="NOT_ENOUGH_REPLICAS"):
        made.append("a", "token", NOW, acks_all=True)
    assert made.log.end_offset == 0
    made.append("b", "token", NOW, acks_all=False)
    assert made.log.end_offset == 1


def test_an_append_is_refused_where_too_few_are_in_sync() -> None:
    made = leader(log_of([]))
    made.append("a", "a", NOW, acks_all=False)
    with pytest.raises(ReplicaRefusal, match="NOT_ENOUGH_REPLICAS"):
        made.append("b", "b", NOW + CONFIG.replica_lag_time_max_ms + 1, acks_all=True)
    assert made.log.end_offset == 1


def test_too_few_after_the_append() -> None:
    """Where a controller of another kind has left a lone member."""
    made = leader(log_of([]))
    made.append("a", "token", NOW, acks_all=True)
    effects = made.resumed(state(epoch=6, isr=(1,)), NOW + 20_000)
    assert decided(effects) == [AppendDecided("token", ReplicaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]


def test_a_leader_that_resigns_refuses_what_waits() -> None:
    made = leader(log_of([]))
    made.append("a", "token", NOW, acks_all=True)
    assert made.end() == [AppendDecided("token", ReplicaError.NOT_LEADER_OR_FOLLOWER)]
    assert made.end() == []


def test_monotonic_offsets_after_leader_change() -> None:
    made = leader(log_of([0] * 6), high_watermark=4)
    made.fetch(fetch(2, 3), NOW)
    made.fetch(fetch(3, 3), NOW)
    assert made.high_watermark == 4


def test_offset_for_leader_epoch_validation_for_leader() -> None:
    made = leader(log_of([0, 0, 4]))
    assert made.end_of_epoch(EpochLookup(5, 0)).end_offset == 2
    for epoch, error in ((4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH")):
        with pytest.raises(ReplicaRefusal, match=error):
            made.end_of_epoch(EpochLookup(epoch, 0))
        with pytest.raises(ReplicaRefusal, match=error):
            made.fetch(fetch(2, 0, epoch), NOW)


def test_read_record_beyond_the_end_or_of_no_replica_is_refused() -> None:
    made = leader(log_of([0] * 3), high_watermark=1)
    assert [b.offset for b in made.read(0).batches] == [0]  # testFetchBeyondHighWatermark
    with pytest.raises(ReplicaRefusal, match="OFFSET_OUT_OF_RANGE"):
        made.read(4)
    with pytest.raises(ReplicaRefusal, match="OFFSET_OUT_OF_RANGE"):
        made.fetch(fetch(2, 4), NOW)
    with pytest.raises(ReplicaRefusal, match="NOT_LEADER_OR_FOLLOWER"):
        made.fetch(fetch(9, 0), NOW)


# -- the ISR ------------------------------------------------------------------------------------------------------------


def test_isr_expansion() -> None:
    made = leader(log_of([0] * 4), state(isr=(1, 2)))
    made.fetch(fetch(2, 4), NOW)
    assert made.high_watermark == 4
    assert written(made.fetch(fetch(3, 3), NOW)[1]) == []
    _, effects = made.fetch(fetch(3, 4), NOW)
    assert written(effects) == [(1, 2, 3)]
    assert made.state.isr == (1, 2), "not before ZooKeeper has it"
    write = next(e for e in effects if isinstance(e, WriteIsr))
    made.isr_written(write.state, 8, NOW)
    assert (made.state.isr, made.state.version) == ((1, 2, 3), 8)


def test_follower_does_not_join_isr_until_caught_up_to_offset_within_current_leader_epoch() -> None:
    made = leader(log_of([0] * 4), state(isr=(1, 2)), high_watermark=2)
    assert written(made.fetch(fetch(3, 3), NOW)[1]) == []
    assert written(made.fetch(fetch(3, 4), NOW)[1]) == [(1, 2, 3)]


def test_isr_not_expanded_if_update_fails() -> None:
    made = leader(log_of([0] * 2), state(isr=(1, 2)))
    write = next(e for e in made.fetch(fetch(3, 2), NOW)[1] if isinstance(e, WriteIsr))
    made.isr_refused(write.state, None, NOW)
    assert made.state.isr == (1, 2)
    assert written(made.fetch(fetch(3, 2), NOW)[1]) == [(1, 2, 3)], "another try at the next fetch"


def test_the_high_watermark_waits_for_a_member_that_is_about_to_join() -> None:
    made = leader(log_of([0] * 2), state(isr=(1, 2)))
    made.fetch(fetch(3, 2), NOW)
    made.append("a", "token", NOW, acks_all=True)
    made.fetch(fetch(2, 3), NOW)
    assert made.high_watermark == 2


def test_maybe_shrink_isr() -> None:
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    assert written(made.tick(NOW + CONFIG.replica_lag_time_max_ms)) == []
    assert written(made.tick(NOW + CONFIG.replica_lag_time_max_ms + 1)) == [(1, 2)]


def test_isr_expiration_if_no_fetch_request_made() -> None:
    for at_least, isr in ((1, (1,)), (2, (1, 2))):
        made = leader(log_of([0] * 4), at_least=at_least)
        assert written(made.tick(NOW + CONFIG.replica_lag_time_max_ms + 1)) == [isr]


def test_the_foremost_stay_where_min_insync_replicas_would_not_be_left() -> None:
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 1), NOW)
    made.fetch(fetch(3, 3), NOW)
    late = NOW + CONFIG.replica_lag_time_max_ms + 1
    (write,) = (e for e in made.tick(late) if isinstance(e, WriteIsr))
    assert write.state.isr == (1, 3)
    made.isr_written(write.state, 8, late)
    assert made.high_watermark == 3, "and the high watermark waits for them"
    assert written(made.tick(2 * late)) == []


def test_isr_expiration_for_caught_up_followers() -> None:
    """testShouldNotShrinkIsrIfFollowerCaughtUpToLogEnd: at the leader's end, however long ago that was."""
    made = leader(log_of([0] * 4))
    for follower in (2, 3):
        made.fetch(fetch(follower, 4), NOW)
    assert written(made.tick(NOW + 100 * CONFIG.replica_lag_time_max_ms)) == []


def test_isr_expiration_for_slow_followers() -> None:
    """A follower that fetches, but never reaches where the leader's end was at its last fetch, is behind."""
    made, now_ms = leader(log_of([0] * 4)), NOW
    for offset in range(20):
        now_ms += 1_000
        made.append(f"{offset}", f"{offset}", now_ms, acks_all=False)
        made.append(f"{offset}b", f"{offset}b", now_ms, acks_all=False)
        made.fetch(fetch(2, offset), now_ms)
        made.fetch(fetch(3, made.log.end_offset), now_ms)
    assert written(made.tick(now_ms)) == [(1, 3)]


def test_should_not_shrink_isr_if_previous_fetch_is_caught_up() -> None:
    made = leader(log_of([0] * 4))
    late = NOW + CONFIG.replica_lag_time_max_ms
    for follower in (2, 3):
        made.fetch(fetch(follower, 3), late)
    made.append("a", "a", late, acks_all=False)
    for follower in (2, 3):
        made.fetch(fetch(follower, 4), late + 1_000)  # where the end was a second ago
    assert written(made.tick(late + 2_000)) == []


def test_isr_not_shrunk_if_update_fails() -> None:
    made = leader(log_of([0] * 4))
    late = NOW + CONFIG.replica_lag_time_max_ms + 1
    (write,) = (e for e in made.tick(late) if isinstance(e, WriteIsr))
    assert written(made.tick(late)) == [], "one write at a time"
    made.isr_refused(write.state, None, late)
    assert made.state.isr == (1, 2, 3)
    assert made.high_watermark == 0


def test_the_high_watermark_moves_once_the_laggard_has_left() -> None:
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    late = NOW + CONFIG.replica_lag_time_max_ms + 1
    (write,) = (e for e in made.tick(late) if isinstance(e, WriteIsr))
    assert made.high_watermark == 0, "the laggard is a member until ZooKeeper says otherwise"
    assert made.isr_written(write.state, 8, late) == [HighWatermarkMoved(PARTITION, 4)]


def test_a_write_of_an_earlier_epoch_changes_nothing() -> None:
    made = leader(log_of([0] * 4))
    (write,) = (e for e in made.tick(NOW + 20_000) if isinstance(e, WriteIsr))
    made.resumed(state(epoch=6, isr=(1, 3), version=9), NOW)
    assert made.isr_written(write.state, 8, NOW) == []
    assert (made.state.isr, made.state.version) == ((1, 3), 9)


def test_a_replica_that_left_by_itself_is_gone() -> None:
    """The node names this leader in this epoch: its ISR holds. Of another epoch it does not."""
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    for epoch, isr in ((6, (1, 2, 3)), (5, (1, 2))):
        (write,) = (e for e in made.tick(NOW + 20_000) if isinstance(e, WriteIsr))
        made.isr_refused(write.state, state(epoch=epoch, isr=(1, 2), version=9), NOW + 20_000)
        assert made.state.isr == isr
    assert (made.state.version, made.high_watermark) == (9, 4)


class RetainedLog(MemoryReplicaLog):
    """Its records before 4 are deleted."""

    @property
    def start_offset(self) -> int:
        return 4


def test_the_low_watermark_is_the_least_start_of_the_live_replicas() -> None:  # testLowWatermark.. of KIP-107
    log = RetainedLog()
    log.append_as_follower([Batch(offset, 0, "") for offset in range(5)])
    made = leader(log, high_watermark=5)
    assert made.low_watermark({1, 2, 3}) == -1  # no follower has said where its log begins
    _, effects = made.fetch(replace(fetch(2, 5), start_offset=4), NOW)
    assert FollowerStartMoved(PARTITION) in effects
    made.fetch(replace(fetch(3, 5), start_offset=2), NOW)
    assert made.low_watermark({1, 2, 3}) == 2
    assert made.low_watermark({1, 2}) == 4
    _, effects = made.fetch(replace(fetch(3, 5), start_offset=2), NOW)
    assert FollowerStartMoved(PARTITION) not in effects


def test_a_new_leader_is_behind_its_epoch_until_followers_have_fetched() -> (
    None
):  # testFetchLatestOffsetIncludesLeaderEpoch
    made = leader(log_of([0, 0, 4]), high_watermark=1)
    assert made.is_behind_epoch
    made.fetch(fetch(2, 3), NOW)
    assert made.is_behind_epoch
    made.fetch(fetch(3, 3), NOW)
    assert not made.is_behind_epoch
    made.append("new", 1, NOW, acks_all=True)
    assert not made.is_behind_epoch  # it has begun with less
