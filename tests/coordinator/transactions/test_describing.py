"""DescribeTransactions and ListTransactions over states, by the names of Kafka's TransactionCoordinatorTest,
TransactionStateManagerTest and TransactionMetadataTest."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from coterie.broker.process.patterns import matcher
from coterie.coordinator.transactions.state import (
    KNOWN_STATES,
    STATE_NAMES,
    Status,
    Transaction,
    describe_transaction,
    list_transactions,
)
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, TransactionTopic
from tests.coordinator.transactions.coordinators import EPOCH, ID, NOW_MS, PRODUCER, TIMEOUT_MS, A, B, known

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
