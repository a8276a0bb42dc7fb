"""The transaction coordinator of a broker alone: `__transaction_state` is its log, markers go into the partitions of this
broker. In a cluster it is never loaded: `transaction_coordinator` is in its stead.

All on the event loop and within one turn: a transaction is decided (appended as prepared), its markers are written into
every partition, and its end is appended, before the producer receives its response; where the topics require an fsync, each of
these is on the disk before the next is written. After a crash what was decided is completed when the state is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.groups.lost_commits import log_skipped
from coterie.broker.process.clock import Clock
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import TRANSACTION_VERSION, Features
from coterie.broker.storage.replica_effects import ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition
from coterie.broker.storage.topics import Topics
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.producer_ids import FILE as PRODUCER_IDS
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.coordinator.transactions.state import (
    BUMPS_FROM,
    TopicPartition,
    Transaction,
    decode_transaction,
    transactional_id_of,
)
from coterie.coordinator.transactions.state_log import load_by_chunks, store_error, tombstone_batches
from coterie.coordinator.transactions.steps import TXN_OFFSET_COMMIT_V2_FROM, Claim, offsets_claim, restart_timeouts
from coterie.coordinator.transactions.verification import for_offsets, for_produce, needs_verification
from coterie.log.files.filesystem import FileSystem
from coterie.log.files.findings import Finding, UnreadableFile
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from coterie.wire.messages.transactions.write_txn_markers import WritableTxnMarker
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

COORDINATOR_EPOCH = 0


def loaded_producer_ids(fs: FileSystem, topics: Topics) -> ProducerIds:
    """The ids of the folder. Where their file cannot be read, or is not there as in a folder of Apache Kafka, they go on beyond
    every id in the logs. Raises OSError."""
    producer_ids = ProducerIds(fs)
    largest = max((i for log in topics.every_log() for i in log.producers.by_id), default=-1)
    try:
        if topics.in_cluster or producer_ids.next_block() > largest:
            return producer_ids
        problem = f"the logs have producer id {largest}, which it has not given away"
    except UnreadableFile as error:
        problem = error.problem
    is_there = fs.exists(PRODUCER_IDS)
    first = producer_ids.rebuild(largest)
    if is_there:
        topics.report(Finding(PRODUCER_IDS, None, problem, f"ids go on at {first}, beyond every id in the logs"))
    return producer_ids


class ProducerIdSource(Protocol):
    """Where producer ids come from: the folder of a broker alone, or the cluster."""

    def take(self) -> int:
        """A new id. Raises OSError, or Refusal."""


class TransactionCoordinator:
    """All transactional ids of the broker, and the `TransactionLog` of their machine."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        groups: GroupCoordinator,
        clock: Clock,
        producer_ids: ProducerIdSource,
        features: Features,
        effects: ReplicaEffects,
    ) -> None:
        self._topics, self._groups, self._clock = topics, groups, clock
        self._producer_ids, self._features, self._effects = producer_ids, features, effects
        self.machine = TransactionMachine(self, settings.current.transaction_max_timeout_ms)
        self._expiration_ms = settings.current.transactional_id_expiration_ms
        is_new = TRANSACTIONS_TOPIC not in topics.by_name and OFFSETS_TOPIC not in topics.by_name
        self.machine.loaded = is_new and not topics.in_cluster
        groups.transactions = self

    @property
    def by_id(self) -> dict[str, Transaction]:
        return self.machine.by_id

    @property
    def loaded(self) -> bool:
        return self.machine.loaded

    def load(self) -> None:
        """Reads what the log knows, to be called once the groups are loaded; completes what was decided, and drops what
        stayed pending in no transaction."""
        topic = self._topics.by_name.get(TRANSACTIONS_TOPIC)
        for partition in [] if topic is None else topic.partitions:
            for _ in load_by_chunks(partition.log, self._load, partial(log_skipped, partition)):
                pass
        restart_timeouts(self.by_id, self._clock.now_ms())
        self.machine.complete_prepared(self._clock.now_ms())
        self._groups.abort_orphans(self)
        self.machine.loaded = True

    def _load(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            if key is None:
                return
            if value is None:
                self.by_id.pop(transactional_id_of(key), None)
            else:
                stored = decode_transaction(key, value)
                self.by_id[stored.transactional_id] = stored
        except (WireError, ValueError) as error:
            logger.error("a record of %s cannot be read: %s", TRANSACTIONS_TOPIC, error)

    # -- requests -------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        return self.machine.init_producer_id(request, version, self._clock.now_ms())

    def add_partitions(
        self, transactional_id: str, claim: Claim, partitions: Iterable[TopicPartition], *, transaction_version: int = 0
    ) -> None:
        """``transaction_version`` as in `TransactionMachine.add_partitions`. Raises Refusal."""
        self.machine.add_partitions(
            transactional_id, claim, partitions, self._clock.now_ms(), transaction_version=transaction_version
        )

    def add_group(self, transactional_id: str, claim: Claim, group_id: str) -> None:
        """The group's offsets will be part of the transaction. Raises Refusal."""
        self.add_partitions(transactional_id, claim, [self._offsets_partition(group_id)])

    def _offsets_partition(self, group_id: str) -> TopicPartition:
        return OFFSETS_TOPIC, partition_for(group_id, len(self._topics.offsets_topic().partitions))

    def end(self, transactional_id: str, claim: Claim, committed: bool) -> None:
        """Raises Refusal."""
        self.machine.end(transactional_id, claim, committed, self._clock.now_ms())

    def end_with_bump(self, transactional_id: str, claim: Claim, committed: bool) -> tuple[int, int]:
        """The producer id and epoch of the next transaction. Raises Refusal."""
        return self.machine.end_with_bump(transactional_id, claim, committed, self._clock.now_ms())

    def check_ongoing(self, transactional_id: str, claim: Claim, partition: TopicPartition) -> None:
        """Raises Refusal where the producer has no ongoing transaction with the partition."""
        self.machine.verify(transactional_id, claim, partition)

    def verify_records(self, transactional_id: str, claim: Claim, partition: TopicPartition, *, adds: bool) -> None:
        """The same before records are written, with a producer's errors; with ``adds`` they add their partition. Raises
        Refusal."""
        try:
            self._add_or_check(transactional_id, claim, partition, adds)
        except Refusal as refusal:
            raise Refusal(for_produce(refusal.code, claim, adds=adds), refusal.message) from refusal

    def verify_offsets(self, request: TxnOffsetCommitRequest, version: int) -> None:
        """The offsets of a newer version add the group's partition to the transaction; for the others Refusal is raised
        where the producer has no ongoing transaction with it. What is open in the partition's log was verified before."""
        claim, partition = offsets_claim(request, version), self._offsets_partition(request.group_id)
        if not needs_verification(self._topics.partition(*partition).log, claim):
            return
        try:
            self._add_or_check(request.transactional_id, claim, partition, version >= TXN_OFFSET_COMMIT_V2_FROM)
        except Refusal as refusal:
            raise Refusal(for_offsets(refusal.code, claim), refusal.message) from refusal

    def _add_or_check(self, transactional_id: str, claim: Claim, partition: TopicPartition, adds: bool) -> None:
        if adds:
            self.add_partitions(transactional_id, claim, [partition], transaction_version=BUMPS_FROM)
        else:
            self.check_ongoing(transactional_id, claim, partition)

    def transaction(self, transactional_id: str) -> Transaction:
        """Raises Refusal for one that does not exist."""
        return self.machine.transaction(transactional_id)

    def every_transaction(self) -> Iterable[Transaction]:
        """Raises Refusal until all are loaded."""
        if not self.machine.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.by_id.values()

    def orphans(self, pending: Iterable[tuple[int, int]], partition: TopicPartition) -> list[tuple[int, int]]:
        return self.machine.orphans(pending, partition)

    def abort_timed_out(self) -> None:
        """Every transaction.abort.timed.out.transaction.cleanup.interval.ms; what a failing disk left prepared is tried
        again."""
        now_ms = self._clock.now_ms()
        self.machine.complete_prepared(now_ms)
        if self._groups.orphans_left:
            self._groups.abort_orphans(self)
        for aborted in self.machine.abort_timed_out(now_ms):
            logger.info(
                "aborted the transaction of %s: open for more than %d ms", aborted.transactional_id, aborted.timeout_ms
            )

    def remove_expired(self) -> None:
        """Every transaction.remove.expired.transaction.cleanup.interval.ms: the transactional ids that were not used for
        transactional.id.expiration.ms."""
        now_ms = self._clock.now_ms()
        expired: dict[int, list[Transaction]] = {}
        for transaction in self.machine.expired(now_ms, self._expiration_ms):
            expired.setdefault(self._partition_of(transaction).index, []).append(transaction)
        for index, transactions in expired.items():
            partition = self._topics.transactions_topic().partitions[index]
            max_bytes = partition.log.config.largest_batch_bytes
            for removed, batch in tombstone_batches(transactions, max_bytes, now_ms):
                with suppress(Refusal):  # of a disk that fails: the next time, then
                    self._append(partition, batch, now_ms)
                    self.machine.remove(removed)

    # -- the machine's log ------------------------------------------------------------------------------------------

    def new_producer_id(self) -> int:
        """Raises Refusal where the disk fails."""
        try:
            return self._producer_ids.take()
        except OSError as error:
            logger.error("no producer ids can be reserved: %s", error)
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def transaction_version(self) -> int:
        return self._features.level(TRANSACTION_VERSION)

    def keep(self, transaction: Transaction) -> None:
        """Raises Refusal where the disk fails."""
        record = (transaction.updated_ms, transaction.key(), transaction.value(self.transaction_version()), ())
        self._append(self._partition_of(transaction), encode_batch([record]), transaction.updated_ms)

    def _partition_of(self, transaction: Transaction) -> Partition:
        partitions = self._topics.transactions_topic().partitions
        return partitions[partition_for(transaction.transactional_id, len(partitions))]

    def _append(self, partition: Partition, batch: bytes, now_ms: int) -> None:
        """Raises Refusal."""
        try:
            self._effects.append(partition, lambda log: log.append_own(batch, now_ms), now_ms)
            partition.sync_if_due()
        except OSError as error:
            logger.error("%s cannot be written: %s", TRANSACTIONS_TOPIC, error)
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        except Refusal as refusal:
            raise Refusal(store_error(refusal.code)) from refusal
        partition.appended()

    def write_marker(self, partition: TopicPartition, prepared: Transaction) -> None:
        """A partition that is gone needs none. Raises Refusal where the disk fails."""
        who, version = (prepared.producer_id, prepared.epoch), prepared.client_transaction_version
        marker = WritableTxnMarker(*who, prepared.is_commit, [], COORDINATOR_EPOCH, version)
        self.write_marker_of(marker, partition)

    def write_marker_of(self, marker: WritableTxnMarker, partition: TopicPartition) -> None:
        """Writes a marker of this coordinator or another one. Raises Refusal also for a producer or a coordinator that
        is fenced."""
        name, index = partition
        if name == OFFSETS_TOPIC:
            self._groups.end_transaction(index, marker)
            return
        try:
            written = self._topics.partition(name, index)
        except Refusal:
            return
        now_ms = self._clock.now_ms()
        ended = (marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch)
        try:
            bumps_epoch = marker.transaction_version >= BUMPS_FROM
            batch = end_of_transaction(*ended, now_ms)
            self._effects.append(written, lambda log: log.append_own(batch, now_ms, bumps_epoch=bumps_epoch), now_ms)
            written.sync_if_due()
        except OSError as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        written.appended()
