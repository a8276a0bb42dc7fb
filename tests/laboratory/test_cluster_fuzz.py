"""Seeds of clusters: fresh ones, and each rule that keeps acknowledged records, switched off, which seeds must see."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    a_broker_keeps_its_roles_in_a_new_session,
    a_broker_that_lost_power_stays_in_its_isrs,
    a_deletion_begins_beside_a_reassignment,
    a_deletion_waits_for_no_broker,
    a_follower_behind_deleted_records_begins_at_the_leaders_end,
    a_lone_replica_may_be_left,
    a_reassignment_ends_before_its_target_has_caught_up,
    a_replaced_controller_goes_on,
    any_replica_is_elected,
    followers_join_before_they_have_caught_up,
    leader_epochs_are_not_checked,
    logs_are_not_truncated,
    logs_are_truncated_to_the_high_watermark,
    the_controller_writes_whatever_the_version,
    the_high_watermark_leaves_out_who_is_about_to_go,
    the_high_watermark_waits_for_nobody,
    the_isr_is_written_whatever_the_version,
)
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.disk_replica_log import BrokerDisk, DiskReplicaLog
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import run_cluster_seed
from coterie.laboratory.fuzz import FuzzFailure
from coterie.replication.replicas import Replicas
from coterie.replication.states import ReplicaError, ReplicaRefusal
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


def a_broker_obeys_before_it_is_registered(patch: Patch) -> None:
    """It holds no request back, and obeys one for its former process."""

    def check(replicas: Replicas, controller_epoch: int, broker_epoch: int) -> None:
        if controller_epoch < replicas.controller_epoch:
            raise ReplicaRefusal(ReplicaError.STALE_CONTROLLER_EPOCH)
        replicas.controller_epoch = controller_epoch

    patch.setattr(Replicas, "check_controller", check)
    patch.setattr(ClusterBroker, "_from_controller", lambda self, request, answer: answer(self._carry_out(request)))


def appends_are_not_synced(patch: Patch) -> None:
    """Where all machines may lose power at once."""
    begin = DiskReplicaLog.__init__
    patch.setattr(DiskReplicaLog, "__init__", lambda log, world, _: begin(log, world, BrokerDisk()))


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
