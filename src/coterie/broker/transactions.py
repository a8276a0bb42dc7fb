"""The transaction coordinator's driver: `__transaction_state`, markers, timeouts.

All on the event loop and within one turn: a transaction is decided (appended as prepared), its markers are written into
every partition, and its end is appended, before the producer is answered. After a crash what was decided is completed
when the state is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from coterie.broker.clock import Clock
from coterie.broker.groups import GroupCoordinator
from coterie.broker.settings import BrokerSettings
from coterie.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topics
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.state import PREPARED, Status, TopicPartition, Transaction, decode_transaction
from coterie.coordinator.transactions.steps import (
    Claim,
    add_partitions,
    check_producer,
    complete,
    fence,
    init_producer,
    prepare_end,
    timed_out,
)
from coterie.records.batch import batches, decode_keys_and_values, encode_batch, end_of_transaction
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.write_txn_markers import WritableTxnMarker
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

COORDINATOR_EPOCH = 0
LOAD_BYTES = 1024 * 1024


class TransactionCoordinator:
    """All transactional ids of the broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        groups: GroupCoordinator,
        clock: Clock,
        new_id: Callable[[], int],
    ) -> None:
        self._topics, self._groups, self._clock, self._new_id = topics, groups, clock, new_id
        self._max_timeout_ms: int = settings["transaction.max.timeout.ms"]
        self.by_id: dict[str, Transaction] = {}
        self._loaded = TRANSACTIONS_TOPIC not in topics.by_name

    async def load(self) -> None:
        """Reads what the log knows, once the groups are there, and completes what was decided."""
        await self._groups.loaded()
        if TRANSACTIONS_TOPIC not in self._topics.by_name:
            return
        for partition in self._topics.by_name[TRANSACTIONS_TOPIC].partitions:
            offset = partition.log.log_start_offset
            while offset < partition.log.end_offset:
                data = partition.log.read(offset, LOAD_BYTES)
                for at, header in batches(data):
                    for key, value, _ in decode_keys_and_values(data, at, header):
                        self._load(key, value)
                    offset = header.last_offset + 1
        for transaction in list(self.by_id.values()):
            if transaction.status in PREPARED:
                self._complete(transaction)
        self._loaded = True

    def _load(self, key: bytes | None, value: bytes | None) -> None:
        try:
            if key is not None and value is not None:
                found = decode_transaction(key, value)
                self.by_id[found.transactional_id] = found
        except (WireError, ValueError) as error:
            logger.error("a record of %s cannot be read: %s", TRANSACTIONS_TOPIC, error)

    def _find(self, transactional_id: str) -> Transaction | None:
        """Raises Refusal until everything is loaded: what is not known yet is not new."""
        if not self._loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.by_id.get(transactional_id)

    # -- what producers ask ---------------------------------------------------------------------------------------------

    def init_producer(self, transactional_id: str, timeout_ms: int, claimed: tuple[int, int]) -> tuple[int, int]:
        """Producer id and epoch; an open transaction of the one before is aborted. Raises Refusal."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise Refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found = self._find(transactional_id)
        if found is not None and found.status == Status.ONGOING:
            if claimed[0] >= 0:
                check_producer(found, Claim(*claimed))
            found = self._end(fence(found, self._clock.now_ms()))
            claimed = (-1, -1)
        now_ms = self._clock.now_ms()
        new = init_producer(found, transactional_id, timeout_ms, claimed, self._new_id(), now_ms)
        self._keep(new)
        return new.producer_id, new.epoch

    def add_partitions(self, transactional_id: str, who: Claim, partitions: Iterable[TopicPartition]) -> None:
        """Raises Refusal."""
        found = check_producer(self._find(transactional_id), who)
        wanted = frozenset(partitions)
        if found.status != Status.ONGOING or not wanted <= found.partitions:
            self._keep(add_partitions(found, wanted, self._clock.now_ms()))

    def add_group(self, transactional_id: str, who: Claim, group_id: str) -> None:
        """The group's offsets will be part of the transaction. Raises Refusal."""
        count = len(self._topics.offsets_topic().partitions)
        self.add_partitions(transactional_id, who, [(OFFSETS_TOPIC, partition_for(group_id, count))])

    def end(self, transactional_id: str, who: Claim, committed: bool) -> None:
        """Raises Refusal."""
        found = check_producer(self._find(transactional_id), who)
        prepared = prepare_end(found, committed, self._clock.now_ms())
        if prepared is not found:
            self._end(prepared)

    def check_produce(self, transactional_id: str, who: Claim, partition: TopicPartition) -> None:
        """Whether the producer's transaction is open and has the partition (KIP-890). Raises Refusal."""
        found = check_producer(self._find(transactional_id), who)
        if found.status != Status.ONGOING or partition not in found.partitions:
            raise Refusal(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")

    def abort_timed_out(self) -> None:
        """Every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
        now_ms = self._clock.now_ms()
        for found in [t for t in self.by_id.values() if timed_out(t, now_ms)]:
            logger.info(
                "aborting the transaction of %s: open for more than %d ms", found.transactional_id, found.timeout_ms
            )
            self._end(fence(found, now_ms))

    # -- carrying it out ------------------------------------------------------------------------------------------------

    def _keep(self, new: Transaction) -> None:
        """Appends a state, then counts it. Raises Refusal where the disk fails."""
        topic = self._topics.transactions_topic()
        partition = topic.partitions[partition_for(new.transactional_id, len(topic.partitions))]
        try:
            partition.log.append_own(encode_batch([(new.updated_ms, new.key(), new.value(), ())]), new.updated_ms)
        except OSError as error:
            logger.error("%s cannot be written: %s", TRANSACTIONS_TOPIC, error)
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        partition.appended()
        self.by_id[new.transactional_id] = new

    def _end(self, prepared: Transaction) -> Transaction:
        self._keep(prepared)
        return self._complete(prepared)

    def _complete(self, prepared: Transaction) -> Transaction:
        committed = prepared.status == Status.PREPARE_COMMIT
        for name, index in sorted(prepared.partitions):
            self.write_marker(name, index, prepared.producer_id, prepared.epoch, committed)
        done = complete(prepared, self._clock.now_ms())
        self._keep(done)
        return done

    def write_marker(self, name: str, index: int, producer_id: int, epoch: int, committed: bool) -> None:
        """The end of a transaction, in one partition; one that is gone needs none. Raises Refusal where the disk fails."""
        now_ms = self._clock.now_ms()
        if name == OFFSETS_TOPIC:
            marker = WritableTxnMarker(producer_id, epoch, committed, [], COORDINATOR_EPOCH)
            self._groups.end_transaction(index, marker)
            return
        try:
            partition = self._topics.partition(name, index)
        except Refusal:
            return
        try:
            partition.log.append_own(
                end_of_transaction(producer_id, epoch, committed, COORDINATOR_EPOCH, now_ms), now_ms
            )
        except OSError as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        partition.appended()
