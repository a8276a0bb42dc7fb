"""A broker's replicas and the controller's requests: Kafka's ReplicaManagerTest and BrokerEpochIntegrationTest."""

from __future__ import annotations

import pytest

from coterie.log.leader_epochs import EndOfEpoch
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    AppendDecided,
    EpochLookup,
    HighWatermarkMoved,
    ReplicaError,
    ReplicaFetch,
    ReplicaRefusal,
    StoppedReplica,
    TopicPartition,
)
from tests.replication.fakes import CONFIG, NOW, PARTITION, MemoryReplicaLog, log_of, state

OTHER: TopicPartition = ("orders", 1)
THIRD: TopicPartition = ("orders", 2)


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
    assert {partition: replica.high_watermark for partition, replica in made.partitions.items()} == {
        PARTITION: 1,
        OTHER: 1,
    }
    assert [r.partition for r in made.followers()] == [OTHER]


class DefectiveLog(MemoryReplicaLog):
    def begin_epoch(self, leader_epoch: int) -> None:
        raise KeyError(leader_epoch)


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_defect_of_one_partition_is_none_of_the_others(*, is_reported: bool) -> None:
    """The effects of the partitions before it are not lost, and the partitions behind it get their roles. Without a driver that
    reports it, as in the laboratory, it is raised."""
    failed: list[TopicPartition] = []
    logs = {PARTITION: log_of([0, 0]), OTHER: DefectiveLog(), THIRD: log_of([0])}
    made = Replicas(1, CONFIG, lambda partition: (logs[partition], 0), lambda _: None)
    made.broker_epoch = 40
    states = {partition: state(isr=(1,)) for partition in logs}
    if not is_reported:
        with pytest.raises(KeyError):
            made.leader_and_isr(1, 40, states, NOW)
        return
    made.failed = lambda partition, error: failed.append(partition)
    refused, effects = made.leader_and_isr(1, 40, states, NOW)
    assert (refused, failed) == ({OTHER: ReplicaError.UNKNOWN_SERVER_ERROR}, [OTHER])
    assert effects == [HighWatermarkMoved(PARTITION, 2), HighWatermarkMoved(THIRD, 1)]
    assert [isinstance(made.partitions[p].role, Leader) for p in logs] == [True, False, True]
    logs[OTHER] = log_of([0])
    made.partitions.clear()
    assert made.leader_and_isr(1, 40, {OTHER: state(isr=(1,))}, NOW)[0] == {}, "the controller tries again"


def test_a_state_that_is_no_newer_is_refused() -> None:
    """testMakeFollowerWithNoLeaderIdChange: a later epoch is taken, with the same leader too."""
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state(leader=1, epoch=5)}, NOW)
    for epoch in (5, 4):
        refused, effects = made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=epoch)}, NOW)
        assert (refused, effects) == ({PARTITION: ReplicaError.STALE_CONTROLLER_EPOCH}, [])
    assert isinstance(made.partitions[PARTITION].role, Leader)
    for epoch, is_taken in ((8, True), (11, True), (11, False)):
        refused, _ = made.leader_and_isr(1, 40, {PARTITION: state(leader=2, epoch=epoch)}, NOW)
        assert (refused == {}) == is_taken
        assert made.partitions[PARTITION].leader_epoch == epoch


def test_stop_replica_with_stale_controller_epoch() -> None:
    """testStopReplicaWithStaleControllerEpoch"""
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


def test_a_follower_compares_its_log_again_in_a_later_epoch() -> None:
    """testBecomeFollowerWhenLeaderIsUnchangedButMissedLeaderUpdate: also where the leader is the same."""
    made = Replicas(2, CONFIG, lambda _: (log_of([3] * 10), 0), lambda _: None)
    made.broker_epoch = 40
    made.leader_and_isr(1, 40, {PARTITION: state(leader=1, epoch=1)}, NOW)
    follower = made.partitions[PARTITION].role
    assert isinstance(follower, Follower)
    for epoch, leaders_end in ((1, 10), (3, 5)):
        if epoch > 1:
            made.leader_and_isr(1, 40, {PARTITION: state(leader=1, epoch=epoch)}, NOW)
        assert made.partitions[PARTITION].role is follower
        lookup = follower.next_request(NOW)
        assert lookup == EpochLookup(epoch, 3)
        assert isinstance(lookup, EpochLookup)
        follower.epoch_ended(lookup, EndOfEpoch(3, leaders_end))
        assert follower.log.end_offset == leaders_end
        fetch = follower.next_request(NOW)
        assert isinstance(fetch, ReplicaFetch)
        follower.failed(fetch, NOW - CONFIG.replica_fetch_backoff_ms)


@pytest.mark.parametrize("leads", [False, True])
def test_the_high_watermark_begins_as_the_checkpoint_has_it(leads: bool) -> None:
    """testUseCheckpointToInitializeHighWatermark"""
    made = Replicas(1, CONFIG, lambda _: (log_of([5] * 6), 4), lambda _: None)
    made.broker_epoch = 40
    made.leader_and_isr(3, 40, {PARTITION: state(leader=1 if leads else 2, epoch=6, isr=(1, 2))}, NOW)
    assert made.partitions[PARTITION].high_watermark == 4


def test_a_partition_that_is_not_here() -> None:
    """testGetReplica"""
    made = replicas()
    assert PARTITION not in made.partitions
    with pytest.raises(ReplicaRefusal, match="NOT_LEADER_OR_FOLLOWER"):
        made.leader(PARTITION)


def test_a_broker_that_is_not_registered_yet_has_no_role() -> None:
    """LeaderAndIsr for its former process: that one's log may have been longer, when a power cut took the end."""
    made = replicas()
    made.broker_epoch = None
    with pytest.raises(ReplicaRefusal, match="STALE_BROKER_EPOCH"):
        made.leader_and_isr(1, 40, {PARTITION: state()}, NOW)


@pytest.mark.parametrize(("epoch", "has_role"), [(40, True), (41, False)])
def test_roles_end_with_the_registration_that_they_were_given_for(epoch: int, has_role: bool) -> None:
    """The news that a session has expired may come after the broker has registered in the next one: it registers again, meets
    its own node, and had lost all roles, which no controller gave it a second time."""
    made = replicas()
    made.leader_and_isr(1, 40, {PARTITION: state()}, NOW)
    made.registered(epoch)
    assert (made.partitions[PARTITION].role is not None) == has_role


@pytest.mark.parametrize(("epoch", "new", "empties"), [(0, True, True), (0, False, False), (1, True, False)])
def test_a_new_partition_begins_with_an_empty_log(epoch: int, new: bool, empties: bool) -> None:
    """Only in its first epoch: a replica that a reassignment adds is new as well, and may be in the ISR by now."""
    deleted: list[TopicPartition] = []
    made = replicas(deleted)
    for _ in range(2):  # the request is repeated
        made.leader_and_isr(1, 40, {PARTITION: state(epoch=epoch)}, NOW, {PARTITION} if new else ())
    assert deleted == ([PARTITION] if empties else [])


FENCED = ReplicaError.FENCED_LEADER_EPOCH
STOPPED = {  # name: the epoch of StopReplica, the partition's being 1, whether it deletes, and the error
    "testStopReplicaWithExistingPartitionAndNewerLeaderEpoch": (2, False, None),
    "testStopReplicaWithExistingPartitionAndOlderLeaderEpoch": (0, False, FENCED),
    "testStopReplicaWithExistingPartitionAndEqualLeaderEpoch": (1, False, None),
    "testStopReplicaWithExistingPartitionAndDeleteSentinel": (EPOCH_DURING_DELETE, False, None),
    "testStopReplicaWithExistingPartitionAndLeaderEpochNotProvided": (NO_EPOCH, False, None),
    "testStopReplicaWithDeletePartitionAndExistingPartitionAndNewerLeaderEpoch": (2, True, None),
    "testStopReplicaWithDeletePartitionAndExistingPartitionAndOlderLeaderEpoch": (0, True, FENCED),
    "testStopReplicaWithDeletePartitionAndExistingPartitionAndEqualLeaderEpoch": (1, True, None),
    "testStopReplicaWithDeletePartitionAndExistingPartitionAndDeleteSentinel": (EPOCH_DURING_DELETE, True, None),
    "testStopReplicaWithDeletePartitionAndExistingPartitionAndLeaderEpochNotProvided": (NO_EPOCH, True, None),
}


@pytest.mark.parametrize("name", STOPPED)
def test_stop_replica_with_existing_partition(name: str) -> None:
    """An equal epoch stops the replica, as in Apache Kafka 3.9; Kafka 2.6 refuses it with FENCED_LEADER_EPOCH."""
    epoch, delete, error = STOPPED[name]
    deleted: list[TopicPartition] = []
    made = replicas(deleted)
    made.leader_and_isr(0, 40, {PARTITION: state(epoch=1)}, NOW)
    refused, _ = made.stop_replicas(0, 40, {PARTITION: StoppedReplica(epoch, delete=delete)})
    assert refused == ({} if error is None else {PARTITION: error})
    stops, deletes = error is None, error is None and delete
    assert (PARTITION not in made.partitions, deleted) == (deletes, [PARTITION] if deletes else [])
    assert deletes or (made.partitions[PARTITION].role is None) == stops


INEXISTENT = {  # name: whether StopReplica deletes, whether the disk fails, and whether the log goes
    "testStopReplicaWithInexistentPartition": (False, False, False),
    "testStopReplicaWithInexistentPartitionAndPartitionsDelete": (True, False, True),
    "testStopReplicaWithInexistentPartitionAndPartitionsDeleteAndIOException": (True, True, False),
}


def disk_fails(partition: TopicPartition) -> None:
    raise ReplicaRefusal(ReplicaError.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("name", INEXISTENT)
def test_stop_replica_with_inexistent_partition(name: str) -> None:
    """Its log may be here: it was left when the broker was down."""
    delete, fails, goes = INEXISTENT[name]
    deleted: list[TopicPartition] = []
    made = Replicas(1, CONFIG, lambda _: (log_of([0, 0]), 1), disk_fails if fails else deleted.append)
    made.broker_epoch = 40
    refused, effects = made.stop_replicas(0, 40, {PARTITION: StoppedReplica(1, delete=delete)})
    assert (refused, effects) == ({PARTITION: ReplicaError.KAFKA_STORAGE_ERROR} if fails else {}, [])
    assert deleted == ([PARTITION] if goes else [])


def test_a_log_that_cannot_be_deleted_is_an_error_of_its_partition() -> None:
    """testStopReplicaWithDeletePartitionAndExistingPartitionAndNewerLeaderEpochAndIOException"""
    made = Replicas(1, CONFIG, lambda _: (log_of([0, 0]), 1), disk_fails)
    made.broker_epoch = 40
    made.leader_and_isr(0, 40, {PARTITION: state(epoch=1), OTHER: state(epoch=1)}, NOW)
    stopped = {PARTITION: StoppedReplica(2, delete=True), OTHER: StoppedReplica(2)}
    assert made.stop_replicas(0, 40, stopped)[0] == {PARTITION: ReplicaError.KAFKA_STORAGE_ERROR}
    assert made.partitions[OTHER].role is None
