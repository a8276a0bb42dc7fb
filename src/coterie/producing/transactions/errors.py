"""What an error of the transaction coordinator, or of a group's for TxnOffsetCommit, calls for (the handlers of Kafka's
TransactionManager: InitProducerIdHandler, AddPartitionsToTxnHandler, AddOffsetsToTxnHandler, TxnOffsetCommitHandler,
EndTxnHandler)."""

from __future__ import annotations

from enum import Enum

from coterie.wire.declaration import Message
from coterie.wire.errors import COORDINATOR_LOST, ErrorCode
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


class TransactionRemedy(Enum):
    """The next step after a failed request."""

    RETRY = "send it again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then send it again"
    ABORT = "the open transaction has to be aborted; the producer can begin another"
    GIVE_UP = "this producer was replaced or is not allowed to write"


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
