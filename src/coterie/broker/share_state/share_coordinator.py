"""The share coordinator's driver: the partitions of `__share_group_state` that this broker leads, their states loaded, and
changes appended before they are applied and their requests have responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from coterie.broker.groups.lost_commits import log_skipped
from coterie.broker.groups.shard_loading import ShardLoading
from coterie.broker.process.scheduling import Clock, Scheduler, Timer
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.share_state.state_requests import (
    STATE_REQUESTS,
    is_empty,
    refused_row,
    response_to,
    rows_of,
    unable_row,
)
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topic import Partition, Topic, code_of
from coterie.broker.storage.topics import Topics
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.share_state.share_shard import ShareShard
from coterie.coordinator.share_state.state import (
    SHARE_STATE_TOPIC,
    ShareChange,
    SharePartitionKey,
    from_bytes,
    to_bytes,
)
from coterie.coordinator.transactions.state import load_by_chunks, store_error
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records
from coterie.records.encoding import encode_batch
from coterie.replication.states import ReplicaError
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.delete_share_group_state import DeleteShareGroupStateRequest
from coterie.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from coterie.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from coterie.wire.messages.share.write_share_group_state import WriteShareGroupStateRequest
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

PRUNE_INTERVAL_MS = COLD_INTERVAL_MS = 300_000  # Kafka's defaults of two internal settings
Changes = Sequence[tuple[SharePartitionKey, ShareChange]]
Responded = Callable[[Message], None]


class HostedStates:
    """One partition of `__share_group_state`, with the states that its log has."""

    def __init__(self, partition: Partition, shard: ShareShard) -> None:
        self.partition, self.shard = partition, shard
        self.loaded, self.resigned = False, partition.in_cluster

    def load_by_chunks(self) -> Iterator[int]:
        """Loads the states; yields the number of records in each chunk. Raises OSError."""
        return load_by_chunks(self.partition.log, self._load, partial(log_skipped, self.partition))

    def _load(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            read = None if key is None else from_bytes(key, value)
        except WireError as error:
            logger.error("a record of %s cannot be read: %s", SHARE_STATE_TOPIC, error)
            return
        if read is not None:
            self.shard.replay(*read, offset)


class ShareCoordinator:
    """Serves the five requests of `STATE_REQUESTS` for the partitions of `__share_group_state` that this broker leads; a broker
    alone creates the topic at the first of them."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        clock: Clock,
        scheduler: Scheduler,
        flusher: Flusher,
        effects: ReplicaEffects,
    ) -> None:
        self._settings, self._topics, self._clock, self._scheduler = settings, topics, clock, scheduler
        self._flusher, self._effects = flusher, effects
        self._hosted: dict[int, HostedStates] = {}
        self._loading: ShardLoading[HostedStates] = ShardLoading(scheduler, self._loaded)

    # -- which partitions are here ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to load the states of a broker alone; in a cluster `role_changed` does."""
        topic = self._topics.by_name.get(SHARE_STATE_TOPIC)
        if topic is not None and not self._topics.in_cluster:
            self._loading.add(self._host(topic))

    def _host(self, topic: Topic) -> list[HostedStates]:
        new = [HostedStates(p, self._new_shard()) for p in topic.partitions[len(self._hosted) :]]
        self._hosted |= {hosted.partition.index: hosted for hosted in new}
        return new

    def _loaded(self, hosted: HostedStates) -> None:
        """A broker alone is elected after all leaders that have read a state: Apache Kafka may have had later epochs, which it
        does not write into a log without an append."""
        for key, epoch in hosted.shard.leader_epochs() if not self._topics.in_cluster else ():
            topic = self._topics.by_id.get(key.topic_id)
            if topic is not None and key.partition < len(topic.partitions):
                partition = topic.partitions[key.partition]
                if epoch > partition.leader_epoch:
                    partition.log.begin_epoch(epoch + 1)

    def _new_shard(self) -> ShareShard:
        return ShareShard(self._settings.share.share_coordinator_snapshot_update_records_per_snapshot)

    def role_changed(self, partition: Partition) -> None:
        """The broker leads or follows that partition of `__share_group_state`, or has no replica of it any more."""
        hosted = self._hosted.get(partition.index)
        if hosted is None or hosted.partition is not partition:
            hosted = self._hosted[partition.index] = HostedStates(partition, self._new_shard())
        if not partition.is_led:
            hosted.resigned, hosted.loaded = True, False
        elif hosted.resigned:
            hosted.shard, hosted.resigned = self._new_shard(), False
            self._loading.add([hosted])

    def _hosted_of(self, key: SharePartitionKey) -> HostedStates:
        """Raises Refusal NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS."""
        if not self._topics.in_cluster:
            topic: Topic | None = self._topics.coordinators_topic(SHARE_STATE_TOPIC)
            for hosted in self._host(topic) if topic is not None else ():
                hosted.loaded = True  # the topic is new
        else:
            topic = self._topics.by_name.get(SHARE_STATE_TOPIC)
        index = -1 if topic is None else partition_for(key.text(), len(topic.partitions))
        serving = self._hosted.get(index)
        if serving is None or serving.resigned:
            raise Refusal(ErrorCode.NOT_COORDINATOR)
        if not serving.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return serving

    # -- requests -----------------------------------------------------------------------------------------------------

    def submit(self, request: Any, responded: Responded) -> None:
        """``responded`` gets the response, perhaps before this returns: once all changes are in the log, and replicated."""
        finish(self.submitting(request, responded))

    def submitting(self, request: Any, responded: Responded) -> Generator[None, None, None]:
        """The same, with a step for each partition: work of some turns of the loop."""
        if is_empty(request):
            responded(STATE_REQUESTS[type(request)].response())
            return
        rows, results, left = list(rows_of(request)), dict[SharePartitionKey, Any](), [0]
        left[0] = len(rows)

        def done(key: SharePartitionKey, result: Any) -> None:
            results[key] = result
            left[0] -= 1
            if not left[0]:
                responded(response_to(request, results))

        for key, row in rows:
            self._submit_one(request, key, row, partial(done, key))
            yield

    def _submit_one(self, request: Any, key: SharePartitionKey, row: Any, done: Callable[[Any], None]) -> None:
        try:
            hosted = self._hosted_of(key)
        except Refusal as refusal:
            done(unable_row(request, key, refusal.code, refusal.code))
            return
        try:
            result, changes = self._decide(hosted.shard, request, key, row)
        except Refusal as refusal:
            done(refused_row(request, key, refusal))
            return

        def ended(code: ErrorCode) -> None:
            done(result if code == ErrorCode.NONE else unable_row(request, key, store_error(code), code))

        if changes:
            self._append(hosted, changes, ended)
        else:
            done(result)

    def _decide(self, shard: ShareShard, request: Any, key: SharePartitionKey, row: Any) -> tuple[Any, Changes]:
        """The row of the response, and the changes to append. Raises Refusal."""
        now_ms, partitions = self._clock.now_ms(), self._partitions_of(key.topic_id)
        result = STATE_REQUESTS[type(request)].row(key.partition)
        match request:
            case InitializeShareGroupStateRequest():
                change = shard.initialize(key, row.state_epoch, row.start_offset, partitions, now_ms)
                return result, [(key, change)]
            case WriteShareGroupStateRequest():
                return result, [(key, shard.write(key, row, partitions, now_ms))]
            case ReadShareGroupStateRequest():
                read, taken = shard.read(key, row.leader_epoch, partitions, now_ms)
                return read, [] if taken is None else [(key, taken)]
            case DeleteShareGroupStateRequest():
                return result, [(key, None)] if shard.delete(key, partitions) else []
            case _:
                return shard.summary(key, partitions), []

    def _partitions_of(self, topic_id: bytes) -> int | None:
        name = self._topics.name_of("", topic_id, True)
        return None if name is None else len(self._topics.by_name[name].partitions)

    # -- the log ------------------------------------------------------------------------------------------------------

    def _append(self, hosted: HostedStates, changes: Changes, ended: Callable[[ErrorCode], None]) -> None:
        """Appends the changes as one batch and applies them; ``ended`` is called once, when the batch is where it must be."""
        partition, now_ms = hosted.partition, self._clock.now_ms()
        batch = encode_batch([(now_ms, *to_bytes(key, change), ()) for key, change in changes])
        waiting = _Waiting(ended)

        def work(log: PartitionLog) -> Appended:
            return log.append_own(batch, now_ms)

        try:
            appended = self._effects.append(partition, work, now_ms, waiting.decided)
        except Refusal as refusal:
            waiting.end(refusal.code)
            return
        except OSError as error:
            logger.error("%s-%d cannot be written: %s", SHARE_STATE_TOPIC, partition.index, error)
            waiting.end(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        for offset, (key, change) in enumerate(changes, appended.base_offset):
            hosted.shard.replay(key, change, offset)
        partition.appended()
        if partition.in_cluster:
            waiting.end_after(self._scheduler, self._settings.share.share_coordinator_write_timeout_ms)
        elif partition.sync_due():
            self._flusher.after_sync(partition.log, lambda: waiting.end(ErrorCode.NONE))
        else:
            waiting.end(ErrorCode.NONE)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    def topics_deleted(self, topics: Iterable[Topic]) -> None:
        """The states of deleted topics get tombstones."""
        ids = {topic.topic_id for topic in topics}
        for hosted in [hosted for hosted in self._hosted.values() if hosted.loaded]:
            gone = hosted.shard.of_topics(ids)
            if gone:
                self._append(hosted, [(key, None) for key in gone], lambda code: None)

    def snapshot_cold(self) -> None:
        """Snapshots of states that are not written any more; every share.coordinator.cold.partition.snapshot.interval.ms."""
        now_ms = self._clock.now_ms()
        for hosted in [hosted for hosted in self._hosted.values() if hosted.loaded]:
            cold = hosted.shard.cold(now_ms, COLD_INTERVAL_MS)
            if cold:
                self._append(hosted, cold, lambda code: None)

    def prune(self) -> None:
        """Moves the start of each log up to where its first needed record is; every
        share.coordinator.state.topic.prune.interval.ms. A log that cannot be cut holds up no other. Raises OSError where the
        starts of logs cannot be kept."""
        for hosted in [hosted for hosted in self._hosted.values() if hosted.loaded]:
            before = hosted.shard.redundant_before()
            log = hosted.partition.log
            try:
                if before is not None and log.log_start_offset < min(before, log.high_watermark):
                    delete_records(log, min(before, log.high_watermark))
            except OSError as error:
                logger.error("%s-%d cannot be pruned: %s", SHARE_STATE_TOPIC, hosted.partition.index, error)
        self._topics.save_start_offsets()

    def close(self) -> None:
        """Nothing more is loaded."""
        self._loading.stop()


class _Waiting:
    """A response that waits for replicas, or for a sync."""

    def __init__(self, ended: Callable[[ErrorCode], None]) -> None:
        self._ended: Callable[[ErrorCode], None] | None = ended
        self._timer: Timer | None = None

    def decided(self, error: ReplicaError | None) -> None:
        """All replicas in sync have the batch, or will not have it."""
        self.end(ErrorCode.NONE if error is None else code_of(error))

    def end(self, code: ErrorCode) -> None:
        """Only the first call counts."""
        ended, self._ended = self._ended, None
        if self._timer is not None:
            self._timer.cancel()
        if ended is not None:
            ended(code)

    def end_after(self, scheduler: Scheduler, timeout_ms: int) -> None:
        """With REQUEST_TIMED_OUT, where nothing has ended it by then."""
        if self._ended is not None:
            self._timer = scheduler.call_later(timeout_ms / 1000, lambda: self.end(ErrorCode.REQUEST_TIMED_OUT))
