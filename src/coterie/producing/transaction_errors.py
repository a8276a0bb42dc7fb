"""What an error of the transaction coordinator, or of a group's for TxnOffsetCommit, calls for (the handlers of Kafka's
TransactionManager: InitProducerIdHandler, AddPartitionsToTxnHandler, AddOffsetsToTxnHandler, TxnOffsetCommitHandler,
EndTxnHandler)."""

from __future__ import annotations

from enum import Enum

from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.end_txn import EndTxnRequest


class TransactionRemedy(Enum):
    """The next step after a failed request."""

    RETRY = "send it again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then send it again"
    ABORT = "the open transaction has to be aborted; the producer can begin another"
    GIVE_UP = "this producer was replaced or is not allowed to write"


_FIND_COORDINATOR = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
# The coordinator knows another course of the transaction than this producer: an abort would meet the same answer.
_FATAL_WHERE_INVALID = (AddPartitionsToTxnRequest, EndTxnRequest)


def remedy_of(code: ErrorCode, request: Message | None = None) -> TransactionRemedy:
    """``request`` None: the error is a batch's, or a look-up's."""
    if code in _FIND_COORDINATOR:
        return TransactionRemedy.FIND_COORDINATOR
    if code.retriable:
        return TransactionRemedy.RETRY
    if code == ErrorCode.INVALID_TXN_STATE and isinstance(request, _FATAL_WHERE_INVALID):
        return TransactionRemedy.GIVE_UP
    return TransactionRemedy.GIVE_UP if code in _FATAL else TransactionRemedy.ABORT
