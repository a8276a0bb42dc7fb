"""Transactional ids that nobody uses any more, by the names of Kafka's TransactionStateManagerTest. DescribeTransactions
and ListTransactions over states, by the names of Kafka's TransactionCoordinatorTest, TransactionStateManagerTest and
TransactionMetadataTest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from coterie.broker.process.patterns import matcher
from coterie.coordinator.transactions.machine import InitProducer, TransactionMachine
from coterie.coordinator.transactions.state import (
    KNOWN_STATES,
    STATE_NAMES,
    Status,
    Transaction,
    describe_transaction,
    list_transactions,
    tombstone_batches,
    transactional_id_of,
)
from coterie.records.batch import batches
from coterie.records.decoding import decode_keys_and_values
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, TransactionTopic
from tests.coordinator.transactions.coordinators import (
    EPOCH,
    EXPIRATION_MS,
    ID,
    NEW,
    NONE,
    NOW_MS,
    PRODUCER,
    TIMEOUT_MS,
    A,
    B,
    knowing,
    known,
)

FRESH = "fresh"
# Transactional id -> its state, its producer id and for how long its transaction lasts, in ms.
LISTED = {
    "t0": (Status.ONGOING, 0, 3_000),
    "t1": (Status.ONGOING, 1, 3_000),
    "my-special-0": (Status.ONGOING, 0, 3_000),
    "t2": (Status.PREPARE_COMMIT, 2, 2_000),
    "t3": (Status.PREPARE_ABORT, 3, 2_000),
    "your-special-1": (Status.PREPARE_ABORT, 0, 2_000),
    "t4": (Status.COMPLETE_COMMIT, 4, 1_000),
    "t5": (Status.COMPLETE_ABORT, 5, 1_000),
    "t6": (Status.COMPLETE_ABORT, 6, 1_000),
    "their-special-2": (Status.COMPLETE_ABORT, 7, 1_000),
}
OPEN, SPECIAL = "t0 t1 my-special-0", ".*special-.*"


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


@pytest.mark.parametrize(
    ("expected", "states", "producer_ids", "longer_than_ms", "pattern"),
    [
        (" ".join(LISTED), (), (), -1, ".*"),
        (" ".join(LISTED), (), (), 0, ".*"),
        (f"{OPEN} t2 t3 your-special-1", (), (), 1_000, ".*"),
        (OPEN, (), (), 2_000, ".*"),
        ("", (), (), 3_000, ".*"),
        (OPEN, ("Ongoing",), (), -1, ".*"),
        (OPEN, ("Ongoing", "UnknownState"), (), -1, ".*"),
        ("t2 t4", ("PrepareCommit", "CompleteCommit"), (), -1, ".*"),
        ("", ("UnknownState",), (), -1, ".*"),
        ("t5", (), (5,), -1, ".*"),
        ("t5 t6", (), (5, 6, 8, 9), -1, ".*"),
        ("t4", ("CompleteCommit",), (4, 5), -1, ".*"),
        ("t4 t5", ("CompleteCommit", "CompleteAbort"), (4, 5), -1, ".*"),
        ("", ("UnknownState",), (3, 6), -1, ".*"),
        ("", ("CompleteCommit",), (10,), -1, ".*"),
        ("", ("Dead",), (), -1, ".*"),
        ("my-special-0 your-special-1 their-special-2", (), (), -1, SPECIAL),
        ("", (), (), -1, "nothing"),
        ("my-special-0 your-special-1", (), (), 1_000, SPECIAL),
        ("their-special-2", ("CompleteCommit", "CompleteAbort"), (7,), -1, SPECIAL),
    ],
)
def test_list_transactions_filtering(
    expected: str, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int, pattern: str
) -> None:
    """testListTransactionsFiltering, but for the states in which no transactional id is ever listed here."""
    transactions = [
        Transaction(name, producer_id, 0, 1_000, status, started_ms=NOW_MS - lasts_ms)
        for name, (status, producer_id, lasts_ms) in LISTED.items()
    ]
    listed = list_transactions(transactions, states, producer_ids, longer_than_ms, NOW_MS, matcher(pattern))
    assert {one.transactional_id for one in listed} == set(expected.split())
    assert {state for state in states if state not in KNOWN_STATES} == {"UnknownState"} & set(states)


def test_describe_transactions() -> None:
    """testDescribeTransactions."""
    ongoing = known(Status.ONGOING, partitions=frozenset({A, B, ("a", 3)}))
    assert describe_transaction(ongoing) == DescribedTransaction(
        transactional_id=ID,
        transaction_state="Ongoing",
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_start_time_ms=ongoing.started_ms,
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        topics=[TransactionTopic("a", [0, 3]), TransactionTopic("b", [1])],
    )


def test_transaction_state_id_and_name_mapping() -> None:
    """testTransactionStateIdAndNameMapping, testAllTransactionStatesAreMapped: numbers and names are Kafka's, and each state
    has a name."""
    assert {status.value: STATE_NAMES[status] for status in Status} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
    }
    assert {*STATE_NAMES.values(), "Dead", "PrepareEpochFence"} == KNOWN_STATES
