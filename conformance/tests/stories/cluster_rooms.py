"""Rules of a cluster of which no seed sees that they are off, each with a scenario or a test of its room that fails then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.tests.stories import cluster_switches as off
from conformance.tests.stories.cluster_switches import Switch
from coterie_conformance.scenarios.groups.scenario import run_scenario
from tests.broker.cluster.replicas import test_faults_of_the_disk
from tests.broker.groups import test_repeated_assignments
from tests.consuming.fetching import test_validation
from tests.controller import test_config_changes
from tests.coordinator.transactions import test_machine, test_marker_queue
from tests.replication import test_isr, test_leader, test_replicas
from tests.test_spec import SPEC, WORLDS, scenarios_of


def of_spec(file: str, name: str) -> Callable[[], None]:
    """The scenario of that name in a file of tests/spec: raises AssertionError, or ScenarioError, where it ends otherwise."""

    def run() -> None:
        path = SPEC / f"{file}.txt"
        scenario = next(one for one in scenarios_of(path) if name in one.names)
        assert run_scenario(scenario, WORLDS[path.parent.name]) == [line.rstrip() for line in scenario.lines]

    return run


SEEN_IN_ROOMS: dict[Switch, Callable[[], None]] = {
    off.leader_epochs_are_not_checked: test_leader.test_a_follower_in_an_old_epoch_changes_nothing,
    off.followers_join_before_they_have_caught_up: test_isr.test_a_follower_that_has_caught_up_joins,
    off.followers_are_timed_by_their_own_clocks: test_isr.test_what_a_fetch_says_of_its_follower,
    off.a_lone_replica_may_be_left: test_isr.test_none_leaves_where_fewer_than_min_insync_replicas_are_in_sync,
    off.a_broker_obeys_before_it_is_registered: test_replicas.test_a_broker_that_is_not_registered_yet_has_no_role,
    off.a_deletion_begins_beside_a_reassignment: of_spec(
        "cluster/reassignment", "testTopicDeletionWaitsForReassignment"
    ),
    off.a_deletion_waits_for_no_broker: of_spec("cluster/deletion", "testDeletionWithBrokerOffline"),
    off.notifications_are_deleted_by_the_clock_of_zookeeper: (
        test_config_changes.test_a_clock_that_is_ahead_deletes_nothing_that_is_new
    ),
    off.the_controller_ignores_storage_errors: of_spec("cluster/log_dirs", "a_leader_that_is_lost"),
    off.the_controller_reads_no_notifications: of_spec("cluster/log_dirs", "a_replica_that_is_found_again"),
    off.replicas_in_a_failed_directory_are_elected: of_spec("cluster/log_dirs", "a_leader_that_is_lost"),
    off.logs_are_trusted_after_an_fsync_that_failed: test_faults_of_the_disk.test_an_fsync_that_failed,
    off.assignments_are_sent_before_they_are_replicated: (
        test_repeated_assignments.test_a_member_that_joins_again_waits_for_the_replicas_in_sync_as_well
    ),
    off.commits_of_any_epoch_are_accepted: of_spec(
        "consumer/offsets", "testConsumerGroupOffsetCommitWithStaleMemberEpoch"
    ),
    off.a_lost_response_is_an_acknowledgement: of_spec("producer/retries", "testRetries"),
    off.no_batch_waits_for_one_before_it: of_spec("producer/batches", "testMutedPartitions"),
    off.positions_are_not_validated: (
        test_validation.test_a_position_of_an_older_epoch_is_validated_before_it_is_fetched
    ),
    off.markers_are_not_repeated_after_the_leader_has_moved: (
        test_marker_queue.test_a_response_without_a_partition_has_it_tried_again
    ),
    off.a_transaction_is_complete_before_all_its_markers: partial(
        test_machine.test_the_markers_follow_the_decision_and_the_completion_follows_the_markers, bumps_epoch=True
    ),
    off.a_transaction_is_complete_after_its_first_marker: (
        test_marker_queue.test_should_complete_delayed_operation_when_no_errors
    ),
    off.a_decided_transaction_is_not_completed_after_a_load: (
        test_machine.test_should_complete_what_was_decided_before_the_load
    ),
}
