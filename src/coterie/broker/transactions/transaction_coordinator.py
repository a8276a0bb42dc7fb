"""The transaction coordinator of a broker: the partitions of `__transaction_state` that it leads, their states replicated, the
markers written by the leaders of the partitions. A broker alone leads them all, and writes the markers in the same turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.groups.lost_commits import log_skipped
from coterie.broker.groups.shard_loading import ShardLoading
from coterie.broker.process.scheduling import Clock, Scheduler, Timer
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import TRANSACTION_VERSION, Features
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topic import TRANSACTIONS_TOPIC, Partition, Topic, code_of
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.added_partitions import exists
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.machine import (
    KeepState,
    RemoveStates,
    TransactionCommand,
    TransactionEffect,
    TransactionMachine,
    TransactionResult,
    WriteMarkers,
)
from coterie.coordinator.transactions.marker_queue import RETRY_MS, MarkerQueue, MarkerRequest, codes_of
from coterie.coordinator.transactions.state import (
    BUMPS_FROM,
    Status,
    TopicPartition,
    Transaction,
    load_by_chunks,
    tombstone_batches,
)
from coterie.coordinator.transactions.steps import Claim, orphans
from coterie.records.encoding import encode_batch
from coterie.replication.states import ReplicaError
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.write_txn_markers import WriteTxnMarkersResponse
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

Responded = Callable[[TransactionResult], None]


class MarkerPeers(Protocol):
    """The leaders of the partitions that need markers."""

    def send(
        self, broker: int, message: Message, response: type[Message], version: int, responded: Callable[[Any], None]
    ) -> None:
        """``responded`` gets the response, or None where none came."""

    def view_changed(self) -> None:
        """Brokers have gone."""


class DeletedTopics(Protocol):
    """Which partitions there are still: a broker's view of its cluster may be older than a topic."""

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        """``done`` gets the topic's partitions, none for a topic that is deleted, or None where ZooKeeper cannot be reached."""


class OwnTopics:
    """The topics of a broker alone."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        known = self._topics.by_name.get(topic)
        done(set() if known is None else set(range(len(known.partitions))))


class HostedTransactions:
    """The states of one partition of `__transaction_state`, on the replica of this broker. ``epoch``: of the leadership, which
    markers carry as the epoch of their coordinator."""

    def __init__(self, partition: Partition, shard: TransactionMachine) -> None:
        self.partition, self.shard = partition, shard
        self.epoch = -1
        self.loaded = self.is_replicated = False
        self.resigned = True

    def load_by_chunks(self) -> Iterator[int]:
        """Loads the states; yields the number of records in each chunk. Raises OSError."""
        return load_by_chunks(self.partition.log, self._load, partial(log_skipped, self.partition))

    def _load(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            if key is not None:
                self.shard.load(key, value)
        except (WireError, ValueError) as error:
            logger.error("a record of %s cannot be read: %s", TRANSACTIONS_TOPIC, error)


class TransactionCoordinator:
    """``take_producer_id`` raises OSError or Refusal; of a broker in a cluster it is None until the broker has joined, which
    sets it, ``peers`` and ``deleted_topics``."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        view: ClusterView,
        clock: Clock,
        scheduler: Scheduler,
        features: Features,
        effects: ReplicaEffects,
        take_producer_id: Callable[[], int] | None = None,
    ) -> None:
        self._settings, self._topics, self._view = settings, topics, view
        self._clock, self._scheduler, self._features, self._effects = clock, scheduler, features, effects
        self.take_producer_id = take_producer_id
        self.peers: MarkerPeers | None = None
        self.deleted_topics: DeletedTopics = OwnTopics(topics)
        self._hosted: dict[int, HostedTransactions] = {}
        self._markers = MarkerQueue(self._leader_of)
        self._loading: ShardLoading[HostedTransactions] = ShardLoading(scheduler, self._loaded)
        self._retry: Timer | None = None
        self._looked_up: set[str] = set()

    # -- which partitions this broker coordinates -----------------------------------------------------------------------

    def start(self, loaded: Callable[[], None]) -> None:
        """Of a broker alone: loads all partitions, and calls ``loaded`` then. In a cluster `role_changed` has each loaded."""
        topic = self._topics.by_name.get(TRANSACTIONS_TOPIC)
        for partition in [] if topic is None else topic.partitions:
            self.role_changed(partition)
        self._loading.when_idle(loaded)

    @property
    def loaded(self) -> bool:
        """Whether the states of all partitions that this broker leads are known."""
        topic = self._topics.by_name.get(TRANSACTIONS_TOPIC)
        led = [] if topic is None else [partition for partition in topic.partitions if partition.is_led]
        return all(partition.index in self._hosted and self._hosted[partition.index].is_replicated for partition in led)

    def _lead_new(self) -> Topic:
        """The topic of a broker alone, created at first use: there is nothing to load. Raises Refusal."""
        topic = self._topics.transactions_topic()
        for partition in topic.partitions:
            hosted = self._hosted[partition.index] = HostedTransactions(partition, self._new_shard())
            self._elect(hosted)
            for _ in self._loading.load(hosted):
                pass
        return topic

    def role_changed(self, partition: Partition) -> None:
        """The broker leads or follows that partition of `__transaction_state`, or has no replica of it any more."""
        hosted = self._hosted.get(partition.index)
        if hosted is None or hosted.partition is not partition:
            hosted = self._hosted[partition.index] = HostedTransactions(partition, self._new_shard())
        if not partition.is_led:
            self._resign(hosted)
        elif hosted.resigned:
            self._elect(hosted)
            self._loading.add([hosted])
        else:
            hosted.epoch = self._epoch_of(partition)

    def _elect(self, hosted: HostedTransactions) -> None:
        hosted.shard, hosted.resigned, hosted.epoch = self._new_shard(), False, self._epoch_of(hosted.partition)

    def _epoch_of(self, partition: Partition) -> int:
        """Of a broker alone 0 for ever: its leader epoch may fall behind that of its markers when a power cut takes what was
        not synced, and no other coordinator is to be fenced."""
        return 0 if self._view.is_alone else partition.leader_epoch

    def _new_shard(self) -> TransactionMachine:
        own = self._settings.current
        return TransactionMachine(own.transaction_max_timeout_ms, self.new_producer_id, self.transaction_version)

    def _resign(self, hosted: HostedTransactions) -> None:
        hosted.resigned, hosted.loaded, hosted.is_replicated = True, False, False
        self._markers.drop(hosted.partition.index)
        self._act(hosted, hosted.shard.unload())

    def _loaded(self, hosted: HostedTransactions) -> None:
        """What this replica has is not yet what all in sync have: nothing is responded to or marked by it before, since another
        replica without its end may lead next. Apache Kafka does not wait."""
        shard, log, end_offset = hosted.shard, hosted.partition.log, hosted.partition.log.end_offset

        def moved() -> None:
            if hosted.shard is not shard or hosted.resigned:
                hosted.partition.watchers.pop(moved, None)
            elif log.high_watermark >= end_offset:
                hosted.partition.watchers.pop(moved, None)
                hosted.is_replicated = True
                self._act(hosted, shard.loaded(self._clock.now_ms()))

        hosted.partition.watchers[moved] = None
        moved()

    def _hosted_of(self, transactional_id: str) -> HostedTransactions:
        """Raises Refusal NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS."""
        topic = self._topics.by_name.get(TRANSACTIONS_TOPIC)
        if topic is None and self._view.is_alone:
            topic = self._lead_new()
        index = -1 if topic is None else partition_for(transactional_id, len(topic.partitions))
        hosted = self._hosted.get(index)
        if hosted is None or hosted.resigned:
            alone = self._view.is_alone  # it has not begun to load
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if alone else ErrorCode.NOT_COORDINATOR)
        if not hosted.is_replicated:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    # -- requests -------------------------------------------------------------------------------------------------------

    def submit(self, command: TransactionCommand, responded: Responded) -> None:
        """``responded`` is called once, perhaps before this returns."""
        try:
            if not command.transactional_id:
                raise Refusal(ErrorCode.INVALID_REQUEST)
            hosted = self._hosted_of(command.transactional_id)
        except Refusal as refusal:
            responded(TransactionResult(responded, refusal.code))
            return
        self._act(hosted, hosted.shard.submit(command, responded, self._clock.now_ms()))

    def check_ongoing(self, transactional_id: str, claim: Claim, partition: TopicPartition) -> None:
        """Raises Refusal where the producer has no ongoing transaction with the partition."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        self._hosted_of(transactional_id).shard.check_ongoing(transactional_id, claim, partition)

    def transaction(self, transactional_id: str) -> Transaction:
        """Raises Refusal for one that does not exist, and where another broker coordinates it."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        known = self._hosted_of(transactional_id).shard.by_id.get(transactional_id)
        if known is None:
            raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return known

    def every_transaction(self) -> Iterable[Transaction]:
        """The transactional ids that this broker coordinates. Raises Refusal COORDINATOR_LOAD_IN_PROGRESS."""
        if not self.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        led = [hosted for hosted in self._hosted.values() if not hosted.resigned]
        return [transaction for hosted in led for transaction in hosted.shard.by_id.values()]

    def orphans(self, pending: Iterable[tuple[int, int]], partition: TopicPartition) -> list[tuple[int, int]]:
        """As `steps.orphans`, of a broker alone, once all are loaded."""
        return orphans(self.every_transaction(), pending, partition)

    def new_producer_id(self) -> int:
        """Raises Refusal."""
        if self.take_producer_id is None:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            return self.take_producer_id()
        except OSError as error:
            logger.error("no producer ids can be reserved: %s", error)
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def transaction_version(self) -> int:
        """The finalized level."""
        return self._features.level(TRANSACTION_VERSION)

    def tick(self) -> None:
        """Aborts transactions past their timeout; every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
        now_ms = self._clock.now_ms()
        for hosted in [h for h in self._hosted.values() if h.is_replicated]:
            effects = hosted.shard.tick(now_ms)
            for effect in effects:
                if isinstance(effect, KeepState) and effect.transaction.status == Status.PREPARE_ABORT:
                    aborted = effect.transaction
                    text = "aborting the transaction of %s: open for more than %d ms"
                    logger.info(text, aborted.transactional_id, aborted.timeout_ms)
            self._act(hosted, effects)

    def remove_expired(self) -> None:
        """Removes ids that were not used for long; every transaction.remove.expired.transaction.cleanup.interval.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._settings.current.transactional_id_expiration_ms
        for hosted in [h for h in self._hosted.values() if h.is_replicated]:
            self._act(hosted, hosted.shard.remove_expired(now_ms, expiration_ms))

    # -- states ---------------------------------------------------------------------------------------------------------

    def _act(self, hosted: HostedTransactions, effects: Iterable[TransactionEffect]) -> None:
        for effect in effects:
            match effect:
                case TransactionResult(token):
                    assert callable(token), "a request without a way back"
                    token(effect)
                case KeepState(state):
                    self._append(hosted, state)
                case RemoveStates(expired):
                    self._remove(hosted, expired)
                case WriteMarkers(prepared):
                    self._markers.add(hosted.partition.index, hosted.epoch, prepared)
                    self.write_markers()

    def _append(self, hosted: HostedTransactions, state: Transaction) -> None:
        shard = hosted.shard
        record = (state.updated_ms, state.key(), state.value(self.transaction_version()), ())

        def kept(code: ErrorCode) -> None:
            self._act(hosted, shard.kept(state, code, self._clock.now_ms()))

        self._append_batch(hosted, encode_batch([record]), kept)

    def _remove(self, hosted: HostedTransactions, expired: tuple[Transaction, ...]) -> None:
        shard, max_bytes = hosted.shard, hosted.partition.log.config.largest_batch_bytes
        for removed, batch in tombstone_batches(expired, max_bytes, self._clock.now_ms()):
            self._append_batch(hosted, batch, partial(shard.removed, removed))

    def _append_batch(self, hosted: HostedTransactions, batch: bytes, kept: Callable[[ErrorCode], None]) -> None:
        """``kept`` gets the result, unless another load has begun before it."""
        partition, shard, now_ms = hosted.partition, hosted.shard, self._clock.now_ms()

        def ended(code: ErrorCode) -> None:
            if hosted.shard is shard:
                kept(code)

        def decided(error: ReplicaError | None) -> None:
            ended(ErrorCode.NONE if error is None else code_of(error))

        try:
            self._effects.append_step(partition, lambda log: log.append_own(batch, now_ms), now_ms, decided)
        except Refusal as refusal:
            ended(refusal.code)
        except OSError as error:
            logger.error("%s-%d cannot be written: %s", TRANSACTIONS_TOPIC, partition.index, error)
            ended(ErrorCode.KAFKA_STORAGE_ERROR)

    # -- markers --------------------------------------------------------------------------------------------------------

    def _leader_of(self, partition: TopicPartition) -> int | None:
        if self._view.is_alone:
            return self._view.node_id if exists(self._topics, partition) else None
        state = self._view.states.get(partition)
        if state is None:
            return None
        return state.leader if state.leader in self._view.live else -1

    def view_changed(self) -> None:
        """Leaders have moved, or topics are deleted."""
        if self.peers is not None:
            self.peers.view_changed()
        if self._markers:
            self.write_markers()

    def write_markers(self) -> None:
        """Sends what is due; tries again for as long as markers wait."""
        assert self.peers is not None, "a broker that leads a partition of transactions has joined its cluster"
        version = 2 if self.transaction_version() >= BUMPS_FROM else 0  # Kafka 2.6 knows version 0
        for request in self._markers.due(self._clock.now_ms()):
            responded = partial(self._marked, request)
            self.peers.send(request.broker, request.message(), WriteTxnMarkersResponse, version, responded)
        for topic in {topic for topic, _ in self._markers.unknown()} - self._looked_up:
            self._looked_up.add(topic)
            self.deleted_topics.look_up(topic, partial(self._looked, topic))
        if self._markers and self._retry is None:
            self._retry = self._scheduler.call_later(RETRY_MS / 1000, self._write_again)

    def _write_again(self) -> None:
        self._retry = None
        self.write_markers()

    def _marked(self, request: MarkerRequest, response: WriteTxnMarkersResponse | None) -> None:
        now_ms = self._clock.now_ms()
        if response is None:
            self._markers.failed(request, now_ms)
        else:
            for one in self._markers.responded(request, codes_of(response), now_ms):
                self._complete(one.owner, one.prepared)
        if self._markers:
            self.write_markers()

    def _looked(self, topic: str, partitions: set[int] | None) -> None:
        """ZooKeeper's response; a partition that it does not have is deleted."""
        self._looked_up.discard(topic)
        if partitions is None:
            return
        for unknown in [p for p in self._markers.unknown() if p[0] == topic and p[1] not in partitions]:
            for one in self._markers.deleted(unknown):
                self._complete(one.owner, one.prepared)

    def _complete(self, owner: int, prepared: Transaction) -> None:
        hosted = self._hosted[owner]
        if not hosted.resigned:
            self._act(hosted, hosted.shard.marked(prepared, self._clock.now_ms()))

    def close(self) -> None:
        """No request receives a response any more."""
        self._loading.stop()
        if self._retry is not None:
            self._retry.cancel()
