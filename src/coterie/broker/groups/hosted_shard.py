"""A shard of the group coordinator on the partition of `__consumer_offsets` that hosts it, and one timer for the deadlines of
all."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from coterie.broker.groups.journal_writer import CoordinatorElection
from coterie.broker.groups.lost_commits import Loss, losses_of
from coterie.broker.groups.unreplicated import UnreplicatedAssignments, UnreplicatedOffsets
from coterie.broker.process.scheduling import Clock, Scheduler, Timer
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import MAX_TURN_S
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import AppendToken, ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC, Partition
from coterie.coordinator.commands import Command
from coterie.coordinator.outcome import Reply
from coterie.coordinator.replay import OFFSET_EVENTS
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.write_queue import WriteQueue
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import ReplicaError
from coterie.wire.errors import ErrorCode, Refusal

logger = logging.getLogger(__name__)


# What a member receives for an append that failed, as Kafka's GroupMetadataManager.
_STORE_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}


def respond(replies: Sequence[Reply]) -> None:
    """Sends the responses of requests that wait."""
    for reply in replies:
        if isinstance(reply.token, Pending):
            reply.token.respond(reply.response)


@dataclass(frozen=True, slots=True)
class GroupReplication:
    """What appends to a partition with replicas need. ``timeout_ms``: offsets.commit.timeout.ms."""

    effects: ReplicaEffects
    flusher: Flusher
    scheduler: Scheduler
    timeout_ms: int


class UnreplicatedDecisions:
    """The decisions of one append until all replicas in sync have it. They are in force; their responses wait, and carry an
    error where the leader resigns, too few replicas are in sync, or ``timeout_ms`` passes: what they changed may then be
    there or not, as after a lost response. ``offsets``: those of the shard that readers do not get yet."""

    def __init__(self, shard: Shard, replication: GroupReplication, offsets: UnreplicatedOffsets) -> None:
        self._shard, self._replication, self._offsets = shard, replication, offsets
        self._decisions: list[Decision] = []
        self._result: ErrorCode | None = None
        self._timer: Timer | None = None
        self._is_synced, self._is_replicated = True, False
        self.token = AppendToken(self._decided)

    def after_sync(self, log: PartitionLog) -> None:
        """flush.messages requires an fsync: no response before it, with which this broker too has the append."""
        self._is_synced = False
        self._replication.flusher.after_sync(log, self._synced)

    def _synced(self) -> None:
        self._is_synced = True
        if self._is_replicated:
            self._decided(None)

    def add(self, decision: Decision) -> None:
        """A decision whose records are in the append."""
        if self._result is not None:
            self._respond(decision, self._result)
            return
        self._decisions.append(decision)
        if self._timer is None:
            self._timer = self._replication.scheduler.call_later(self._replication.timeout_ms / 1000, self._time_out)

    def _time_out(self) -> None:
        self._end(ErrorCode.REQUEST_TIMED_OUT)

    def _decided(self, error: ReplicaError | None) -> None:
        if error is None and not self._is_synced:
            self._is_replicated = True
            return
        self._offsets.ended(self)
        if self._result is None:
            self._end(ErrorCode.NONE if error is None else ErrorCode[error.name])

    def _end(self, result: ErrorCode) -> None:
        self._result = _STORE_ERRORS.get(result, result)
        if self._timer is not None:
            self._timer.cancel()
        decisions, self._decisions = self._decisions, []
        for decision in decisions:
            self._respond(decision, self._result)

    def _respond(self, decision: Decision, result: ErrorCode) -> None:
        replies = decision.outcome.replies
        if result != ErrorCode.NONE:
            replies = self._shard.append_failed(decision, result).outcome.replies
        respond(replies)


class HostedShard:
    """A shard with its partition of `__consumer_offsets`, the log of it, and the decisions that wait to be written there.
    ``unreplicated``: the decisions of the last append to a partition with replicas. ``losses``: what may be missing and nobody
    has accepted; its groups are not served then."""

    def __init__(
        self,
        shard: Shard,
        partition: Partition,
        committed: Callable[[HostedShard, Decision, list[Step]], None],
        replication: GroupReplication,
    ) -> None:
        self.partition = partition
        self._committed, self._replication = committed, replication
        self.unreplicated: UnreplicatedDecisions | None = None
        self.host(shard)
        self.loaded = False
        self.election: CoordinatorElection | None = None  # of this broker, in a cluster
        self.deleted_topics: set[tuple[str, bytes]] = set()  # with ids, during the load; their offsets go after it
        self.resigned = partition.in_cluster
        # Of the partition's leadership; an older load or unload is ignored.
        self.epoch = -1 if partition.in_cluster else 0

    def host(self, shard: Shard) -> None:
        """Takes the shard in, in the place of the one before."""
        self.shard, self.log = shard, OffsetsLog(self.partition.log)
        self.unreplicated_offsets = UnreplicatedOffsets()
        replication = self._replication
        self.assignments = UnreplicatedAssignments(
            self.partition, replication.scheduler, replication.timeout_ms, respond
        )
        self.loaded = self.resigned = False
        self.losses: list[Loss] = []
        self.queue = WriteQueue(shard, self._append, partial(self._committed, self), self.log.batch_bytes)

    def load_by_chunks(self) -> Iterator[int]:
        """Loads the shard; yields the number of records in each chunk. Raises OSError, Refusal."""
        return self.log.load_by_chunks(self.shard)

    def is_in_doubt(self, accepted: Collection[str]) -> bool:
        """After the load, and whenever ``accepted`` changes: whether commits may be missing, so that it is not served."""
        self.losses = losses_of(self.partition, self.log.skipped, accepted)
        self.loaded = not self.losses
        return not self.loaded

    def _append(self, decisions: list[Decision]) -> None:
        try:
            if self.partition.in_cluster:
                self._append_for_replicas(decisions)
            else:
                self._append_checked(decisions)
        except OSError as error:
            logger.error("%s-%d cannot be written: %s", OFFSETS_TOPIC, self.partition.index, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self.partition.appended()

    def _append_checked(self, decisions: list[Decision]) -> Appended:
        """The offsets of a transaction, which come alone, have a check (`VerifiedRequests.offsets`). Raises Refusal."""
        for reply in decisions[-1].outcome.replies:
            if isinstance(reply.token, Pending) and reply.token.check_append is not None:
                reply.token.check_append()
        return self.log.append(decisions)

    def _append_for_replicas(self, decisions: list[Decision]) -> None:
        """With acks=all, as Kafka's coordinator. Raises Refusal with the error for members."""
        waiting = UnreplicatedDecisions(self.shard, self._replication, self.unreplicated_offsets)
        try:
            _, effects = self.partition.append(
                lambda _: self._append_checked(decisions), waiting.token, decisions[-1].now_ms, acks_all=True
            )
        except Refusal as refusal:
            raise Refusal(_STORE_ERRORS.get(refusal.code, refusal.code), refusal.message) from refusal
        self.unreplicated = waiting
        if self.partition.sync_due():
            waiting.after_sync(self.partition.log)
        if any(not isinstance(event, OFFSET_EVENTS) for d in decisions for event in d.outcome.events):
            self.assignments.written()
        self.unreplicated_offsets.began(waiting, decisions)
        self._replication.effects.appended(self.partition, effects)


class DeadlineTimer:
    """Expires the deadlines of the shards in ``hosted``, a list that may grow: ``expire`` carries each command out."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        hosted: Sequence[HostedShard],
        expire: Callable[[HostedShard, Command], None],
    ) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._hosted, self._expire = hosted, expire
        self._timer: Timer | None = None
        self._due_ms = 0

    def arm(self, hosted: HostedShard) -> None:
        """Sets the timer where this shard's next deadline comes before the one that it is set for."""
        due_ms = hosted.shard.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        delay_ms = max(due_ms - self._clock.now_ms(), 0) + 1
        self._timer = self._scheduler.call_later(delay_ms / 1000, self.fire)

    def fire(self) -> None:
        """Expires deadlines for at most one turn; the next timer expires the others."""
        self._expire_until(self._scheduler.time() + MAX_TURN_S)

    def expire_all(self) -> None:
        """Expires every deadline that is due, however long that takes."""
        self.stop()
        self._expire_until(math.inf)

    def stop(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _expire_until(self, ends_s: float) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for hosted in self._hosted:
            due_ms = hosted.shard.next_deadline_ms()
            if not hosted.loaded or due_ms is None or due_ms > now_ms:
                continue
            with closing(hosted.shard.expired(now_ms)) as commands:
                for command in commands:
                    self._expire(hosted, command)
                    if self._scheduler.time() > ends_s:
                        break
        for hosted in self._hosted:
            self.arm(hosted)
