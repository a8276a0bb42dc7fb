"""Transactions and producers as an admin sees them: DescribeProducers, DescribeTransactions, ListTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.broker.handlers.services import Handler, TransactionServices
from coterie.broker.process.patterns import BadPattern, matcher
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import check_name
from coterie.coordinator.transactions.state import KNOWN_STATES, describe_transaction, list_transactions
from coterie.log.partition_log import PartitionLog
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from coterie.wire.messages.transactions.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    pass


def handle_describe_producers(
    broker: TransactionServices, request: DescribeProducersRequest, call: Call
) -> Message | Pending:
    """The producers that the log of each partition knows, with the start of an open transaction, or -1."""
    return broker.turns.run(_describe_producers(broker, request))


def _describe_producers(broker: TransactionServices, request: DescribeProducersRequest) -> Work:
    response = DescribeProducersResponse()
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(_partition(broker, topic.name, index))
            yield
        response.topics.append(DescribeProducersTopicResponse(topic.name, partitions))
    return response


def _partition(broker: TransactionServices, topic: str, index: int) -> DescribeProducersPartitionResponse:
    """Kafka explains an unknown topic, and leaves an unknown partition without a text."""
    try:
        check_name(topic)
        log = broker.topics.partition(topic, index).log
    except Refusal as refusal:
        text = None if topic in broker.topics.by_name else str(refusal)
        return DescribeProducersPartitionResponse(index, refusal.code, text)
    return DescribeProducersPartitionResponse(index, active_producers=_producers(log))


def _producers(log: PartitionLog) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            log.transactions.open.get(producer_id, -1),
        )
        for producer_id, producer in log.producers.by_id.items()
    ]


def handle_describe_transactions(
    broker: TransactionServices, request: DescribeTransactionsRequest, call: Call
) -> Message | Pending:
    """For each id its state, or TRANSACTIONAL_ID_NOT_FOUND or COORDINATOR_LOAD_IN_PROGRESS."""
    return broker.turns.run(_describe_transactions(broker, request))


def _describe_transactions(broker: TransactionServices, request: DescribeTransactionsRequest) -> Work:
    response = DescribeTransactionsResponse()
    for name in request.transactional_ids:
        response.transaction_states.append(_transaction(broker, name))
        yield
    return response


def _transaction(broker: TransactionServices, transactional_id: str) -> DescribedTransaction:
    try:
        return describe_transaction(broker.transactions.transaction(transactional_id))
    except Refusal as refusal:
        return DescribedTransaction(refusal.code, transactional_id)


def handle_list_transactions(
    broker: TransactionServices, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    """Filters that are empty take all. INVALID_REGULAR_EXPRESSION (KIP-1152); unknown states are named in the
    response."""
    try:
        matches = _matcher(request.transactional_id_pattern)
        transactions = broker.transactions.every_transaction()
    except Refusal as refusal:
        return ListTransactionsResponse(error_code=refusal.code)
    listed = list_transactions(
        transactions,
        request.state_filters,
        request.producer_id_filters,
        request.duration_filter,
        broker.clock.now_ms(),
        matches,
    )
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in KNOWN_STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=list(listed))


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    """Whether a name as a whole is one of the pattern's. Raises Refusal."""
    if not pattern:
        return lambda name: True
    try:
        return matcher(pattern)
    except BadPattern as error:
        raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION) from error


HANDLERS: dict[int, Handler] = {
    61: handle_describe_producers,
    65: handle_describe_transactions,
    66: handle_list_transactions,
}
