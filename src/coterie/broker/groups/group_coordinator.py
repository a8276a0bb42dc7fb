"""The group coordinator's driver: the decisions of the shards become records, fsyncs, responses and lines of the journal.

Theory: a shard is a function; it has no clock, no log and no client. This driver adds the time, a fresh member id and an
image of the topics to a command, and does with each committed decision what its partition calls for: the responses leave
now, after an fsync, or once the replicas have the records. Kafka has a lock for each group and a purgatory for each kind of
waiting request. Here everything runs on one loop, so that a group needs no lock, and a waiting request is a token in the
group's state.

Rule: decisions of one turn of the loop share a batch for each shard. Therefore nothing reads a group past the shard's queue:
`group` and `groups` write first, and so does what appends by itself (`end_transaction`) or unloads (`resign`). A response
leaves by `_committed` alone, or at the unload. After every command the deadlines are armed again: it may have brought the
earliest one forward.

What is ugly: `_committed` has four ways out, by where the records must be before the response. The marker of a transaction
is appended beside the queue, which must be empty for it. `orphans_left` is a flag that the transaction coordinator looks at,
since only both together know which offsets have no transaction. A broker alone creates `__consumer_offsets` with the first
request (`ready`), so that even a look at a group may write to the disk.

`shard_hosting` has which partitions are here; `hosted_shard` is one of them with its log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from coterie.broker.groups.hosted_shard import DeadlineTimer, GroupReplication, HostedShard, respond
from coterie.broker.groups.journal_writer import JournalWriter, moved_lines
from coterie.broker.groups.lost_commits import log_losses
from coterie.broker.groups.shard_hosting import OpenTransactions, ShardHosting
from coterie.broker.groups.topics_view import TopicCreations, TopicsView, resolving
from coterie.broker.process.scheduling import Clock, Scheduler
from coterie.broker.requests.pending import MayDescribe, Pending
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import Decided, ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC, Topic
from coterie.broker.storage.topics import Topics
from coterie.coordinator.commands import (
    Command,
    DeadlineExpired,
    ExpireOffsets,
    RegexesResolved,
    StatesInitialized,
    TopicsDeleted,
)
from coterie.coordinator.offsets.delete import has_offsets_of
from coterie.coordinator.outcome import Context
from coterie.coordinator.refusals import refuse
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.share.decide import SHARE_COMMANDS
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import CommittedOffset, TopicPartition
from coterie.coordinator.transactions.state import BUMPS_FROM
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.write_txn_markers import WritableTxnMarker

_WITH_TOPICS = (ConsumerGroupHeartbeatRequest, StreamsGroupHeartbeatRequest, *SHARE_COMMANDS)
logger = logging.getLogger(__name__)


class GroupCoordinator(ShardHosting):
    """All groups of the broker. Each shard is hosted with its partition: the driver appends, fsyncs and sends responses."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        clock: Clock,
        scheduler: Scheduler,
        flusher: Flusher,
        effects: ReplicaEffects,
        new_member_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        replication = GroupReplication(effects, flusher, scheduler, settings.current.offsets_commit_timeout_ms)
        super().__init__(settings, topics, clock, scheduler, replication)
        self._scheduler, self._flusher, self._effects = scheduler, flusher, effects
        self._new_member_id = new_member_id
        self.topics_view = TopicsView(topics, clock)
        self.topic_creations = TopicCreations()
        self.orphans_left = False  # a failing disk kept them from being aborted
        self.journal = JournalWriter(topics, scheduler, effects, settings.current.coterie_journal_enable)
        # Sends a request to the share coordinators of its partitions; set by the node.
        self.persist: Callable[[Any, Callable[[Any], None]], None] = lambda request, responded: None
        self._writing: dict[HostedShard, None] = {}  # with decisions that wait for the end of the turn
        self._deadlines = DeadlineTimer(scheduler, clock, self._hosted, self._carry_out)

    def settings_changed(self) -> None:
        """Puts the broker's altered settings in force; `configure` follows for each group with settings of its own."""
        broker = self._settings.current
        self.config.group_consumer_assignment_interval_ms = broker.group_consumer_assignment_interval_ms
        self.config.group_share_assignment_interval_ms = self._settings.share.group_share_assignment_interval_ms
        self.config.group_streams_assignment_interval_ms = self._settings.streams.group_streams_assignment_interval_ms
        for hosted in [hosted for hosted in self._hosted if hosted.losses]:
            if not hosted.is_in_doubt(broker.coterie_offsets_losses_accepted):
                self._shard_loaded(hosted)

    def _load_ended(self, hosted: HostedShard) -> None:
        accepted = self._settings.current.coterie_offsets_losses_accepted
        if hosted.is_in_doubt(accepted):
            log_losses(hosted.partition, hosted.losses, accepted)
        else:
            self._shard_loaded(hosted)

    def _shard_loaded(self, hosted: HostedShard) -> None:
        """Starts the sessions of the shard's members, and does what waited for its load."""
        hosted.assignments.written()
        if hosted.election is not None:
            self.journal.add(moved_lines(hosted.shard, hosted.election, self._clock.now_ms()))
        for group in hosted.shard.every_group():
            self.journal.loaded(group)
        for decision in hosted.shard.loaded(self._clock.now_ms()):
            hosted.queue.carry_out(decision)
        hosted.queue.write()
        if self.transactions is not None and self.transactions.loaded:
            self._abort_orphans(hosted, self.transactions)
        if hosted.deleted_topics:
            topics, hosted.deleted_topics = tuple(hosted.deleted_topics), set()
            self._forget_offsets(hosted, topics)
        self._deadlines.arm(hosted)

    def group(self, group_id: str) -> AnyGroup | None:
        """The group, of either protocol. Raises Refusal while its partition is loading."""
        hosted = self._shard_of(group_id)
        if hosted.queue.has(group_id):
            hosted.queue.write()
        return hosted.shard.group(group_id)

    def unreplicated_offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset | None]:
        """As `UnreplicatedOffsets.of_group`. Raises Refusal."""
        return self._shard_of(group_id).unreplicated_offsets.of_group(group_id)

    def groups(self) -> Iterator[AnyGroup]:
        """Every group of the loaded partitions. Raises Refusal while one is loading."""
        self._write()
        for hosted in self._hosted:
            if not hosted.loaded and not hosted.resigned and not hosted.losses:
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield from hosted.shard.every_group()

    def loaded_groups(self) -> Iterator[AnyGroup]:
        """Every group of the partitions that are loaded now."""
        self._write()
        return (group for hosted in self._hosted if hosted.loaded for group in hosted.shard.every_group())

    def submit(self, command: Command, token: Pending, version: int, client_id: str, client_host: str) -> None:
        """Carries a command out and responds to ``token``, with a refusal where the group's partition is not loaded."""
        try:
            hosted = self._shard_of(command.group_id)
        except Refusal as refusal:
            token.respond(refuse(command, refusal.code))
            return
        ctx = Context(self._clock.now_ms(), token, "", version, client_id, client_host)
        if hosted.shard.modern_groups or isinstance(command, _WITH_TOPICS):
            ctx.topics = self.topics_view.image()
        if getattr(command, "member_id", None) == "":
            ctx.fresh_id = self._new_member_id()
        if not hosted.queue.execute(command, ctx):
            self._deadlines.arm(hosted)
        elif hosted not in self._writing:
            if not self._writing:
                self._scheduler.call_soon(self._write)
            self._writing[hosted] = None

    def _write(self) -> None:
        """Writes what was decided since the last call: once for each turn of the loop, a batch for each shard."""
        writing, self._writing = self._writing, {}
        for hosted in writing:
            hosted.queue.write()
            self._deadlines.arm(hosted)

    def _committed(self, hosted: HostedShard, decision: Decision, steps: list[Step]) -> None:
        if steps:
            self.journal.record(decision, steps)
        outcome = decision.outcome
        if outcome.resolve:
            shown = next((r.token.may_describe for r in outcome.replies if isinstance(r.token, Pending)), None)
            self._resolve(decision.group.group_id, outcome.resolve, shown)
        if outcome.initialize is not None:
            self._initialize(outcome.initialize)
        if outcome.internal_topics:
            for reply in outcome.replies:
                if isinstance(reply.token, Pending):
                    reply.token.internal_topics = outcome.internal_topics
        if not decision.records:
            in_cluster = hosted.partition.in_cluster
            respond(hosted.assignments.awaiting_response(outcome.replies) if in_cluster else outcome.replies)
        elif hosted.unreplicated is not None:
            hosted.unreplicated.add(decision)
        elif hosted.partition.sync_due():
            self._flusher.after_sync(hosted.partition.log, lambda: respond(outcome.replies))
        else:
            respond(outcome.replies)

    def _initialize(self, request: InitializeShareGroupStateRequest) -> None:
        """Has the share coordinator initialize states of a share group, and submits the result to the group."""

        def responded(response: Any) -> None:
            rows = [(topic.topic_id, row) for topic in response.results for row in topic.partitions]
            partitions: dict[bytes, set[int]] = {}
            for topic_id, row in rows:
                partitions.setdefault(topic_id, set()).add(row.partition)
            numbers = {topic_id: frozenset(of_topic) for topic_id, of_topic in partitions.items()}
            succeeded = not any(row.error_code for _, row in rows)
            self._submit_own(StatesInitialized(request.group_id, numbers, succeeded))

        self._scheduler.call_soon(lambda: self.persist(request, responded))

    def _resolve(self, group_id: str, patterns: frozenset[str], may_describe: MayDescribe | None) -> None:
        """Looks up the topics of a group's regular expressions, a step at a time, and submits them to the group:
        with an authorizer the ones that the member may describe."""
        image = self.topics_view.image()
        steps = resolving(patterns, image)

        def step() -> None:
            try:
                next(steps)
            except StopIteration as end:
                topics: dict[str, frozenset[str]] = end.value
                if may_describe is not None:
                    topics = {regex: frozenset(filter(may_describe, names)) for regex, names in topics.items()}
                self._submit_own(RegexesResolved(group_id, topics, image.version))
            else:
                self._scheduler.call_soon(step)

        self._scheduler.call_soon(step)

    def _submit_own(self, command: Command) -> None:
        """Carries out a command of the broker's own; nothing where the group's partition is not here any more."""
        with suppress(Refusal):
            hosted = self._shard_of(command.group_id)
            self._carry_out(hosted, command)
            self._deadlines.arm(hosted)

    def _carry_out(self, hosted: HostedShard, command: Command) -> None:
        """A command of the broker's own, written at once."""
        hosted.queue.execute(command, self._own_context(hosted))
        hosted.queue.write()

    def _own_context(self, hosted: HostedShard) -> Context:
        now_ms = self._clock.now_ms()
        return Context(now_ms, topics=self.topics_view.image()) if hosted.shard.modern_groups else Context(now_ms)

    def end_transaction(self, index: int, marker: WritableTxnMarker, replicated: Decided | None = None) -> None:
        """Appends a transaction's marker to a partition of `__consumer_offsets` and settles its groups. ``replicated`` as in
        `ReplicaEffects.append_step`. Raises Refusal."""
        self.ready()
        if not 0 <= index < len(self._hosted):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        hosted, now_ms = self._hosted[index], self._clock.now_ms()
        if not hosted.loaded and not hosted.losses:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        committed = marker.transaction_result
        hosted.queue.write()
        try:
            ended = (marker.producer_id, marker.producer_epoch, committed, marker.coordinator_epoch, now_ms)
            bumps_epoch = marker.transaction_version >= BUMPS_FROM
            self._effects.append(
                hosted.partition,
                lambda log: hosted.log.append_marker(*ended, bumps_epoch=bumps_epoch),
                now_ms,
                replicated,
            )
            hosted.partition.sync_if_due()
        except OSError as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        hosted.shard.end_transaction(marker.producer_id, committed, now_ms)
        hosted.partition.appended()
        if replicated is not None and not hosted.partition.in_cluster:
            replicated(None)

    def abort_orphans(self, transactions: OpenTransactions) -> None:
        """Aborts offsets that are pending without an open transaction, which would stay pending for ever; to be called once
        both coordinators are loaded."""
        self.orphans_left = False
        for hosted in [h for h in self._hosted if h.loaded]:
            self._abort_orphans(hosted, transactions)

    def _abort_orphans(self, hosted: HostedShard, transactions: OpenTransactions) -> None:
        index = hosted.partition.index
        for producer_id, epoch in transactions.orphans(hosted.shard.pending_producers(), (OFFSETS_TOPIC, index)):
            logger.warning(
                "%s-%d: dropping offsets of producer %d, which has no open transaction",
                OFFSETS_TOPIC,
                index,
                producer_id,
            )
            try:
                self.end_transaction(index, WritableTxnMarker(producer_id, epoch, False))
            except Refusal as refusal:
                logger.error("%s-%d cannot be written: %s", OFFSETS_TOPIC, index, refusal)
                self.orphans_left = True

    def expire_member(self, group_id: str, member_id: str) -> None:
        """Ends a member's session now, as its timeout would. Raises Refusal."""
        hosted = self._shard_of(group_id)
        self._carry_out(hosted, DeadlineExpired(group_id, member_id, at_once=True))
        self._deadlines.arm(hosted)

    def time_jumped(self) -> None:
        """The clock was moved: every deadline that is now due expires."""
        self._deadlines.expire_all()

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """Removes offsets that are past their retention; every offsets.retention.check.interval.ms."""
        for hosted in [h for h in self._hosted if h.loaded]:  # during a load the newest commit may still be unread
            self._for_groups(hosted, [g.group_id for g in hosted.shard.every_group()], ExpireOffsets)

    def topics_deleted(self, topics: Iterable[Topic]) -> None:
        """Removes the committed offsets of deleted topics; in a partition that loads, once it has loaded."""
        deleted = tuple((topic.name, topic.topic_id) for topic in topics)
        for hosted in self._hosted:
            if hosted.loaded:
                self._forget_offsets(hosted, deleted)
            else:
                hosted.deleted_topics.update(deleted)

    def _forget_offsets(self, hosted: HostedShard, topics: tuple[tuple[str, bytes], ...]) -> None:
        names = {name for name, _ in topics}
        concerned = [g.group_id for g in hosted.shard.every_group() if has_offsets_of(g, names)]
        concerned += hosted.shard.of_kind(ShareGroup)
        self._for_groups(hosted, concerned, lambda group_id: TopicsDeleted(group_id, topics))

    def _for_groups(self, hosted: HostedShard, group_ids: Iterable[str], command: Callable[[str], Command]) -> None:
        for group_id in group_ids:
            self._carry_out(hosted, command(group_id))

    def close(self) -> None:
        """Answers every waiting request with NOT_COORDINATOR and writes the journal."""
        self._deadlines.stop()
        self._loading.stop()
        self._write()
        for hosted in self._hosted:
            respond(hosted.shard.unload())
            hosted.assignments.resign()
        self.journal.write()
