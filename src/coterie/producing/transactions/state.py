"""The states of a transactional producer and the transitions between them (TransactionManager.State of Kafka's clients)."""

from __future__ import annotations

from enum import Enum


class ProducerTransactionState(Enum):
    """Each with what a call that it does not allow is refused with."""

    UNINITIALIZED = "init_transactions was not called"
    INITIALIZING = "init_transactions is under way"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the open transaction failed and must be aborted"
    FATAL_ERROR = "this producer was replaced or is not allowed to write; make a new one"


_S = ProducerTransactionState
LEGAL_SUCCESSORS: dict[ProducerTransactionState, frozenset[ProducerTransactionState]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.IN_TRANSACTION}),  # a transaction that another process left open
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.INITIALIZING, _S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
