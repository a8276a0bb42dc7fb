"""The states of a transactional producer and the transitions between them (TransactionManager.State of Kafka's clients); and to
which of them an error of the transaction coordinator leads, or of a group's for TxnOffsetCommit (the handlers
InitProducerIdHandler, AddPartitionsToTxnHandler, AddOffsetsToTxnHandler, TxnOffsetCommitHandler and EndTxnHandler)."""

from __future__ import annotations

from enum import Enum

from coterie.wire.declaration import Message
from coterie.wire.errors import COORDINATOR_LOST, ErrorCode
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


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
_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_NOT_AUTHORIZED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
# Errors of a producer whose open transaction the coordinator has ended, or has forgotten: it leaves nothing to abort.
ENDED_ELSEWHERE = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
# Of a coordinator: it knows another course of the transaction than this producer, and an abort would meet the same error.
_FATAL_WHERE_REFUSED: dict[type[Message], frozenset[ErrorCode]] = {
    AddPartitionsToTxnRequest: frozenset({ErrorCode.INVALID_TXN_STATE}),
    AddOffsetsToTxnRequest: frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.UNKNOWN_SERVER_ERROR}),
    TxnOffsetCommitRequest: frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNKNOWN_SERVER_ERROR}),
    EndTxnRequest: frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.UNKNOWN_SERVER_ERROR}),
}


class TransactionRemedy(Enum):
    """The next step after a failed request."""

    RETRY = "send it again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then send it again"
    ABORT = "the open transaction has to be aborted; the producer can begin another"
    GIVE_UP = "this producer was replaced or is not allowed to write"


def remedy_of(code: ErrorCode, refused: Message | None = None) -> TransactionRemedy:
    """``refused``: the request that a coordinator refused; None where the error is a batch's, or a look-up's, or where no
    response came. A leader that refuses the epoch of a batch may have learnt of the coordinator's own abort (KIP-588), and
    only a refused InitProducerId can be tried again once the right is there."""
    if code in COORDINATOR_LOST:
        return TransactionRemedy.FIND_COORDINATOR
    if code.retriable:
        return TransactionRemedy.RETRY
    if isinstance(refused, InitProducerIdRequest) and code in _NOT_AUTHORIZED:
        return TransactionRemedy.ABORT
    if refused is not None and (
        code == ErrorCode.INVALID_PRODUCER_EPOCH or code in _FATAL_WHERE_REFUSED.get(type(refused), ())
    ):
        return TransactionRemedy.GIVE_UP
    return TransactionRemedy.GIVE_UP if code in _FATAL else TransactionRemedy.ABORT
