"""Seeds of clusters: fresh ones, and each rule that keeps acknowledged records, switched off, which seeds must see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from coterie.controller import isr_writer, machine, nodes
from coterie.controller.elected import deletion, election, office, reassignment, session
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.disk_replica_log import BrokerDisk, DiskReplicaLog
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import run_cluster_seed
from coterie.laboratory.fuzz import FuzzFailure
from coterie.machines.script import Steps
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import PartitionState, ReplicaError, ReplicaRefusal, TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import ANY_VERSION, Multi, MultiRefused, Read, Write
from tests.laboratory.known_seeds import Defect, KnownSeeds

Patch = pytest.MonkeyPatch
SEEDS_FOR_A_DEFECT = 40


def test_fresh_seeds() -> None:
    reports = [run_cluster_seed(seed, minutes=2) for seed in range(300, 308)]
    assert sum(r.broker_crashes for r in reports) > 15, "brokers crash too seldom to say anything"
    assert sum(r.power_cuts for r in reports) > 4, "the power is cut too seldom to say anything"
    assert sum(r.elections for r in reports) > 50, "leaders change too seldom to say anything"
    assert sum(r.controllers for r in reports) > 20, "the controller moves too seldom to say anything"
    assert sum(r.acknowledged for r in reports) > 4_000, "too little is acknowledged to say anything"
    assert sum(r.deletions for r in reports) > 10, "topics are deleted too seldom to say anything"
    assert sum(r.reassignments for r in reports) > 15, "partitions are reassigned too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_cluster_seed(3, minutes=0.5) == run_cluster_seed(3, minutes=0.5)


def test_a_response_that_arrives_after_a_later_request() -> None:
    """The checker expected the reassignment that was cancelled before its response arrived."""
    run_seed_of_clusters(40_586, minutes=0.5)


def test_a_broker_that_is_killed_before_it_leaves_the_isrs() -> None:
    """After a power cut; its next start leaves them (broker/storage/machine_reset). The laboratory's had forgotten the power
    cut, led, and truncated what was acknowledged."""
    run_seed_of_clusters(43_264, minutes=0.5)


def test_a_shutdown_beside_machines_without_power() -> None:
    """One was dead and the other just so when the third shut down, which alone had all that was acknowledged."""
    run_seed_of_clusters(46_244, minutes=0.5)


def the_isr_is_written_whatever_the_version(patch: Patch) -> None:
    def written(
        writer: isr_writer.IsrWriter, partition: tuple[str, int], state: PartitionState
    ) -> Steps[PartitionState]:
        path = paths.partition_state(*partition)
        yield from writer.ask(Write(path, nodes.state(state)))
        node = yield from writer.ask(Read(path))
        return replace(state, version=node.version)

    patch.setattr(isr_writer.IsrWriter, "_written", written)


def the_controller_writes_whatever_the_version(patch: Patch) -> None:
    write = session.OfficeSession.write

    def unfenced(self: session.OfficeSession, *operations: Any) -> Iterator[Any]:
        return (yield from write(self, *map(any_version, operations)))

    patch.setattr(session.OfficeSession, "write", unfenced)


def any_version(operation: Any) -> Any:
    return replace(operation, version=ANY_VERSION) if isinstance(operation, Write) else operation


def a_replaced_controller_goes_on(patch: Patch) -> None:
    """Without the check of /controller_epoch, and without a look at /controller."""

    def unchecked(self: session.OfficeSession, *operations: Any) -> Iterator[Any]:
        try:
            yield from self.ask(Multi(tuple(map(any_version, operations))))
        except MultiRefused as refused:
            raise refused.error from refused

    patch.setattr(session.OfficeSession, "write", unchecked)
    patch.setattr(office.Office, "_check_office", lambda self: iter(()))
    patch.setattr(Replicas, "check_controller", lambda replicas, controller_epoch, broker_epoch: None)


def logs_are_not_truncated(patch: Patch) -> None:
    request = Follower.next_request

    def without(follower: Follower, now_ms: int) -> Any:
        follower.truncates = False
        return request(follower, now_ms)

    patch.setattr(Follower, "next_request", without)


def logs_are_truncated_to_the_high_watermark(patch: Patch) -> None:
    """As before KIP-101."""
    request = Follower.next_request

    def to_high_watermark(follower: Follower, now_ms: int) -> Any:
        if follower.truncates and follower.next_deadline_ms() is not None:
            follower._truncate(follower.high_watermark)
        return request(follower, now_ms)

    patch.setattr(Follower, "next_request", to_high_watermark)


def leader_epochs_are_not_checked(patch: Patch) -> None:
    patch.setattr(PartitionState, "check_epoch", lambda state, epoch: None)
    patch.setattr(Follower, "_is_over", lambda follower, request: not setattr(follower, "_under_way", None))


def the_high_watermark_waits_for_nobody(patch: Patch) -> None:
    def advance(leader: Leader, now_ms: int) -> Any:
        leader.log.high_watermark = leader.log.end_offset
        return leader._acknowledge()

    patch.setattr(Leader, "_advance", advance)


def followers_join_before_they_have_caught_up(patch: Patch) -> None:
    def expand(leader: Leader, replica: int, remote: object) -> Any:
        if leader._pending is not None or replica in leader.state.isr:
            return []
        return leader._write_isr((*leader.state.isr, replica))

    patch.setattr(Leader, "_expand", expand)


def any_replica_is_elected(patch: Patch) -> None:
    elect = election.after_failure
    patch.setattr(election, "after_failure", lambda *state, **rules: elect(*state, **(rules | {"unclean": True})))


def the_high_watermark_leaves_out_who_is_about_to_go(patch: Patch) -> None:
    def isr(leader: Leader) -> tuple[int, ...]:
        return leader.state.isr if leader._pending is None else leader._pending.isr

    patch.setattr(Leader, "_maximal_isr", isr)


def a_broker_obeys_before_it_is_registered(patch: Patch) -> None:
    """It holds no request back, and obeys one for its former process."""

    def check(replicas: Replicas, controller_epoch: int, broker_epoch: int) -> None:
        if controller_epoch < replicas.controller_epoch:
            raise ReplicaRefusal(ReplicaError.STALE_CONTROLLER_EPOCH)
        replicas.controller_epoch = controller_epoch

    patch.setattr(Replicas, "check_controller", check)
    patch.setattr(ClusterBroker, "_from_controller", lambda self, request, answer: answer(self._carry_out(request)))


def a_broker_that_lost_power_stays_in_its_isrs(patch: Patch) -> None:
    """As in Apache Kafka 2.6."""
    patch.setattr(machine.ControllerMachine, "_leave_isr", lambda self, path, replicas: iter(()))


def a_lone_replica_may_be_left(patch: Patch) -> None:
    """As in Apache Kafka 2.6: the ISR shrinks below min.insync.replicas."""
    fail, shut_down, tick = election.after_failure, election.controlled_shutdown, Leader.tick
    patch.setattr(election, "after_failure", lambda *state, **rules: fail(*state, **(rules | {"at_least": 1})))
    patch.setattr(election, "controlled_shutdown", lambda *state, **rules: shut_down(*state))

    def to_one(leader: Leader, now_ms: int) -> Any:
        config, leader.config = leader.config, replace(leader.config, min_insync_replicas=1)
        try:
            return tick(leader, now_ms)
        finally:
            leader.config = config

    patch.setattr(Leader, "tick", to_one)


def a_reassignment_ends_before_its_target_has_caught_up(patch: Patch) -> None:
    """All of it is in the ISR at the end."""
    narrowed = election.narrowed

    def all_of_the_target(*state: Any, in_sync: Sequence[int] = (), **rules: Any) -> PartitionState | None:
        after = narrowed(*state, **(rules | {"at_least": 0}))
        return replace(after, isr=tuple(in_sync)) if after is not None and in_sync else after

    patch.setattr(reassignment, "narrowed", all_of_the_target)

    def at_once(self: reassignment.Reassignments, partition: TopicPartition) -> Steps[bool]:
        state = yield from self._session.read_state(partition)
        return state is not None and bool(set(state.isr) & set(self._view.assigned[partition].target))

    patch.setattr(reassignment.Reassignments, "_is_caught_up", at_once)


def a_deletion_begins_beside_a_reassignment(patch: Patch) -> None:
    """As in Apache Kafka 2.6, when a broker starts."""
    resume = deletion.TopicDeletion.resume

    def unhindered(self: deletion.TopicDeletion) -> Iterator[Any]:
        reassigning, self._view.reassigning = self._view.reassigning, set()
        steps = resume(self)
        try:
            yield from steps
        finally:
            self._view.reassigning = reassigning

    patch.setattr(deletion.TopicDeletion, "resume", unhindered)


def a_deletion_waits_for_no_broker(patch: Patch) -> None:
    """A topic's nodes go while a broker that is down has its log."""

    def completed(self: deletion.TopicDeletion, replica: Any) -> bool:
        return self.phases.get(replica) is not None and not self._is_started(replica)

    patch.setattr(deletion.TopicDeletion, "_is_deleted", completed)


def a_follower_behind_deleted_records_begins_at_the_leaders_end(patch: Patch) -> None:
    """Rather than where the leader's log begins."""
    begin = Follower.out_of_range

    def at_end(follower: Follower, request: Any, _: int, leader_end_offset: int) -> None:
        begin(follower, request, leader_end_offset, leader_end_offset)

    patch.setattr(Follower, "out_of_range", at_end)


def appends_are_not_synced(patch: Patch) -> None:
    """Where all machines may lose power at once."""
    begin = DiskReplicaLog.__init__
    patch.setattr(DiskReplicaLog, "__init__", lambda log, world, _: begin(log, world, BrokerDisk()))


def a_broker_keeps_its_roles_in_a_new_session(patch: Patch) -> None:
    """As in Apache Kafka 2.6."""

    def registered(replicas: Replicas, broker_epoch: int) -> list[Any]:
        replicas.broker_epoch = broker_epoch
        return []

    patch.setattr(Replicas, "registered", registered)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        the_isr_is_written_whatever_the_version: 3,
        the_controller_writes_whatever_the_version: 5,
        a_replaced_controller_goes_on: 3,
        logs_are_not_truncated: 1,
        logs_are_truncated_to_the_high_watermark: 4,
        leader_epochs_are_not_checked: 2,
        the_high_watermark_waits_for_nobody: 0,
        followers_join_before_they_have_caught_up: 2,
        any_replica_is_elected: 3,
        the_high_watermark_leaves_out_who_is_about_to_go: 11,
        a_broker_obeys_before_it_is_registered: 21,
        a_broker_that_lost_power_stays_in_its_isrs: 4,
        a_lone_replica_may_be_left: 126,
        a_reassignment_ends_before_its_target_has_caught_up: 9,
        a_deletion_begins_beside_a_reassignment: 25,
        a_deletion_waits_for_no_broker: 0,
        a_follower_behind_deleted_records_begins_at_the_leaders_end: 101,
        appends_are_not_synced: 60_027,
        a_broker_keeps_its_roles_in_a_new_session: 15,
    },
    partial(run_cluster_seed, minutes=2),
    range(SEEDS_FOR_A_DEFECT),
    failures=(FuzzFailure, IndexError, KeyError),
)


@RULES.each()
@pytest.mark.slow
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
