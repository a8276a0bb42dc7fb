"""A transactional producer's side of KIP-98: its id, what takes part in the open transaction, and how that ends.

Errors are of two kinds: an *abortable* one spoils the open transaction, which has to be aborted; a *fatal* one (another
producer took the transactional id over, or it is not allowed) ends the producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from coterie.client.cluster import TRANSACTION, Cluster
from coterie.client.connection import answer_type
from coterie.client.coordinator import Coordinator
from coterie.client.errors import KafkaError, TransactionAbortableError, check
from coterie.client.types import ByPartition, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
MEMBER_FROM = 3  # the version of TxnOffsetCommit that names the member and its generation (KIP-447)
_GROUP_TXN_VERSION = 4  # the newest TxnOffsetCommit that does not imply a transaction of version 2 (KIP-890)


class State(Enum):
    UNINITIALIZED = "init_transactions was not called"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    ABORTABLE_ERROR = "the open transaction failed and must be aborted"
    FATAL_ERROR = "this producer was replaced or is not allowed to write; make a new one"


class OpenTransaction(NamedTuple):
    """A transaction that one process leaves open for another to end."""

    transactional_id: str
    producer_id: int
    epoch: int
    took_part: bool


class TransactionManager:
    """One transactional id. ``producer_id`` and ``epoch`` go into every batch."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.state = State.UNINITIALIZED
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, transactional_id, TRANSACTION)
        self._partitions: set[TopicPartition] = set()
        self._adding = asyncio.Lock()
        self._took_part = False
        self._cause: KafkaError | None = None

    def require(self, *states: State) -> None:
        """Raises KafkaError INVALID_TXN_STATE, or what made the producer unusable."""
        if self.state not in states:
            if self._cause is not None:
                kind = TransactionAbortableError if self.state is State.ABORTABLE_ERROR else KafkaError
                raise kind(self._cause.code, f"{self.state.value} ({self._cause})") from self._cause
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, self.state.value)

    def failed(self, error: KafkaError) -> None:
        """Something of the open transaction did not go through."""
        if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.READY):
            self._cause = error
            self.state = State.FATAL_ERROR if error.code in FATAL else State.ABORTABLE_ERROR

    async def init(self) -> None:
        """Takes the transactional id over: whoever had it is fenced, and its open transaction aborted. Raises KafkaError."""
        timeout_ms = self._cluster.settings.transaction_timeout_ms
        claimed = (self.producer_id, self.epoch) if self.state != State.UNINITIALIZED else (-1, -1)
        answer = await self._ask(InitProducerIdRequest(self.transactional_id, timeout_ms, *claimed))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.state, self._cause = State.READY, None

    def begin(self) -> None:
        self.require(State.READY)
        self.state = State.IN_TRANSACTION
        self._partitions.clear()
        self._took_part = False

    def left_open(self) -> OpenTransaction:
        """What another process needs to end the open transaction. Raises KafkaError if it has failed."""
        self.require(State.IN_TRANSACTION)
        return OpenTransaction(self.transactional_id, self.producer_id, self.epoch, self._took_part)

    def resume(self, left: OpenTransaction) -> None:
        """The transaction that was left open, to be ended here."""
        self.producer_id, self.epoch, self._took_part = left.producer_id, left.epoch, left.took_part
        self.state = State.IN_TRANSACTION

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Has these partitions take part, before anything is written to them. Raises KafkaError."""
        async with self._adding:
            new = set(partitions) - self._partitions
            if not new:
                return
            topics: dict[str, AddPartitionsToTxnTopic] = {}
            for topic, partition in sorted(new):
                topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(partition)
            request = AddPartitionsToTxnRequest(
                self.transactional_id, self.producer_id, self.epoch, list(topics.values())
            )
            await self._ask(request)
            self._partitions |= new
            self._took_part = True

    async def send_offsets(self, offsets: ByPartition[int | OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        """Commits a consumer's offsets with the transaction; refused if the consumer is no member any more (KIP-447).
        Raises KafkaError, and then the transaction must be aborted."""
        self.require(State.IN_TRANSACTION)
        try:
            await self._ask(AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group.group_id))
            self._took_part = True
            topics: dict[str, TxnOffsetCommitRequestTopic] = {}
            for (topic, partition), given in offsets.items():
                offset, epoch, text = OffsetAndMetadata(given) if isinstance(given, int) else given
                entry = topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic))
                entry.partitions.append(TxnOffsetCommitRequestPartition(partition, offset, epoch, text))
            request = TxnOffsetCommitRequest(
                self.transactional_id,
                group.group_id,
                self.producer_id,
                self.epoch,
                group.generation_id,
                group.member_id,
                group.group_instance_id,
                list(topics.values()),
            )
            await self._until_done(Coordinator(self._cluster, group.group_id), request, _GROUP_TXN_VERSION)
        except KafkaError as error:
            self.failed(error)
            raise

    async def end(self, committed: bool) -> None:
        """Raises KafkaError. After an aborted failure the producer goes on under its next epoch (KIP-360)."""
        after_failure = self.state == State.ABORTABLE_ERROR
        if self._took_part:
            try:
                await self._ask(EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, committed))
            except KafkaError as error:
                self.failed(error)
                raise
        self.state, self._cause = State.READY, None
        if after_failure:
            await self.init()

    # -- asking ---------------------------------------------------------------------------------------------------------

    async def _ask(self, request: Message) -> Any:
        """At the transaction coordinator."""
        return await self._until_done(self._coordinator, request)

    async def _until_done(self, coordinator: Coordinator, request: Message, highest: int | None = None) -> Any:
        async def once(node: int) -> Any:
            connection = await self._cluster.coordinator_connection(node)
            if isinstance(request, TxnOffsetCommitRequest):
                _check_member(request, connection.version_of(TxnOffsetCommitRequest))
            answer = await connection.request(request, answer_type(request), self._cluster.timeout_s, highest=highest)
            for code in _codes(answer):
                check(code)
            return answer

        return await coordinator.until_done(once)


def _check_member(request: TxnOffsetCommitRequest, version: int) -> None:
    """A broker that does not check the member would let one commit that is no longer in the group. Raises KafkaError."""
    if version < MEMBER_FROM and (request.member_id or request.generation_id >= 0 or request.group_instance_id):
        text = "offsets of a group's member need TxnOffsetCommit version 3, which Apache Kafka has from 2.5 on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _codes(answer: Any) -> Iterable[ErrorCode]:
    """Every error code in an answer; what another part failed of says nothing by itself."""
    found = [getattr(answer, "error_code", 0)]
    for topic in getattr(answer, "results_by_topic", ()):
        found += [p.partition_error_code for p in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        found += [p.error_code for p in topic.partitions]
    codes = [error_of(code) for code in found if code]
    return [c for c in codes if c != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
