"""A broker's replicas and the controller's requests: Kafka's ReplicaManagerTest and BrokerEpochIntegrationTest."""

from __future__ import annotations

import pytest

from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    AppendDecided,
    ReplicaError,
    ReplicaRefusal,
    StoppedReplica,
    TopicPartition,
)
from tests.replication.fakes import CONFIG, PARTITION, log_of, state

NOW = 1_000_000
OTHER: TopicPartition = ("orders", 1)


def replicas(deleted: list[TopicPartition] | None = None) -> Replicas:
    deleted = [] if deleted is None else deleted
    made = Replicas(1, CONFIG, lambda _: (log_of([0, 0]), 1), deleted.append)
    made.broker_epoch = 40
    return made


def test_leader_and_isr_makes_leaders_and_followers() -> None:
    made = replicas()
    refused, _ = made.leader_and_isr(1, 40, {PARTITION: state(leader=1), OTHER: state(leader=2)}, NOW)
    assert refused == {}
    assert isinstance(made.partitions[PARTITION].role, Leader)
    assert isinstance(made.partitions[OTHER].role, Follower)
    assert made.high_watermarks() == {PARTITION: 1, OTHER: 1}
    assert [r.partition for r in made.followers()] == [OTHER]


def test_a_state_that_is_no_newer_is_refused() -> None:
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(leader=1, epoch=5)}, NOW)
    for epoch in (5, 4):
        refused, effects = made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=epoch)}, NOW)
        assert (refused, effects) == ({PARTITION: ReplicaError.STALE_CONTROLLER_EPOCH}, [])
    assert isinstance(made.partitions[PARTITION].role, Leader)


def test_stop_replica_with_stale_controller_epoch() -> None:
    made = replicas()
    made.leader_and_isr(2, 40, {PARTITION: state()}, NOW)
    with pytest.raises(ReplicaRefusal, match="STALE_CONTROLLER_EPOCH"):
        made.stop_replicas(1, 40, {PARTITION: StoppedReplica(9)})
    with pytest.raises(ReplicaRefusal, match="STALE_CONTROLLER_EPOCH"):
        made.leader_and_isr(1, 40, {PARTITION: state(epoch=9)}, NOW)


def test_control_requests_with_stale_broker_epoch() -> None:
    made = replicas()
    with pytest.raises(ReplicaRefusal, match="STALE_BROKER_EPOCH"):
        made.leader_and_isr(1, 39, {PARTITION: state()}, NOW)
    assert made.partitions == {}


@pytest.mark.parametrize(("epoch", "stops"), [(4, False), (5, True), (6, True)])
def test_stop_replica_with_existing_partition_and_leader_epoch(epoch: int, stops: bool) -> None:
    """testStopReplicaWithExistingPartitionAndNewerLeaderEpoch, ...OlderLeaderEpoch, ...EqualLeaderEpoch"""
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(epoch=5)}, NOW)
    refused, _ = made.stop_replicas(1, 40, {PARTITION: StoppedReplica(epoch)})
    assert refused == ({} if stops else {PARTITION: ReplicaError.FENCED_LEADER_EPOCH})
    assert (made.partitions[PARTITION].role is None) == stops


def test_stop_replica_with_inexistent_partition() -> None:
    assert replicas().stop_replicas(1, 40, {PARTITION: StoppedReplica(3)}) == ({}, [])


def test_clear_produce_purgatory_on_becoming_follower() -> None:
    """testClearPurgatoryOnBecomingFollower, testClearProducePurgatoryOnStopReplica"""
    for stopped in (False, True):
        made = replicas()
        made.leader_and_isr(1, 40, {PARTITION: state(leader=1, epoch=5)}, NOW)
        made.leader(PARTITION).append("a", "token", NOW, acks_all=True)
        if stopped:
            effects = made.stop_replicas(1, 40, {PARTITION: StoppedReplica(5)})[1]
        else:
            effects = made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=6)}, NOW)[1]
        assert effects == [AppendDecided("token", ReplicaError.NOT_LEADER_OR_FOLLOWER)]
        with pytest.raises(ReplicaRefusal, match="NOT_LEADER_OR_FOLLOWER"):
            made.leader(PARTITION)


def test_become_follower_when_leader_is_unchanged_but_missed_leader_update() -> None:
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=5)}, NOW)
    before = made.partitions[PARTITION].role
    made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=8)}, NOW)
    assert made.partitions[PARTITION].role is before
    assert made.partitions[PARTITION].leader_epoch == 8
    assert isinstance(before, Follower)
    assert before.truncates


def test_use_checkpoint_to_initialize_high_watermark() -> None:
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(leader=2)}, NOW)
    assert made.partitions[PARTITION].high_watermark == 1


def test_a_broker_that_is_not_registered_yet_has_no_role() -> None:
    """LeaderAndIsr for its former process: that one's log may have been longer, when a power cut took the end."""
    made = replicas()
    made.broker_epoch = None
    with pytest.raises(ReplicaRefusal, match="STALE_BROKER_EPOCH"):
        made.leader_and_isr(1, 40, {PARTITION: state()}, NOW)


DELETED_IN = [(4, False), (5, True), (6, True), (EPOCH_DURING_DELETE, True), (NO_EPOCH, True)]


@pytest.mark.parametrize(("epoch", "deletes"), DELETED_IN)
def test_stop_replica_with_delete_partition_and_existing_partition(epoch: int, deletes: bool) -> None:
    """...AndNewerLeaderEpoch, ...OlderLeaderEpoch, ...EqualLeaderEpoch, ...DeleteSentinel, ...LeaderEpochNotProvided"""
    deleted: list[TopicPartition] = []
    made = replicas(deleted)
    made.leader_and_isr(1, 40, {PARTITION: state(epoch=5)}, NOW)
    made.stop_replicas(1, 40, {PARTITION: StoppedReplica(epoch, delete=True)})
    assert (PARTITION not in made.partitions, deleted) == (deletes, [PARTITION] if deletes else [])


@pytest.mark.parametrize("epoch", [EPOCH_DURING_DELETE, NO_EPOCH])
def test_stop_replica_with_existing_partition_and_delete_sentinel(epoch: int) -> None:
    """testStopReplicaWithExistingPartitionAndDeleteSentinel, ...LeaderEpochNotProvided"""
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(epoch=5)}, NOW)
    assert made.stop_replicas(1, 40, {PARTITION: StoppedReplica(epoch)})[0] == {}
    assert made.partitions[PARTITION].role is None


def test_stop_replica_with_inexistent_partition_and_partitions_delete() -> None:
    """A log that was left when its broker was down"""
    deleted: list[TopicPartition] = []
    assert replicas(deleted).stop_replicas(1, 40, {PARTITION: StoppedReplica(3, delete=True)}) == ({}, [])
    assert deleted == [PARTITION]


@pytest.mark.parametrize(("epoch", "new", "empties"), [(0, True, True), (0, False, False), (1, True, False)])
def test_a_new_partition_begins_with_an_empty_log(epoch: int, new: bool, empties: bool) -> None:
    """Only in its first epoch: a replica that a reassignment adds is new as well, and may be in the ISR by now."""
    deleted: list[TopicPartition] = []
    made = replicas(deleted)
    for _ in range(2):  # the request is repeated
        made.leader_and_isr(1, 40, {PARTITION: state(epoch=epoch)}, NOW, {PARTITION} if new else ())
    assert deleted == ([PARTITION] if empties else [])
