"""Rules that keep a cluster right, each switched off: what the stories of three brokers must see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.cluster.control_requests import ControlRequests
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.groups.hosted_shard import HostedShard, UnreplicatedDecisions, respond
from coterie.broker.groups.unreplicated import UnreplicatedAssignments
from coterie.broker.handlers.logs import running_fetch
from coterie.broker.storage.topic import Partition
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.transaction_verification import PartOfTransaction, TransactionVerification
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import Position
from coterie.controller import isr_writer, machine, nodes, producer_id_blocks
from coterie.controller.changes.config_changes import ConfigChanges
from coterie.controller.commands import Command, TopicConfigured
from coterie.controller.elected import election, office, reassignment, session, topics
from coterie.controller.elected.view import ControllerView
from coterie.controller.machine import ControllerMachine
from coterie.controller.producer_id_blocks import ProducerIdBlocks
from coterie.coordinator.consumer import steps
from coterie.coordinator.consumer.offsets import any_partition
from coterie.coordinator.consumer.state import ConsumerGroup, CurrentAssignment
from coterie.coordinator.consumer.target import Reconciliation, reconcile
from coterie.coordinator.offsets import commit
from coterie.coordinator.shard import Shard
from coterie.coordinator.transactions import marker_queue
from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.marker_queue import MarkerQueue
from coterie.log import follower_log
from coterie.log.partition_log import PartitionLog
from coterie.log.producer_states import Aborted, Producers
from coterie.log.reading import read_visible
from coterie.machines.script import Steps
from coterie.producing.batch import ProducerBatch
from coterie.producing.machine import ProducerMachine
from coterie.producing.partition_queue import PartitionQueue
from coterie.producing.transactions.transactions import Transactions
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import PartitionState, ReplicaError, ReplicaRefusal, TopicPartition
from coterie.replication.stored_log import StoredReplicaLog
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import PartitionData
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    ANY_VERSION,
    BadVersion,
    ConnectionLost,
    Multi,
    MultiRefused,
    NodeExists,
    NoNode,
    Read,
    ReadEach,
    Write,
    Znode,
)

Patch = pytest.MonkeyPatch
Switch = Callable[[Patch], None]


# -- replication and the controller ---------------------------------------------------------------------------------------
def the_isr_is_written_whatever_the_version(patch: Patch) -> None:
    def written(
        writer: isr_writer.IsrWriter, partition: tuple[str, int], state: PartitionState
    ) -> Steps[PartitionState]:
        path = paths.partition_state(*partition)
        yield from writer.perform(Write(path, nodes.state(state)))
        node = yield from writer.perform(Read(path))
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
            yield from self.perform(Multi(tuple(map(any_version, operations))))
        except MultiRefused as refused:
            raise refused.error from refused

    patch.setattr(session.OfficeSession, "write", unchecked)
    patch.setattr(office.ActiveController, "_check_office", lambda self: iter(()))
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
    patch.setattr(ControlRequests, "_once_registered", lambda self, broker_epoch, handle: handle())
    patch.setattr(ControlRequests, "_epochs", lambda self, request: (request.controller_epoch, request.broker_epoch))


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
    resume = topics.TopicDeletion.resume

    def unhindered(self: topics.TopicDeletion) -> Iterator[Any]:
        reassigning, self._view.reassigning = self._view.reassigning, set()
        steps = resume(self)
        try:
            yield from steps
        finally:
            self._view.reassigning = reassigning

    patch.setattr(topics.TopicDeletion, "resume", unhindered)


def a_deletion_waits_for_no_broker(patch: Patch) -> None:
    """A topic's nodes go while a broker that is down has its log."""

    def completed(self: topics.TopicDeletion, replica: Any) -> bool:
        return self.phases.get(replica) is not None and not self._is_started(replica)

    patch.setattr(topics.TopicDeletion, "_is_deleted", completed)


def a_follower_behind_deleted_records_begins_at_the_leaders_end(patch: Patch) -> None:
    """Rather than where the leader's log begins."""
    begin = Follower.out_of_range

    def at_end(follower: Follower, request: Any, _: int, leader_end_offset: int) -> None:
        begin(follower, request, leader_end_offset, leader_end_offset)

    patch.setattr(Follower, "out_of_range", at_end)


def appends_are_not_synced(patch: Patch) -> None:
    """Where all machines may lose power at once."""
    patch.setattr(Partition, "sync_due", lambda partition: False)


def a_broker_keeps_its_roles_in_a_new_session(patch: Patch) -> None:
    """As in Apache Kafka 2.6."""

    def registered(replicas: Replicas, broker_epoch: int) -> list[Any]:
        replicas.broker_epoch = broker_epoch
        return []

    patch.setattr(Replicas, "registered", registered)


# -- settings, clocks, disks -----------------------------------------------------------------------------------------


def altered_settings_are_not_applied_to_replicas(patch: Patch) -> None:
    patch.setattr(Replicas, "topic_configured", lambda self, topic: None)


def the_controller_reads_settings_once(patch: Patch) -> None:
    submit = ControllerMachine.submit

    def without(self: ControllerMachine, command: Command) -> None:
        if not isinstance(command, TopicConfigured):
            submit(self, command)

    patch.setattr(ControllerMachine, "submit", without)


def the_end_of_a_log_is_trusted_after_a_power_cut(patch: Patch) -> None:
    """A page of what was not synced may be gone, and not its end."""
    opened = PartitionLog.open

    def open_all(*args: Any, lost_power: bool = False, **others: Any) -> PartitionLog:
        return opened(*args, **others)

    patch.setattr(PartitionLog, "open", open_all)


def notifications_are_deleted_by_the_clock_of_zookeeper(patch: Patch) -> None:
    """As in Kafka: a broker whose clock is ahead deletes what others have not read."""

    perform, delete_old, created_ms = ConfigChanges.perform, ConfigChanges._delete_old, dict[str, int]()

    def noting(self: ConfigChanges, operation: Any) -> Steps[Any]:
        result = yield from perform(self, operation)
        for path in operation.paths if isinstance(operation, ReadEach) else ():
            node = yield from perform(self, Read(path))
            if isinstance(node, Znode):
                created_ms[path] = node.created_ms
        return result

    def by_created(self: ConfigChanges) -> Steps[None]:
        self._read_ms = {path: created_ms[path] for path in self._read_ms}
        yield from delete_old(self)

    patch.setattr(ConfigChanges, "perform", noting)
    patch.setattr(ConfigChanges, "_delete_old", by_created)


def leaders_do_not_learn_of_departures(patch: Patch) -> None:
    """As in Apache Kafka 2.6, where no broker leaves an ISR by itself."""
    patch.setattr(Leader, "update_metadata", lambda leader, state, now_ms: [])


def followers_are_timed_by_their_own_clocks(patch: Patch) -> None:
    """As if a fetch carried the time at which it was sent, by a clock that is a minute behind."""
    fetch_from = Leader.fetch
    patch.setattr(Leader, "fetch", lambda leader, request, now_ms: fetch_from(leader, request, now_ms - 60_000))


def a_broker_goes_on_without_its_directory(patch: Patch) -> None:
    patch.setattr(HostedTopics, "_storage_failed", lambda hosted, error: None)


def logs_are_trusted_after_an_fsync_that_failed(patch: Patch) -> None:
    patch.setattr(Topics, "distrust_logs", lambda topics: None)


def the_controller_ignores_storage_errors(patch: Patch) -> None:
    patch.setattr(office.ActiveController, "_roles_assumed", lambda office, response: iter(()))


def the_controller_reads_no_notifications(patch: Patch) -> None:
    patch.setattr(office.ActiveController, "_log_dirs_failed", lambda office: iter(()))


def replicas_in_a_failed_directory_are_elected(patch: Patch) -> None:
    patch.setattr(ControllerView, "is_in_offline_dir", lambda view, broker, partition: False)


def followers_do_not_sync(patch: Patch) -> None:
    """Where flush.messages asks for it."""
    patch.setattr(HostedTopics, "after_sync", lambda hosted, partition, then: False)


# -- producer ids ----------------------------------------------------------------------------------------------------


def blocks_are_written_whatever_the_version(patch: Patch) -> None:
    patch.setattr(producer_id_blocks, "Write", lambda path, data, version: Write(path, data, ANY_VERSION))


def a_block_that_another_broker_wrote_is_taken(patch: Patch) -> None:
    perform = ProducerIdBlocks.perform

    def accepted(self: ProducerIdBlocks, operation: Any) -> Steps[Any]:
        try:
            return (yield from perform(self, operation))
        except (BadVersion, NodeExists, NoNode):
            return None

    patch.setattr(ProducerIdBlocks, "perform", accepted)


def a_write_without_a_response_counts_as_done(patch: Patch) -> None:
    perform = ProducerIdBlocks.perform

    def once(self: ProducerIdBlocks, operation: Any) -> Steps[Any]:
        if not isinstance(operation, Write):
            return (yield from perform(self, operation))
        try:
            return (yield operation)
        except ConnectionLost:
            return None

    patch.setattr(ProducerIdBlocks, "perform", once)


# -- groups ----------------------------------------------------------------------------------------------------------


def assignments_are_sent_before_they_are_replicated(patch: Patch) -> None:
    patch.setattr(UnreplicatedAssignments, "awaiting_response", lambda self, replies: replies)


def decisions_are_answered_before_they_are_replicated(patch: Patch) -> None:
    patch.setattr(UnreplicatedDecisions, "add", lambda self, decision: respond(decision.outcome.replies))


def a_coordinator_that_resigns_goes_on(patch: Patch) -> None:
    patch.setattr(GroupCoordinator, "resign", lambda self, index, epoch: True)


def a_coordinator_begins_without_a_load(patch: Patch) -> None:
    patch.setattr(HostedShard, "load_by_chunks", lambda self: iter(()))


def partitions_are_assigned_before_their_owners_release_them(patch: Patch) -> None:
    def eager(current: CurrentAssignment, given: Reconciliation) -> CurrentAssignment:
        nobody = Reconciliation(
            given.target_epoch, given.target, given.subscribed, {}, given.owned, given.subscription_changed
        )
        return reconcile(current, nobody)

    patch.setattr(steps, "reconcile", eager)


def commits_of_any_epoch_are_accepted(patch: Patch) -> None:
    patch.setattr(commit, "check_commit", lambda *arguments: any_partition)


def a_target_assignment_of_the_future_is_waited_for(patch: Patch) -> None:
    """As in Apache Kafka 4.3: until the clock of the new coordinator has reached it."""

    def left_ms(group: ConsumerGroup, interval_ms: int, now_ms: int) -> int:
        return max(group.assignment_timestamp_ms + interval_ms - now_ms, 0)

    patch.setattr(steps, "time_to_target_ms", left_ms)


# -- clients ---------------------------------------------------------------------------------------------------------


def a_repeated_batch_is_appended_again(patch: Patch) -> None:
    check = Producers.check

    def never_seen(producers: Producers, header: Any, **how: Any) -> None:
        check(producers, header, **how)

    patch.setattr(Producers, "check", never_seen)


def followers_know_no_producers(patch: Patch) -> None:
    """A new leader takes whatever comes."""
    append = StoredReplicaLog.append_as_follower

    def forgetful(log: StoredReplicaLog, batches: Any) -> None:
        append(log, batches)
        log.log.producers.by_id.clear()

    patch.setattr(StoredReplicaLog, "append_as_follower", forgetful)


def a_log_that_is_cut_keeps_its_producers(patch: Patch) -> None:
    """Who sends again what was cut is acknowledged."""
    settle = follower_log._settle

    def keeping(log: PartitionLog) -> None:
        producers = log.producers
        settle(log)
        log.producers = producers

    patch.setattr(follower_log, "_settle", keeping)


def readers_get_what_is_not_replicated(patch: Patch) -> None:
    def read(log: PartitionLog, offset: int, limit: int, *, at_least_one: bool) -> bytes:
        return log.read(offset, limit, at_least_one=at_least_one)

    patch.setattr(running_fetch, "read_visible", read)


def a_lost_response_is_an_acknowledgement(patch: Patch) -> None:
    patch.setattr(
        ProducerMachine, "request_failed", lambda self, token, failure, now_ms, jitter: self.sent(token, now_ms)
    )


def what_is_sent_again_has_another_number(patch: Patch) -> None:
    patch.setattr(PartitionQueue, "refused", numbered_anew)


def no_batch_waits_for_one_before_it(patch: Patch) -> None:
    patch.setattr(PartitionQueue, "next_to_send", sent_at_once)


def positions_are_not_validated(patch: Patch) -> None:
    """After an unclean election the consumer goes on where it is."""
    patch.setattr(Fetching, "_await_validation", lambda fetching: None)


# -- transactions ----------------------------------------------------------------------------------------------------


def markers_are_not_repeated_after_the_leader_has_moved(patch: Patch) -> None:
    patch.setattr(marker_queue, "_DONE", marker_queue._DONE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, None})


def a_transaction_is_complete_before_all_its_markers(patch: Patch) -> None:
    write = TransactionMachine._write_markers

    def at_once(self: TransactionMachine, prepared: Any, now_ms: int) -> Any:
        return [*write(self, prepared, now_ms), *self.marked(prepared, now_ms)]

    patch.setattr(TransactionMachine, "_write_markers", at_once)


def a_transaction_is_complete_after_its_first_marker(patch: Patch) -> None:
    def first(self: MarkerQueue, one: Any, partition: Any) -> bool:
        one.left.discard(partition)
        self._forget(one)
        return True

    patch.setattr(MarkerQueue, "_has_marker", first)


def an_abort_keeps_the_pending_offsets(patch: Patch) -> None:
    end = Shard.end_transaction
    patch.setattr(Shard, "end_transaction", lambda self, pid, committed, now_ms: end(self, pid, True, now_ms))


def the_producer_is_answered_before_the_decision_is_replicated(patch: Patch) -> None:
    keep = TransactionMachine._keep

    def responded(self: TransactionMachine, state: Any, respond: Any) -> Any:
        effects = keep(self, state, None)
        return effects if respond is None else [respond, *effects]

    patch.setattr(TransactionMachine, "_keep", responded)


def a_decided_transaction_is_not_completed_after_a_load(patch: Patch) -> None:
    patch.setattr(TransactionMachine, "loaded", lambda self, now_ms: [])


def readers_get_open_transactions(patch: Patch) -> None:
    def read(log: PartitionLog, offset: int, limit: int, *, at_least_one: bool) -> tuple[bytes, list[Aborted]]:
        return read_visible(log, offset, limit, at_least_one=at_least_one), []

    patch.setattr(running_fetch, "read_committed", read)


def a_consumer_delivers_aborted_records(patch: Patch) -> None:
    store = Position.store

    def all_of_it(position: Position, data: PartitionData, **how: bool) -> None:
        store(position, data, **{**how, "committed_only": False})

    patch.setattr(Position, "store", all_of_it)


def a_producer_commits_what_has_failed(patch: Patch) -> None:
    patch.setattr(Transactions, "failed", lambda transactions, code: None)


def partitions_are_not_added_to_the_transaction(patch: Patch) -> None:
    def taken_for_added(verification: TransactionVerification, part: PartOfTransaction) -> None:
        part.respond(ErrorCode.NONE)

    patch.setattr(TransactionVerification, "verify", taken_for_added)


def numbered_anew(self: PartitionQueue) -> list[ProducerBatch]:
    """Whatever is tried again has another number."""
    return [] if self.in_flight else [b for b in self.batches if b.sequence >= 0]


def sent_at_once(self: PartitionQueue, now_ms: float, most_in_flight: int) -> ProducerBatch | None:
    """No batch waits for one before it."""
    return next(self.not_in_flight(), None)
