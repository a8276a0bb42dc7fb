"""The ISR of a partition: Kafka's IsrExpirationTest and what PartitionTest has of it, by their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.replication.leader import UNKNOWN_OFFSET, Leader
from coterie.replication.replicas import Replica
from coterie.replication.states import (
    AppendDecided,
    Effect,
    HighWatermarkMoved,
    PartitionState,
    ReplicaRefusal,
    WriteIsr,
)
from tests.replication.fakes import CONFIG, NOW, PARTITION, MemoryReplicaLog, fetch, leader, log_of, state, written

LAG_MS = CONFIG.replica_lag_time_max_ms
Isr = tuple[int, ...]
ALONE: Isr = (1,)
BOTH: Isr = (1, 2)


def of_two(isr: Isr, records: int = 10, lag_time_max_ms: int = LAG_MS) -> Leader:
    """The leader of epoch 5 of a partition on brokers 1 and 2, whose records are of epoch 4."""
    config = replace(CONFIG, min_insync_replicas=1, replica_lag_time_max_ms=lag_time_max_ms)
    led = PartitionState(1, 5, isr, 1, 1, BOTH)
    made = Leader(1, PARTITION, log_of([4] * records), config, led, 0, NOW)
    made.begin(NOW)
    return made


def write_of(effects: list[Effect]) -> WriteIsr:
    (write,) = (e for e in effects if isinstance(e, WriteIsr))
    return write


def follower(made: Leader) -> tuple[int, int, int]:
    """Broker 2 as its leader knows it: its end, its start, and when it had all."""
    remote = made.remotes[2]
    return remote.end_offset, remote.start_offset, remote.caught_up_ms


def test_what_a_fetch_says_of_its_follower() -> None:
    """testUpdateFollowerFetchState"""
    made = of_two(BOTH, records=6)
    assert follower(made) == (UNKNOWN_OFFSET, UNKNOWN_OFFSET, NOW)
    made.fetch(fetch(2, 3), NOW + 500)
    assert follower(made) == (3, 0, NOW)
    made.fetch(fetch(2, 6), NOW + 1_000)
    assert follower(made) == (6, 0, NOW + 1_000)


def test_a_follower_that_has_caught_up_joins() -> None:
    """testIsrExpansion"""
    made = of_two(ALONE)
    assert follower(made)[:2] == (UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    assert written(made.fetch(fetch(2, 3), NOW)[1]) == []
    assert (follower(made)[:2], made.state.isr) == ((3, 0), ALONE)
    write = write_of(made.fetch(fetch(2, 10), NOW)[1])
    assert (write.state.isr, write.state.version) == (BOTH, 1)
    assert made.state.isr == ALONE, "not before ZooKeeper has it"
    made.isr_written(write.state, 2, NOW)
    assert (made.state.isr, made.state.version) == (BOTH, 2)
    assert follower(made)[:2] == (10, 0)


def test_a_follower_does_not_join_where_the_write_fails() -> None:
    """testIsrNotExpandedIfUpdateFails"""
    made = of_two(ALONE)
    made.isr_refused(write_of(made.fetch(fetch(2, 10), NOW)[1]).state, None, NOW)
    assert (made.state.isr, follower(made)[:2]) == (ALONE, (10, 0))
    assert written(made.fetch(fetch(2, 10), NOW)[1]) == [BOTH], "another try at the next fetch"


def test_a_follower_joins_within_the_leaders_epoch_only() -> None:
    """testFollowerDoesNotJoinISRUntilCaughtUpToOffsetWithinCurrentLeaderEpoch: records above an old high watermark may be
    committed ones."""
    replica = Replica(1, PARTITION, MemoryReplicaLog(), replace(CONFIG, min_insync_replicas=1), 0)
    replica.assume(state(leader=1, epoch=8, isr=(1, 3)), NOW)
    for number in range(5):
        replica.leading().append(f"{number}", number, NOW, acks_all=False)
    assert replica.high_watermark == 0
    for offset in (0, 1):
        replica.leading().fetch(fetch(3, offset, 8), NOW)
    assert replica.high_watermark == 1
    replica.assume(state(leader=3, epoch=9, isr=(1, 3)), NOW)
    replica.assume(state(leader=1, epoch=10, isr=(1, 3)), NOW)
    made = replica.leading()
    for number in range(2):
        made.append(f"new {number}", number, NOW, acks_all=False)
    for offset in (0, 1):  # the high watermark
        assert written(made.fetch(fetch(2, offset, 10), NOW)[1]) == []
    assert written(made.fetch(fetch(2, 5, 10), NOW)[1]) == [(1, 3, 2)]


def test_a_silent_follower_leaves_and_the_high_watermark_moves() -> None:
    """testMaybeShrinkIsr"""
    made = of_two(BOTH)
    assert (follower(made), made.high_watermark) == ((UNKNOWN_OFFSET, UNKNOWN_OFFSET, NOW), 0)
    assert written(made.tick(NOW)) == []
    assert written(made.tick(NOW + LAG_MS)) == []
    write = write_of(made.tick(NOW + LAG_MS + 1))
    assert write.state.isr == ALONE
    made.isr_written(write.state, 2, NOW + LAG_MS + 1)
    assert (made.state.isr, made.high_watermark) == (ALONE, 10)


def test_a_follower_stays_that_has_reached_the_end_of_its_last_fetch() -> None:
    """testShouldNotShrinkIsrIfPreviousFetchIsCaughtUp"""
    made = of_two(BOTH)
    first_ms = NOW + 5_000
    made.fetch(fetch(2, 5), first_ms)
    assert (follower(made), made.high_watermark) == ((5, 0, NOW), 5)
    later_ms = first_ms + 5_001
    for number in range(5):
        made.append(f"{number}", number, later_ms, acks_all=False)
    made.fetch(fetch(2, 10), later_ms)
    assert (follower(made), made.high_watermark) == ((10, 0, first_ms), 10)
    assert later_ms - NOW > LAG_MS
    assert written(made.tick(later_ms)) == []


def test_a_follower_at_the_end_stays_however_long_it_is_silent() -> None:
    """testShouldNotShrinkIsrIfFollowerCaughtUpToLogEnd"""
    made = of_two(BOTH)
    made.fetch(fetch(2, 10), NOW)
    assert (follower(made), made.high_watermark) == ((10, 0, NOW), 10)
    assert written(made.tick(NOW + LAG_MS + 1)) == []


def test_a_follower_stays_where_the_write_fails() -> None:
    """testIsrNotShrunkIfUpdateFails"""
    made = of_two(BOTH)
    late = NOW + LAG_MS + 1
    write = write_of(made.tick(late))
    assert write.state.isr == ALONE
    assert written(made.tick(late)) == [], "one write at a time"
    made.isr_refused(write.state, None, late)
    assert (made.state.isr, made.high_watermark) == (BOTH, 0)


FETCHES = {  # name: (ms, offset) of fetches, the end being 20, and (ms, whether the follower is out of sync) of the checks
    "testIsrExpirationForStuckFollowers": ([(0, 19)], [(0, False), (150, True)]),
    "testIsrExpirationIfNoFetchRequestMade": ([], [(0, False), (150, True)]),
    "testIsrExpirationForSlowFollowers": ([(0, 18), (75, 19)], [(0, False), (75, False), (150, True)]),
    "testIsrExpirationForCaughtUpFollowers": ([(0, 20)], [(0, False), (150, False)]),
}


@pytest.mark.parametrize("name", FETCHES)
def test_which_followers_are_out_of_sync_after_100_ms(name: str) -> None:
    made = of_two(BOTH, records=20, lag_time_max_ms=100)
    fetches, checks = FETCHES[name]
    left = dict(fetches)
    for after_ms, is_out in checks:
        if after_ms in left:
            made.fetch(fetch(2, left[after_ms]), NOW + after_ms)
        effects = made.tick(NOW + after_ms)
        assert written(effects) == ([ALONE] if is_out else [])
        if is_out:  # a fetch at the end brings it back
            made.isr_written(write_of(effects).state, 2, NOW + after_ms)
            assert written(made.fetch(fetch(2, 20), NOW + after_ms)[1]) == [BOTH]


def test_a_leader_takes_the_assignment_that_the_controller_gives() -> None:
    """testUpdateAssignmentAndIsr"""
    moving = PartitionState(1, 5, (1, 2, 3, 4), 1, 1, (1, 2, 3, 4), (5, 6), (2, 3))
    made = Leader(1, PARTITION, log_of([4]), CONFIG, moving, 0, NOW)
    assert made.state == moving
    assert [*made.remotes] == [2, 3, 4]
    late = NOW + 2 * LAG_MS
    moved = PartitionState(1, 6, (1, 4, 5, 6), 1, 2, (1, 4, 5, 6))
    made.resumed(moved, late)
    assert made.state == moved
    assert [*made.remotes] == [4, 5, 6]
    made.fetch(fetch(4, 1, 6), late)
    assert written(made.tick(late)) == [], "new members of the ISR are caught up until the lag says otherwise"


def test_the_high_watermark_waits_for_a_member_that_is_about_to_join() -> None:
    made = leader(log_of([0] * 2), state(isr=(1, 2)))
    made.fetch(fetch(3, 2), NOW)
    made.append("a", "token", NOW, acks_all=True)
    made.fetch(fetch(2, 3), NOW)
    assert made.high_watermark == 2


def test_none_leaves_where_fewer_than_min_insync_replicas_are_in_sync() -> None:
    """The one that is further ahead may be dead and without power, and the other the last whole copy beside the leader's."""
    made = leader(log_of([0] * 4))
    made.fetch(fetch(3, 3), NOW)  # and broker 3 dies
    late = NOW + CONFIG.replica_lag_time_max_ms + 1
    made.fetch(fetch(2, 2), late)
    assert written(made.tick(late)) == []
    assert made.high_watermark == 2, "the high watermark waits for all of them"
    made.fetch(fetch(2, 3), late)
    made.fetch(fetch(2, 4), late + 1)
    (write,) = (e for e in made.tick(late + 1) if isinstance(e, WriteIsr))
    assert write.state.isr == (1, 2), "the live one has caught up"
    made.isr_written(write.state, 8, late + 1)
    assert made.high_watermark == 4


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


def test_the_high_watermark_moves_once_the_laggard_has_left() -> None:
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    late = NOW + CONFIG.replica_lag_time_max_ms + 1
    (write,) = (e for e in made.tick(late) if isinstance(e, WriteIsr))
    assert made.high_watermark == 0, "the laggard is a member until ZooKeeper says otherwise"
    assert made.isr_written(write.state, 8, late) == [HighWatermarkMoved(PARTITION, 4)]


def test_a_dead_follower_that_the_controller_removes_holds_the_high_watermark_no_longer() -> None:
    """It was caught up a moment ago. Kafka's makeLeader forgets that of each replica outside of the new ISR."""
    made = leader(log_of([0] * 4))
    for follower in (2, 3):
        made.fetch(fetch(follower, 4), NOW)
    made.append("a", "a", NOW, acks_all=True)
    made.fetch(fetch(2, 5), NOW)  # and broker 3 dies
    effects = made.resumed(state(epoch=6, isr=(1, 2)), NOW + 5_000)
    assert AppendDecided("a") in effects
    assert made.high_watermark == 5


def test_a_member_of_the_isr_has_its_time_again_in_a_new_epoch() -> None:
    made = leader(log_of([0] * 4))
    late = NOW + LAG_MS
    made.fetch(fetch(2, 4), NOW)
    made.resumed(state(epoch=6), late)
    assert written(made.tick(late + LAG_MS)) == []
    assert written(made.tick(late + LAG_MS + 1)) == [(1, 2)]


def test_a_write_of_an_earlier_epoch_changes_nothing() -> None:
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    (write,) = (e for e in made.tick(NOW + 20_000) if isinstance(e, WriteIsr))
    made.resumed(state(epoch=6, isr=(1, 3), version=9), NOW)
    assert made.isr_written(write.state, 8, NOW) == []
    assert (made.state.isr, made.state.version) == ((1, 3), 9)


@pytest.mark.parametrize(
    "current", [None, state(epoch=6, isr=(1, 2, 3), version=9)], ids=["unknown", "in the next epoch"]
)
def test_a_replica_that_may_have_joined_is_waited_for(current: PartitionState | None) -> None:
    """The write was done and its response lost, then the controller wrote: the repeated write is refused."""
    made = leader(log_of([0] * 4), state(isr=(1, 2)))
    made.fetch(fetch(2, 4), NOW)
    write, late = write_of(made.fetch(fetch(3, 4), NOW)[1]), NOW + LAG_MS + 1
    assert write.state.isr == (1, 2, 3)
    made.isr_refused(write.state, current, NOW)
    made.append("a", "a", late, acks_all=True)
    made.fetch(fetch(2, 5), late)
    assert made.high_watermark == 4
    made.resumed(state(epoch=6, isr=(1, 2)), late)
    assert made.high_watermark == 5


def test_a_replica_that_left_by_itself_is_gone() -> None:
    """The node names this leader in this epoch: its ISR holds. Of another epoch it does not."""
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    for epoch, isr in ((6, (1, 2, 3)), (5, (1, 2))):
        (write,) = (e for e in made.tick(NOW + 20_000) if isinstance(e, WriteIsr))
        made.isr_refused(write.state, state(epoch=epoch, isr=(1, 2), version=9), NOW + 20_000)
        assert made.state.isr == isr
    assert (made.state.version, made.high_watermark) == (9, 4)


def test_the_leader_learns_of_a_departure_by_metadata() -> None:
    """A broker that lost power wrote the ISR without itself, and the controller sent UpdateMetadata."""
    made = leader(log_of([0] * 4))
    made.fetch(fetch(2, 4), NOW)
    assert made.high_watermark == 0, "broker 3 is waited for"
    assert HighWatermarkMoved(PARTITION, 4) in made.update_metadata(state(isr=(1, 2), version=8), NOW + LAG_MS + 1)
    assert (made.state.isr, made.state.version) == ((1, 2), 8)
    write = write_of(made.fetch(fetch(3, 4), NOW)[1])
    assert (write.state.isr, write.state.version) == ((1, 2, 3), 8)


@pytest.mark.parametrize(
    "other",
    [
        state(isr=(1, 2), version=7),
        state(isr=(1, 2), version=6),
        state(epoch=4, isr=(1, 2), version=8),
        state(epoch=6, isr=(1, 2), version=8),
        state(leader=2, isr=(1, 2), version=8),
    ],
    ids=["its own version", "an older version", "an earlier epoch", "a later epoch", "another leader"],
)
def test_other_metadata_changes_nothing(other: PartitionState) -> None:
    made = leader(log_of([0] * 4))
    assert made.update_metadata(other, NOW) == []
    assert made.state == state()


def test_a_departure_during_a_write_is_learnt_by_its_refusal() -> None:
    made = leader(log_of([0] * 4), state(isr=(1, 2)))
    write = write_of(made.fetch(fetch(3, 4), NOW)[1])
    assert made.update_metadata(state(isr=(1,), version=8), NOW) == []
    made.isr_refused(write.state, state(isr=(1,), version=8), NOW)
    assert (made.state.isr, made.state.version) == ((1,), 8)


def test_metadata_confirms_a_write_whose_response_was_lost() -> None:
    """Whether it was done is known then."""
    made = leader(log_of([0] * 4), state(isr=(1, 2)))
    late = NOW + LAG_MS + 1
    made.fetch(fetch(2, 4), NOW)
    made.isr_refused(write_of(made.fetch(fetch(3, 4), NOW)[1]).state, None, NOW)
    made.append("a", "a", late, acks_all=True)
    made.fetch(fetch(2, 5), late)
    assert made.high_watermark == 4, "broker 3 may have joined"
    made.update_metadata(state(isr=(1, 2), version=9), late)
    assert (made.high_watermark, made.state.version) == (5, 9)


# How Kafka's controller completes a reassignment (KIP-455): the assignment is the target's already, and the ISR names the
# replicas that go until the next request.
REMOVED_STILL_IN_SYNC = PartitionState(1, 5, (1, 2, 9), 1, 7, (1, 2))


def in_sync_with_a_removed_replica() -> Leader:
    config = replace(CONFIG, min_insync_replicas=1)
    return Leader(1, PARTITION, log_of([4] * 3), config, REMOVED_STILL_IN_SYNC, 0, NOW)


def test_a_removed_replica_that_the_isr_still_names_is_not_waited_for() -> None:
    """maybeIncrementLeaderHW looks at assigned replicas alone."""
    made = in_sync_with_a_removed_replica()
    assert made.begin(NOW) == []
    assert HighWatermarkMoved(PARTITION, 3) in made.fetch(fetch(2, 3), NOW)[1]
    assert made.tick(NOW + 2 * LAG_MS) == []


def test_the_last_assigned_member_of_the_isr_needs_no_removed_one() -> None:
    of = PartitionState(4, 3, (4, 1), 1, 1, (4, 5))
    made = Leader(4, PARTITION, log_of([0]), replace(CONFIG, min_insync_replicas=1), of, 0, 0)
    assert made.begin(0) == []  # broker 5 may be caught up still
    assert made.tick(LAG_MS + 1) == [HighWatermarkMoved(PARTITION, 1)]


def test_a_removed_replica_counts_for_no_min_insync_replicas() -> None:
    """Kafka 2.6 counts it, and acknowledges what a single replica has."""
    made = Leader(1, PARTITION, log_of([4]), CONFIG, replace(REMOVED_STILL_IN_SYNC, isr=(1, 9)), 0, NOW)
    with pytest.raises(ReplicaRefusal, match="NOT_ENOUGH_REPLICAS"):
        made.append("a", "token", NOW, acks_all=True)


def test_the_next_isr_that_the_leader_writes_is_without_the_removed_replica() -> None:
    made = in_sync_with_a_removed_replica()
    made.fetch(fetch(2, 1), NOW)
    write = write_of(made.tick(NOW + LAG_MS + 1))
    assert write.state.isr == ALONE
    made.isr_refused(write.state, replace(REMOVED_STILL_IN_SYNC, isr=(1, 9), version=8), NOW)
    assert (made.state.isr, made.state.version) == (ALONE, 8)
    assert written(made.fetch(fetch(2, 3), NOW)[1]) == [BOTH]


@pytest.mark.parametrize("by", ["LeaderAndIsr", "UpdateMetadata"])
def test_the_isr_loses_a_replica_that_is_no_longer_assigned(by: str) -> None:
    made = of_two(BOTH)
    moved = PartitionState(1, 6 if by == "LeaderAndIsr" else 5, (1, 2, 9), 1, 8, BOTH)
    if by == "LeaderAndIsr":
        made.resumed(moved, NOW)
    else:
        made.update_metadata(moved, NOW)
    assert (made.state.isr, made.state.version) == (BOTH, 8)
    assert made.tick(NOW) == []
