"""A partition's leader: Kafka's PartitionTest and IsrExpirationTest, by their names where they have one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from coterie.log.leader_epochs import EndOfEpoch
from coterie.replication.states import (
    NO_EPOCH,
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    ReplicaError,
    ReplicaRefusal,
)
from tests.replication.fakes import CONFIG, NOW, PARTITION, Batch, MemoryReplicaLog, fetch, leader, log_of, state


def decided(effects: list[Effect]) -> list[AppendDecided]:
    return [e for e in effects if isinstance(e, AppendDecided)]


def test_make_leader_updates_epoch_cache() -> None:
    """testMakeLeaderUpdatesEpochCache: the epoch of a leader that has appended nothing ends where the log does."""
    made = leader(log_of([0, 0, 5, 5]), state(epoch=8))
    assert made.log.end_offset == 4
    assert made.end_of_epoch(EpochLookup(8, 8)) == EndOfEpoch(8, 4)


def test_a_fetch_without_room_for_bytes_still_counts() -> None:
    """A response that is full already: the follower's offset is known all the same."""
    made = leader(log_of([0] * 5), high_watermark=2)
    made.fetch(fetch(3, 5), NOW)
    fetched, effects = made.fetch(replace(fetch(2, 4), max_bytes=0), NOW)
    assert (fetched.batches, effects) == ([], [HighWatermarkMoved(PARTITION, 4), FollowerStartMoved(PARTITION)])


def test_the_high_watermark_waits_for_every_member_of_the_isr() -> None:
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
    log.append_as_leader = lambda batch, leader_epoch: None  # type: ignore[method-assign, assignment, return-value]
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


def test_a_high_watermark_never_falls() -> None:
    made = leader(log_of([0] * 6), high_watermark=4)
    made.fetch(fetch(2, 3), NOW)
    made.fetch(fetch(3, 3), NOW)
    assert made.high_watermark == 4


EPOCHS = [(NO_EPOCH, None), (5, None), (4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH")]


@pytest.mark.parametrize(("epoch", "error"), EPOCHS)
def test_the_epochs_of_followers_requests(epoch: int, error: str | None) -> None:
    """Those of consumers are checked by the broker's handlers."""
    made = leader(log_of([0, 0, 4]))
    for ask in (lambda: made.end_of_epoch(EpochLookup(epoch, 0)), lambda: made.fetch(fetch(2, 0, epoch), NOW)):
        with nullcontext() if error is None else pytest.raises(ReplicaRefusal, match=error):
            ask()


def test_a_follower_in_an_old_epoch_changes_nothing() -> None:
    """testFollowerStateNotUpdatedIfLogReadFails"""
    made = leader(log_of([0] * 5))
    assert (made.remotes[2].end_offset, made.remotes[2].start_offset) == (-1, -1)
    made.fetch(fetch(2, 0), NOW)
    for offset, epoch, error in ((3, 4, "FENCED_LEADER_EPOCH"), (6, 5, "OFFSET_OUT_OF_RANGE")):
        with pytest.raises(ReplicaRefusal, match=error):
            made.fetch(fetch(2, offset, epoch), NOW)
        assert (made.remotes[2].end_offset, made.remotes[2].start_offset) == (0, 0)


def test_read_record_beyond_the_end_or_of_no_replica_is_refused() -> None:
    made = leader(log_of([0] * 3), high_watermark=1)
    assert [b.offset for b in made.read(0).batches] == [0]
    with pytest.raises(ReplicaRefusal, match="OFFSET_OUT_OF_RANGE"):
        made.read(4)
    with pytest.raises(ReplicaRefusal, match="OFFSET_OUT_OF_RANGE"):
        made.fetch(fetch(2, 4), NOW)
    with pytest.raises(ReplicaRefusal, match="NOT_LEADER_OR_FOLLOWER"):
        made.fetch(fetch(9, 0), NOW)


# -- other replicas ---------------------------------------------------------------------------------------------------


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


def test_a_new_leader_is_behind_its_epoch_until_followers_have_fetched() -> None:
    made = leader(log_of([0, 0, 4]), high_watermark=1)
    assert made.is_behind_epoch
    made.fetch(fetch(2, 3), NOW)
    assert made.is_behind_epoch
    made.fetch(fetch(3, 3), NOW)
    assert not made.is_behind_epoch
    made.append("new", 1, NOW, acks_all=True)
    assert not made.is_behind_epoch  # it has begun with less
