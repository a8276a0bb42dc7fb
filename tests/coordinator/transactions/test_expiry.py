"""Transactional ids that nobody uses any more, by the names of Kafka's TransactionStateManagerTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.coordinator.transactions.machine import InitProducer, TransactionMachine
from coterie.coordinator.transactions.state import Status, tombstone_batches, transactional_id_of
from coterie.records.batch import batches
from coterie.records.decoding import decode_keys_and_values
from coterie.wire.errors import ErrorCode
from tests.coordinator.transactions.coordinators import (
    EXPIRATION_MS,
    ID,
    NEW,
    NONE,
    NOW_MS,
    TIMEOUT_MS,
    knowing,
    known,
)

FRESH = "fresh"


@pytest.mark.parametrize(
    ("status", "error", "is_removed"),
    [
        pytest.param(Status.EMPTY, NONE, True, id="shouldRemoveEmptyExpiredTransactionalIds"),
        pytest.param(Status.COMPLETE_COMMIT, NONE, True, id="shouldRemoveCompleteCommitExpiredTransactionalIds"),
        pytest.param(Status.COMPLETE_ABORT, NONE, True, id="shouldRemoveCompleteAbortExpiredTransactionalIds"),
        pytest.param(
            *(Status.COMPLETE_ABORT, ErrorCode.NOT_ENOUGH_REPLICAS, False),
            id="shouldNotRemoveExpiredTransactionalIdsIfLogAppendFails",
        ),
        pytest.param(Status.ONGOING, NONE, False, id="shouldNotRemoveOngoingTransactionalIds"),
        pytest.param(Status.PREPARE_ABORT, NONE, False, id="shouldNotRemovePrepareAbortTransactionalIds"),
        pytest.param(Status.PREPARE_COMMIT, NONE, False, id="shouldNotRemovePrepareCommitTransactionalIds"),
    ],
)
def test_expired_transactional_ids_are_removed(status: Status, error: ErrorCode, *, is_removed: bool) -> None:
    coordinator = knowing(replace(known(status), updated_ms=NOW_MS - EXPIRATION_MS))
    coordinator.by_id[FRESH] = replace(known(status), transactional_id=FRESH, updated_ms=NOW_MS - EXPIRATION_MS + 1)
    coordinator.error = error
    assert coordinator.expire(NOW_MS) == ([ID] if is_removed else [])
    assert set(coordinator.by_id) == ({FRESH} if is_removed else {ID, FRESH})
    coordinator.error = NONE
    assert coordinator.kept == []
    if is_removed:
        response = coordinator.request(InitProducer(ID, TIMEOUT_MS))
        assert (response.code, response.producer_id, response.epoch) == (NONE, NEW, 0)
    if status not in (Status.ONGOING, Status.PREPARE_ABORT, Status.PREPARE_COMMIT):
        assert coordinator.request(InitProducer(FRESH, TIMEOUT_MS)).code == NONE


def test_what_was_removed_before_a_load_changes_nothing() -> None:
    shard = TransactionMachine(TIMEOUT_MS, lambda: NEW, lambda: 2)
    shard.by_id[ID] = idle = replace(known(Status.EMPTY), updated_ms=NOW_MS - EXPIRATION_MS)
    assert shard.remove_expired(NOW_MS, EXPIRATION_MS) != []
    assert shard.remove_expired(NOW_MS, EXPIRATION_MS) == [], "they are on their way"
    assert shard.unload() == []
    shard.by_id[ID] = idle
    shard.removed([idle], NONE)
    assert shard.by_id == {ID: idle}


@pytest.mark.parametrize(
    ("count", "max_bytes", "least", "most_bytes"),
    [
        pytest.param(1_000, 512, 20, 512, id="testTransactionExpirationShouldRespectBatchSize"),
        pytest.param(20, 16, 20, 100, id="testTransactionalExpirationWithTooSmallBatchSize"),
    ],
)
def test_tombstones_are_in_batches(count: int, max_bytes: int, least: int, most_bytes: int) -> None:
    """A transactional id whose tombstone is too large by itself is attempted alone; the log refuses it."""
    expired = [replace(known(Status.EMPTY), transactional_id=f"id_{n}") for n in range(count)]
    written = list(tombstone_batches(expired, max_bytes, NOW_MS))
    assert len(written) >= least
    assert [transaction for removed, _ in written for transaction in removed] == expired
    for removed, batch in written:
        assert len(batch) <= most_bytes
        ((position, header),) = batches(batch)
        records = decode_keys_and_values(batch, position, header)
        assert [(transactional_id_of(key or b""), value) for key, value, _ in records] == [
            (transaction.transactional_id, None) for transaction in removed
        ]
