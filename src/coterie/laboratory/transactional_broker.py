"""The laboratory's broker with a transaction coordinator beside its groups: the real machine over a real log, on the same
failing disk. It dies also between a decision, its markers and its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored import to_record
from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.coordinator.transactions.state import TopicPartition, Transaction, decode_transaction
from coterie.coordinator.transactions.state_log import load_by_chunks
from coterie.coordinator.transactions.steps import END_TXN_V2_FROM, Claim
from coterie.laboratory.broker_actor import Answer, BrokerActor, BrokerCommand, Died, Durability
from coterie.laboratory.scenario_transactions import verify_or_add
from coterie.laboratory.transaction_checker import OFFSETS_PARTITION, TransactionChecker
from coterie.laboratory.world import World
from coterie.log.chunks import SkippedBatch
from coterie.log.config import LogConfig
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

MAX_TIMEOUT_MS = 900_000
UPKEEP_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
INIT_VERSION = 5
BACK_AFTER_MS = 1_000

_decoded = lru_cache(maxsize=10_000)(decode_transaction)  # each start reads the same records, and more


class TransactionalBroker(BrokerActor):
    """``dies_after_writes``: in so many appends of the transaction coordinator; 0 for never."""

    def __init__(self, world: World, config: CoordinatorConfig, durability: Durability) -> None:
        self.checker = TransactionChecker(certain=durability != Durability.LYING)
        self.dies_after_writes = 0
        self.finalized = 2  # the level of transaction.version
        self.features_epoch = 0
        self._accepted = False
        super().__init__(world, config, {}, durability)

    def start(self) -> None:
        try:
            super().start()
        except Died:
            self.crash()
            self.world.after(BACK_AFTER_MS, self.restart)

    def _skipped(self, batch: SkippedBatch) -> None:
        raise AssertionError(str(batch))

    def _new_shard(self) -> Shard:
        return Shard(self.config, self._verify)

    def _verify(self, request: TxnOffsetCommitRequest, version: int) -> None:
        verify_or_add(self.machine, request, version, self.now_ms())

    def _recover(self) -> None:
        """In the real broker's order: groups, transactions, what was decided, what belongs to no transaction."""
        self._transaction_log = PartitionLog.open(self.fs, "__transaction_state-0", LogConfig(), clean=False)
        self._producer_ids = ProducerIds(self.fs)
        self.machine = TransactionMachine(self, MAX_TIMEOUT_MS)
        for _ in load_by_chunks(self._transaction_log, self._load_transaction, self._skipped):
            pass
        self.checker.reloaded(self.machine.by_id)
        self.failing_appends = 0  # the disk works while it is loaded
        self.machine.complete_prepared(self.now_ms())
        for producer_id, epoch in self.machine.orphans(self.shard.pending_producers(), OFFSETS_PARTITION):
            self._before_write()
            self._write_marker(producer_id, epoch, False)
        self.machine.loaded = True
        self.checker.check(self.shard)
        self._upkeep_later(self.incarnation)

    def _load_transaction(self, key: bytes | None, value: bytes | None) -> None:
        assert key is not None
        assert value is not None
        stored = _decoded(key, value)
        self.machine.by_id[stored.transactional_id] = stored

    def _upkeep_later(self, incarnation: int) -> None:
        def upkeep() -> None:
            if not self.up or self.incarnation != incarnation:
                return
            try:
                self.machine.complete_prepared(self.now_ms())
                self.machine.abort_timed_out(self.now_ms())
            except Died:
                self._die()
                return
            self.checker.check(self.shard)
            self._upkeep_later(incarnation)

        self.world.after(UPKEEP_MS, upkeep)

    def _die(self) -> None:
        self.crash()
        self.world.after(self.world.between(100, 5_000), self.restart)

    # -- requests -------------------------------------------------------------------------------------------------

    def submit(self, command: BrokerCommand, ctx: Context, answer: Answer) -> None:
        """Offsets of version 2 write to the transaction coordinator's log before they are decided about."""
        try:
            super().submit(command, ctx, answer)
        except Died:
            self._die()

    def transact(self, request: Message, version: int, answer: Answer) -> None:
        """Carries out a producer's command other than TxnOffsetCommit."""
        self.requests += 1
        try:
            response = self._transact(request, version)
        except Died:
            self._die()
            return
        self.checker.check(self.shard)
        answer(response)

    def _transact(self, request: Message, version: int) -> Message:
        now_ms = self.now_ms()
        match request:
            case InitProducerIdRequest():
                response = self.machine.init_producer_id(request, INIT_VERSION, now_ms)
                self.checker.initialized(request, response)
                return response
            case AddOffsetsToTxnRequest():
                claim = Claim(request.producer_id, request.producer_epoch)
                try:
                    self.machine.add_partitions(request.transactional_id, claim, [OFFSETS_PARTITION], now_ms)
                except Refusal as refusal:
                    return AddOffsetsToTxnResponse(error_code=refusal.code)
                return AddOffsetsToTxnResponse()
            case EndTxnRequest():
                claim = Claim(request.producer_id, request.producer_epoch)
                try:
                    if version >= END_TXN_V2_FROM:
                        return self._end_with_bump(request, claim)
                    self.machine.end(request.transactional_id, claim, request.committed, now_ms)
                except Refusal as refusal:
                    return EndTxnResponse(error_code=refusal.code)
                return EndTxnResponse()
            case _:
                raise AssertionError(f"{request} is not for the transaction coordinator")

    def _end_with_bump(self, request: EndTxnRequest, claim: Claim) -> EndTxnResponse:
        """Raises Refusal."""
        who = self.machine.end_with_bump(request.transactional_id, claim, request.committed, self.now_ms())
        return EndTxnResponse(producer_id=who[0], producer_epoch=who[1])

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        if decision.outcome.producer is not None and decision.outcome.events:
            self.checker.accepted(decision.outcome.producer, decision.outcome.events)
            self._accepted = True
        super()._committed(decision, steps)

    def _carry_out(self, *actions: Callable[[], object]) -> bool:
        self._accepted = False
        alive = super()._carry_out(*actions)
        if alive and self._accepted:
            self.checker.check(self.shard)
        return alive

    # -- the machine's log ------------------------------------------------------------------------------------------

    def new_producer_id(self) -> int:
        return self._producer_ids.take()

    def keep(self, transaction: Transaction) -> None:
        """Appends the transaction's state to its log, durably."""
        self._before_write()
        record = (transaction.updated_ms, transaction.key(), transaction.value(self.transaction_version()), ())
        self._transaction_log.append_own(encode_batch([record]), transaction.updated_ms)
        self._durable(self._transaction_log)
        self.checker.kept(transaction)

    def finalize(self, transaction_version: int) -> None:
        """UpdateFeatures: kept over every crash."""
        self.finalized = transaction_version
        self.features_epoch += 1

    def transaction_version(self) -> int:
        return self.finalized

    def write_marker(self, partition: TopicPartition, prepared: Transaction) -> None:
        self._before_write()
        self._write_marker(prepared.producer_id, prepared.epoch, prepared.is_commit)

    def _write_marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.log.append_marker(producer_id, epoch, committed, 0, self.now_ms())
        self._durable(self.log.log)
        self.shard.end_transaction(producer_id, committed, self.now_ms())

    def _before_write(self) -> None:
        if self.failing_appends > 0:
            self.failing_appends -= 1
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.dies_after_writes > 0:
            self.dies_after_writes -= 1
            if not self.dies_after_writes:
                raise Died

    def plant_orphan(self, group_id: str, producer_id: int, partition: TopicPartition, offset: int) -> None:
        """An offset that no transaction will ever end, as a coordinator left it that did not check them."""
        record = to_record(group_id, OffsetStored(*partition, CommittedOffset(offset, -1, "", self.now_ms())))
        assert record is not None
        batch = encode_batch(
            [(self.now_ms(), record.key, record.value, ())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL_BIT,
        )
        self.log.log.append_own(batch, self.now_ms())
        self.log.log.sync()
