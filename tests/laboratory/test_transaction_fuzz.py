"""Stories of producers under seeds, and that the rules notice when a mend is taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coterie.coordinator.transactions import epoch_bump, machine, steps
from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.laboratory.fuzz import FuzzFailure
from coterie.laboratory.transaction_fuzz import run_transaction_seed
from coterie.laboratory.transactional_broker import TransactionalBroker
from coterie.log.files.filesystem import FileSystem
from coterie.producing.transactions.transactions import Transactions
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# 34: after a power cut the laboratory's disk took back what the broker had read from it.
ONCE_FAILED = (34,)
ENOUGH_SEEDS = (17, *range(9))  # 17: a decided transaction that no later request completes


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed(seed: int) -> None:
    run_transaction_seed(seed)


def test_fresh_seeds() -> None:
    reports = [run_transaction_seed(seed, minutes=2) for seed in range(1000, 1015)]
    assert sum(r.commits for r in reports) > 200, "too few transactions are committed to say anything"
    assert sum(r.aborts for r in reports) > 200, "too few transactions are aborted to say anything"
    assert sum(r.refused for r in reports) > 100, "too few offsets come outside a transaction to say anything"
    assert sum(r.broker_crashes for r in reports) > 20, "the broker dies too seldom to say anything"
    assert 50 < sum(r.commits_of_version_2 for r in reports) < sum(r.commits for r in reports) - 50, "one version alone"


def test_a_late_request_tears_transactions_of_version_1_and_none_of_version_2() -> None:
    """A copy of a request arrives when the next transaction of its producer is open (KIP-890)."""
    first, second = [run_transaction_seed(28, minutes=3, transaction_version=version) for version in (1, 2)]
    assert first.torn > 0 == first.commits_of_version_2
    assert second.torn == 0 < second.commits == second.commits_of_version_2


def test_the_same_seed_is_the_same_story() -> None:
    assert run_transaction_seed(7, minutes=1) == run_transaction_seed(7, minutes=1)


def complaint() -> str:
    """Of the first seeds; empty where all of them pass."""
    for seed in ENOUGH_SEEDS:
        try:
            run_transaction_seed(seed, minutes=3)
        except FuzzFailure as failure:
            return str(failure)
    return ""


def old_init(
    self: TransactionMachine, request: InitProducerIdRequest, version: int, now_ms: int
) -> InitProducerIdResponse:
    """What it was: the claimed id under the next epoch."""
    if request.transactional_id is None and request.producer_id >= 0:
        return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1)
    return _INIT(self, request, version, now_ms)


def unreserved(self: ProducerIds, fs: FileSystem) -> None:
    """No block is reserved on disk."""
    self._fs, self._next, self._end = fs, 0, 10**9


def unverified(self: TransactionMachine, *_: Any) -> None:
    """Any TxnOffsetCommit is accepted."""


def no_orphans(self: TransactionMachine, *_: Any) -> list[tuple[int, int]]:
    """What is pending stays pending."""
    return []


def incomplete(self: TransactionMachine, now_ms: int) -> None:
    """What was decided before a crash gets no markers."""


def unspoiled(self: Transactions, code: ErrorCode) -> None:
    """A producer whose transaction goes on although its offsets were refused."""


def always_committed(self: TransactionMachine, name: str, claim: Claim, committed: bool, now_ms: int) -> Any:
    """A coordinator that commits what was aborted."""
    return _END(self, name, claim, True, now_ms)


def always_committed_with_bump(self: TransactionMachine, name: str, claim: Claim, committed: bool, now_ms: int) -> Any:
    """The same, of transactions of version 2."""
    return _END_WITH_BUMP(self, name, claim, True, now_ms)


def of_any_epoch(transaction: Transaction | None, claim: Claim) -> Transaction:
    """A coordinator that takes what an earlier transaction of the producer left under way."""
    return _CHECK(transaction, claim if transaction is None else replace(claim, epoch=transaction.epoch))


def unbumped(transaction: Transaction, *rest: Any) -> Transaction:
    """Transactions of version 2 whose epoch stays."""
    return replace(_PREPARE(transaction, *rest), epoch=transaction.epoch)


_PREPARE = epoch_bump.prepare_end_with_bump
_CHECK = steps.check_producer
_END = TransactionMachine.end
_END_WITH_BUMP = TransactionMachine.end_with_bump
_INIT = TransactionMachine.init_producer_id


@pytest.mark.slow
def test_with_every_mend_no_rule_is_broken() -> None:
    assert complaint() == ""


def test_a_response_to_a_former_life_of_a_producer_is_dropped() -> None:
    """The request of the first life arrived in the second, whose machine took the response for one to its own."""
    run_transaction_seed(97, 0.5)


@pytest.mark.parametrize(
    ("where", "name", "instead", "rule"),
    [
        (TransactionMachine, "init_producer_id", old_init, "was given to two producers"),
        (ProducerIds, "__init__", unreserved, "producer id"),
        (TransactionMachine, "verify", unverified, "accepted outside an ongoing transaction"),
        (TransactionMachine, "orphans", no_orphans, "which has no open transaction"),
        (TransactionMachine, "complete_prepared", incomplete, "are open"),
        (Transactions, "_spoil", unspoiled, "of a committed transaction is not committed"),
        (TransactionMachine, "end", always_committed, "of an aborted transaction is committed"),
        (TransactionMachine, "end_with_bump", always_committed_with_bump, "of an aborted transaction is committed"),
        (machine, "check_producer", of_any_epoch, "accepted outside an ongoing transaction"),
        (machine, "prepare_end_with_bump", unbumped, "of an aborted transaction"),
    ],
)
@pytest.mark.slow
def test_without_a_mend_a_rule_is_broken_within_a_few_seeds(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, instead: Callable[..., Any], rule: str
) -> None:
    monkeypatch.setattr(where, name, instead)
    assert rule in complaint()


def test_an_aborted_offset_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    write_marker = TransactionalBroker.write_marker
    monkeypatch.setattr(
        TransactionalBroker,
        "write_marker",
        lambda self, where, prepared: write_marker(self, where, replace(prepared, status=Status.PREPARE_COMMIT)),
    )
    assert "has committed" in complaint()
