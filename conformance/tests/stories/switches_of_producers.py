"""Rules of producers and of the coordinator of their transactions, each switched off by a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.requests.pending import Pending
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.broker.transactions.transaction_requests import TransactionRequests
from coterie.coordinator.transactions import machine, steps
from coterie.coordinator.transactions.machine import EndTransaction, TransactionMachine
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.coordinator.transactions.state import Transaction
from coterie.producing.accumulator import Accumulator
from coterie.producing.batch import ProducerBatch
from coterie.producing.machine import ProducerMachine
from coterie.producing.partition_queue import CurrentProducer, PartitionQueue, PartitionSequence
from coterie.producing.transactions.transactions import Transactions
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

Patch = pytest.MonkeyPatch


# -- batches ----------------------------------------------------------------------------------------------------------------


def what_is_tried_again_has_another_number(patch: Patch) -> None:
    def refused(queue: PartitionQueue) -> list[ProducerBatch]:
        return [] if queue.in_flight else [b for b in queue.batches if b.sequence >= 0]

    patch.setattr(PartitionQueue, "refused", refused)


def a_gap_is_left_under_the_same_epoch(patch: Patch) -> None:
    patch.setattr(CurrentProducer, "bump", lambda current, before: None)


def a_buffer_keeps_batches_that_have_ended(patch: Patch) -> None:
    remove = Accumulator.remove

    def kept(accumulator: Accumulator, queue: PartitionQueue, batch: ProducerBatch) -> None:
        remove(accumulator, queue, batch)
        accumulator.buffered_bytes += batch.size

    patch.setattr(Accumulator, "remove", kept)


def a_request_without_a_response_counts_as_acknowledged(patch: Patch) -> None:
    def lost(machine: ProducerMachine, token: int, failure: Any, now_ms: float, jitter: float) -> None:
        machine.sent(token, now_ms)

    patch.setattr(ProducerMachine, "request_failed", lost)


def no_batch_waits_for_one_before_it(patch: Patch) -> None:
    def at_once(queue: PartitionQueue, now_ms: float, most_in_flight: int) -> ProducerBatch | None:
        return next(queue.not_in_flight(), None)

    patch.setattr(PartitionQueue, "next_to_send", at_once)


def several_batches_are_sent_before_one_is_acknowledged(patch: Patch) -> None:
    begin = PartitionSequence.begin

    def known(sequence: PartitionSequence, producer: tuple[int, int]) -> None:
        begin(sequence, producer)
        sequence.is_acknowledged = True

    patch.setattr(PartitionSequence, "begin", known)


def the_second_half_of_a_split_batch_goes_first(patch: Patch) -> None:
    split = ProducerBatch.split

    def swapped(batch: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
        first, second = split(batch)
        return second, first

    patch.setattr(ProducerBatch, "split", swapped)


def a_batch_is_given_up_a_second_too_late(patch: Patch) -> None:
    deadline_ms = Accumulator._deadline_ms
    patch.setattr(Accumulator, "_deadline_ms", lambda accumulator, batch: deadline_ms(accumulator, batch) + 1_000)


# -- transactions -----------------------------------------------------------------------------------------------------------


def a_claimed_producer_id_is_given(patch: Patch) -> None:
    init: Callable[..., Pending] = TransactionRequests.init_producer_id

    def claimed(self: TransactionRequests, request: InitProducerIdRequest, version: int) -> Pending:
        if request.transactional_id is not None or request.producer_id < 0:
            return init(self, request, version)
        pending, epoch = Pending(), request.producer_epoch + 1
        pending.respond(InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=epoch))
        return pending

    patch.setattr(TransactionRequests, "init_producer_id", claimed)


def no_block_of_producer_ids_is_reserved(patch: Patch) -> None:
    def unreserved(ids: ProducerIds, fs: Any) -> None:
        ids._fs, ids._next, ids._end = fs, 0, 10**9

    patch.setattr(ProducerIds, "__init__", unreserved)


def offsets_are_taken_outside_a_transaction(patch: Patch) -> None:
    patch.setattr(TransactionMachine, "check_ongoing", lambda *args: None)


def what_an_older_coordinator_left_stays_pending(patch: Patch) -> None:
    patch.setattr(TransactionCoordinator, "orphans", lambda *args: [])


def a_transaction_goes_on_whose_offsets_were_refused(patch: Patch) -> None:
    patch.setattr(Transactions, "_spoil", lambda *args: None)


def a_coordinator_commits_what_was_aborted(patch: Patch) -> None:
    _always_commit(patch, bumps_epoch=False)


def a_coordinator_commits_what_was_aborted_in_version_2(patch: Patch) -> None:
    _always_commit(patch, bumps_epoch=True)


def _always_commit(patch: Patch, *, bumps_epoch: bool) -> None:
    end: Callable[..., Any] = TransactionMachine._end

    def committed(self: TransactionMachine, command: EndTransaction, *rest: Any) -> Any:
        is_of_it = command.bumps_epoch == bumps_epoch
        return end(self, replace(command, committed=True) if is_of_it else command, *rest)

    patch.setattr(TransactionMachine, "_end", committed)


def a_producer_is_not_fenced(patch: Patch) -> None:
    patch.setattr(machine, "check_producer", lambda transaction, claim: transaction)


def the_epoch_stays_in_version_2(patch: Patch) -> None:
    prepare: Callable[..., Any] = steps.prepare_end_with_bump

    def unbumped(transaction: Transaction, *rest: Any) -> Transaction:
        ended: Transaction = prepare(transaction, *rest)
        return replace(ended, epoch=transaction.epoch)

    patch.setattr(machine, "prepare_end_with_bump", unbumped)


def what_was_decided_gets_no_markers(patch: Patch) -> None:
    """Before the coordinator's crash."""
    patch.setattr(TransactionMachine, "loaded", lambda machine, now_ms: [])
