"""A leader verifies with the transaction coordinator whether records or offsets belong to an open transaction, or has their
partition added to it (Kafka's AddPartitionsToTxnManager, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import PeerRequests
from coterie.broker.storage.topic import TRANSACTIONS_TOPIC
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.coordinator.transactions.machine import AddToTransaction
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition
from coterie.coordinator.transactions.steps import Claim
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION = 5  # of AddPartitionsToTxn: from 4 on brokers send it
Codes = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class PartOfTransaction:
    """Partitions that a request of a transactional producer writes to. ``adds``: they are added to the transaction (version 2),
    else they must be in it. ``done`` gets an error code for each."""

    transactional_id: str
    claim: Claim
    partitions: tuple[TopicPartition, ...]
    adds: bool
    done: Callable[[Codes], None]

    def respond(self, code: ErrorCode) -> None:
        """The same code for every partition."""
        self.done(dict.fromkeys(self.partitions, code))


class TransactionVerification:
    """One request at a time goes to each coordinator; it holds all that came meanwhile. ``peers``: None for a broker alone."""

    def __init__(
        self, topics: Topics, view: ClusterView, coordinator: TransactionCoordinator, peers: PeerRequests | None = None
    ) -> None:
        self._topics, self._view, self._coordinator, self._peers = topics, view, coordinator, peers
        self._waiting: dict[int, list[PartOfTransaction]] = {}
        self._busy: set[int] = set()

    def verify(self, part: PartOfTransaction) -> None:
        """``part.done`` may be called before this returns."""
        topic = self._topics.by_name.get(TRANSACTIONS_TOPIC)
        try:
            broker = self._view.coordinator(topic, part.transactional_id, ("", 0)).broker_id
        except Refusal as refusal:
            part.respond(refusal.code)
            return
        if broker == self._view.node_id:
            self._here(part)
        else:
            self._waiting.setdefault(broker, []).append(part)
            self._send(broker)

    def _here(self, part: PartOfTransaction) -> None:
        if part.adds:
            added = AddToTransaction(part.transactional_id, part.claim, frozenset(part.partitions), BUMPS_FROM)
            self._coordinator.submit(added, lambda response: part.respond(response.code))
            return
        codes = {}
        for partition in part.partitions:
            codes[partition] = ErrorCode.NONE
            try:
                self._coordinator.check_ongoing(part.transactional_id, part.claim, partition)
            except Refusal as refusal:
                codes[partition] = refusal.code
        part.done(codes)

    def _send(self, broker: int) -> None:
        if broker in self._busy or not self._waiting.get(broker):
            return
        self._busy.add(broker)
        waiting = self._waiting.pop(broker)
        # A response names a transaction by its id alone: two parts of the same one go in two requests.
        parts = {part.transactional_id: part for part in reversed(waiting)}
        rest = [part for part in waiting if parts[part.transactional_id] is not part]
        if rest:
            self._waiting[broker] = rest

        def responded(response: AddPartitionsToTxnResponse | None) -> None:
            self._busy.discard(broker)
            codes = {} if response is None else _codes_of(response)
            for part in parts.values():
                missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
                part.done({p: codes.get((part.transactional_id, p), missing) for p in part.partitions})
            self._send(broker)

        message = AddPartitionsToTxnRequest(transactions=[_transaction(part) for part in parts.values()])
        assert self._peers is not None, "a broker alone is its own coordinator"
        self._peers.send(broker, message, AddPartitionsToTxnResponse, VERSION, responded)


def _transaction(part: PartOfTransaction) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in part.partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic, [])).partitions.append(index)
    claim = part.claim
    return AddPartitionsToTxnTransaction(
        part.transactional_id, claim.producer_id, claim.epoch, not part.adds, list(topics.values())
    )


def _codes_of(response: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], ErrorCode]:
    return {
        (one.transactional_id, (topic.name, row.partition_index)): error_of(row.partition_error_code)
        for one in response.results_by_transaction
        for topic in one.topic_results
        for row in topic.results_by_partition
    }
