"""All transactional ids of a coordinator, over whatever keeps their states and writes their markers.

The broker and the laboratory drive the same machine. A transaction is decided once its prepared state is appended; its
markers follow within the same call, and the end is appended last. Where the disk fails in between, the transaction stays
prepared: the next request receives CONCURRENT_TRANSACTIONS, and `complete_prepared` tries again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from coterie.coordinator.transactions.epoch_bump import fenced, prepare_end_with_bump
from coterie.coordinator.transactions.state import OPEN, PREPARED, Status, TopicPartition, Transaction
from coterie.coordinator.transactions.steps import (
    INIT_FENCED_FROM,
    Claim,
    add_partitions,
    check_claimed_id,
    check_init,
    check_ongoing,
    check_producer,
    claimed_producer,
    complete,
    has_expired,
    init_producer,
    prepare_end,
    settled,
    timed_out,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class TransactionLog(Protocol):
    """The logs that a coordinator writes to. Each method raises Refusal where the write fails."""

    def transaction_version(self) -> int:
        """The finalized level of the feature transaction.version."""

    def keep(self, transaction: Transaction) -> None:
        """Appends a state to `__transaction_state`."""

    def write_marker(self, partition: TopicPartition, prepared: Transaction) -> None:
        """Appends the end of a transaction to a partition; a deleted partition needs none."""

    def new_producer_id(self) -> int:
        """A new producer id, never generated before."""


class TransactionMachine:
    """``by_id`` by transactional id. Until `loaded` is True, requests are refused with COORDINATOR_LOAD_IN_PROGRESS."""

    def __init__(self, log: TransactionLog, max_timeout_ms: int) -> None:
        self._log, self._max_timeout_ms = log, max_timeout_ms
        self.by_id: dict[str, Transaction] = {}
        self.loaded = False

    # -- requests -------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerIdRequest, version: int, now_ms: int) -> InitProducerIdResponse:
        """A producer without transactional id always gets a new producer id and epoch 0, whatever it had before."""
        try:
            claimed = claimed_producer(request)
            if request.transactional_id is None:
                return InitProducerIdResponse(producer_id=self._log.new_producer_id())
            taken = self._init(request.transactional_id, request.transaction_timeout_ms, claimed, now_ms)
        except Refusal as refusal:
            fenced = refusal.code == ErrorCode.PRODUCER_FENCED and version < INIT_FENCED_FROM
            code = ErrorCode.INVALID_PRODUCER_EPOCH if fenced else refusal.code
            return InitProducerIdResponse(error_code=code, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=taken.producer_id, producer_epoch=taken.epoch)

    def _init(
        self, transactional_id: str, timeout_ms: int, claimed: tuple[int, int] | None, now_ms: int
    ) -> Transaction:
        """Aborts an open transaction of the producer before."""
        check_init(transactional_id, timeout_ms, self._max_timeout_ms)
        known = self._known(transactional_id, now_ms)
        if known is not None and known.status == Status.ONGOING:
            check_claimed_id(known, claimed)
            known = settled(self._end(self._fenced(known, now_ms), now_ms))
        taken = init_producer(known, transactional_id, timeout_ms, claimed, self._log.new_producer_id, now_ms)
        self._keep(taken)
        return taken

    def _fenced(self, transaction: Transaction, now_ms: int) -> Transaction:
        return fenced(transaction, self._log.transaction_version(), self._log.new_producer_id, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        claim: Claim,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> None:
        """``transaction_version``: 2 where the records themselves, or the offsets, add their partition. Raises Refusal."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        known = check_producer(self._known(transactional_id, now_ms), claim)
        wanted = frozenset(partitions)
        if known.status != Status.ONGOING or not wanted <= known.partitions:
            self._keep(add_partitions(known, wanted, transaction_version, now_ms))

    def verify(self, transactional_id: str, claim: Claim, partition: TopicPartition) -> None:
        """Whether the producer's transaction is ongoing and has the partition (KIP-890). Raises Refusal: 49 for an unknown
        producer, 47 for a fenced one, 51 while its transaction ends, 48 or 120 outside a transaction that has the
        partition."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        check_ongoing(self._get(transactional_id), claim, partition)

    def end_with_bump(self, transactional_id: str, claim: Claim, committed: bool, now_ms: int) -> tuple[int, int]:
        """The producer id and epoch of the producer's next transaction (KIP-890). Raises Refusal."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        known = self._known(transactional_id, now_ms)
        prepared = prepare_end_with_bump(known, claim, committed, self._log.new_producer_id, now_ms)
        return (prepared if prepared is known else self._end(prepared, now_ms)).next_producer()

    def end(self, transactional_id: str, claim: Claim, committed: bool, now_ms: int) -> None:
        """Raises Refusal."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        check_producer(self._get(transactional_id), claim)
        known = check_producer(self._known(transactional_id, now_ms), claim)
        prepared = prepare_end(known, committed, now_ms)
        if prepared is not known:
            self._end(prepared, now_ms)

    def transaction(self, transactional_id: str) -> Transaction:
        """Raises Refusal for one that does not exist."""
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        known = self._get(transactional_id)
        if known is None:
            raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return known

    # -- upkeep ---------------------------------------------------------------------------------------------------

    def abort_timed_out(self, now_ms: int) -> list[Transaction]:
        """To be called every transaction.abort.timed.out.transaction.cleanup.interval.ms; returns the aborted
        transactions."""
        aborted = []
        for transaction in [t for t in self.by_id.values() if timed_out(t, now_ms)]:
            with suppress(Refusal):  # of a disk that fails: the next time, then
                self._end(self._fenced(transaction, now_ms), now_ms)
                aborted.append(transaction)
        return aborted

    def expired(self, now_ms: int, expiration_ms: int) -> list[Transaction]:
        """Every transaction.remove.expired.transaction.cleanup.interval.ms: to be removed from the log, then by `remove`."""
        return [t for t in self.by_id.values() if has_expired(t, now_ms, expiration_ms)]

    def remove(self, expired: Iterable[Transaction]) -> None:
        """Drops expired transactional ids, whose tombstones are in the log."""
        for transaction in expired:
            del self.by_id[transaction.transactional_id]

    def complete_prepared(self, now_ms: int) -> None:
        """Writes the markers of transactions that were prepared before a crash or a failure of the disk."""
        for transaction in [t for t in self.by_id.values() if t.status in PREPARED]:
            self._complete(transaction, now_ms)

    def orphans(self, pending: Iterable[tuple[int, int]], partition: TopicPartition) -> list[tuple[int, int]]:
        """Of the producers (id, epoch) with records pending in a partition, those without an open transaction that has it:
        no marker will ever come for them, so the coordinator of the partition aborts them itself."""
        producers = list(pending)
        if not producers:
            return []
        here = {t.producer_id: t for t in self.by_id.values() if t.status in OPEN and partition in t.partitions}
        return [p for p in producers if p[0] not in here or p[1] not in here[p[0]].record_epochs()]

    # -- states ---------------------------------------------------------------------------------------------------

    def _get(self, transactional_id: str) -> Transaction | None:
        """Raises Refusal until everything is loaded: what is not known yet is not new."""
        if not self.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.by_id.get(transactional_id)

    def _known(self, transactional_id: str, now_ms: int) -> Transaction | None:
        """Raises Refusal also while a decided transaction cannot be completed."""
        known = self._get(transactional_id)
        if known is not None and known.status in PREPARED:
            return settled(self._complete(known, now_ms))
        return known

    def _keep(self, transaction: Transaction) -> None:
        self._log.keep(transaction)
        self.by_id[transaction.transactional_id] = transaction

    def _end(self, prepared: Transaction, now_ms: int) -> Transaction:
        """Raises Refusal where it cannot be decided; what is decided but cannot be completed is returned as prepared."""
        self._keep(prepared)
        return self._complete(prepared, now_ms)

    def _complete(self, prepared: Transaction, now_ms: int) -> Transaction:
        try:
            for partition in sorted(prepared.partitions):
                self._mark(partition, prepared)
            done = complete(prepared, now_ms)
            self._keep(done)
        except Refusal:
            return prepared
        return done

    def _mark(self, partition: TopicPartition, prepared: Transaction) -> None:
        """A log that has a newer epoch of the producer has no place for the marker: then a disk lost states of this one."""
        try:
            self._log.write_marker(partition, prepared)
        except Refusal as refusal:
            if refusal.code != ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
