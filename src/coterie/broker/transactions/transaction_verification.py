"""A leader verifies with the transaction coordinator whether records or offsets belong to an open transaction, or has their
partition added to it (Kafka's AddPartitionsToTxnManager, KIP-890). Produce and TxnOffsetCommit of a transaction wait for it
before the first append of a producer to a partition; what is open in the partition's log was verified before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import PeerRequests
from coterie.broker.requests.pending import CheckAppend, Pending
from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition, Topic
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.added_partitions import known_offsets_topic
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.refusals import refuse
from coterie.coordinator.transactions.machine import AddToTransaction
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition
from coterie.coordinator.transactions.steps import (
    PRODUCE_ABORTABLE_FROM,
    PRODUCE_V2_FROM,
    TXN_OFFSET_COMMIT_V2_FROM,
    Claim,
    offsets_claim,
)
from coterie.coordinator.transactions.verification import (
    check_guard,
    for_offsets,
    for_produce,
    guard_of,
    needs_verification,
)
from coterie.records.batch import HEADER_BYTES, begins_transactional, read_header
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

VERSION = 5  # of AddPartitionsToTxn: from 4 on brokers send it
Codes = dict[TopicPartition, ErrorCode]
Checks = Mapping[TopicPartition, "TransactionalBatch"]
Produce = Callable[[Checks], Message | Pending | None]
Submit = Callable[[CheckAppend | None], Pending]


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


class TransactionalBatch:
    """One for a partition that this broker leads. ``is_unverified``: the coordinator is to verify it."""

    def __init__(self, partition: Partition, claim: Claim) -> None:
        self._partition, self.claim, self._guard = (
            partition,
            claim,
            guard_of(partition.log, partition.leader_epoch, claim),
        )
        self.code = ErrorCode.NONE
        try:
            self.is_unverified = needs_verification(partition.log, claim)
        except Refusal as refusal:
            self.is_unverified, self.code = False, refusal.code

    def check_coordinator(self) -> None:
        """Before all that the partition decides. Raises Refusal with what the coordinator responded."""
        if self.code != ErrorCode.NONE:
            raise Refusal(self.code, "the partition was not added to the transaction")

    def check_log(self) -> None:
        """Of a partition that has enough replicas in sync, when the batch is about to be appended. Raises Refusal."""
        check_guard(self._guard, self._partition.log, self._partition.leader_epoch, self.claim)


class VerifiedRequests:
    """Verifies transactions in requests to the partitions that this broker leads. ``verification`` None: beside brokers
    whose coordinators know no such request (before Kafka 3.6) nothing is verified, as with them."""

    def __init__(self, topics: Topics, verification: TransactionVerification | None) -> None:
        self._topics, self._verification = topics, verification

    # -- records --------------------------------------------------------------------------------------------------------

    def produce(self, request: ProduceRequest, version: int, carry_out: Produce) -> Message | Pending | None:
        """``carry_out`` gets a check for each partition with transactional records here."""
        batches = self._batches(request, version)
        unverified: dict[Claim, list[TopicPartition]] = {}
        for partition, batch in batches.items():
            if batch.is_unverified:
                unverified.setdefault(batch.claim, []).append(partition)
        verification = self._verification
        if verification is None or not unverified:
            return carry_out(batches)
        pending, left = Pending(), len(unverified)

        def done(codes: Codes) -> None:
            nonlocal left
            for partition, code in codes.items():
                batches[partition].code = for_produce(code, batches[partition].claim, adds=adds)
            left -= 1
            if not left:
                pending.respond_with(carry_out(batches))

        adds, name = version >= PRODUCE_V2_FROM, request.transactional_id
        assert name is not None, "records of a transaction came without its id"
        for claim, partitions in unverified.items():
            verification.verify(PartOfTransaction(name, claim, tuple(partitions), adds, done))
        return pending

    def _batches(self, request: ProduceRequest, version: int) -> dict[TopicPartition, TransactionalBatch]:
        batches = {}
        for topic in request.topic_data:
            name = self._topics.name_of(topic.name, topic.topic_id, version > topic_names.PRODUCE)
            known = None if name is None else self._topics.by_name.get(name)
            if known is None:
                continue
            for data in topic.partition_data:
                batch = self._batch(known, data, version)
                if batch is not None:
                    batches[known.name, data.index] = batch
        return batches

    @staticmethod
    def _batch(topic: Topic, data: PartitionProduceData, version: int) -> TransactionalBatch | None:
        records = data.records or b""
        if len(records) < HEADER_BYTES or not begins_transactional(records):
            return None
        header = read_header(records)
        if not (header.is_of_a_transaction and 0 <= data.index < len(topic.partitions)):
            return None
        if not topic.partitions[data.index].is_led:
            return None
        abortable = version >= PRODUCE_ABORTABLE_FROM
        claim = Claim(header.producer_id, header.producer_epoch, returns_fenced=False, returns_abortable=abortable)
        batch = TransactionalBatch(topic.partitions[data.index], claim)
        if batch.is_unverified:
            topic.partitions[data.index].log.producers.note_unverified(header)
        return batch

    # -- offsets --------------------------------------------------------------------------------------------------------

    def offsets(self, request: TxnOffsetCommitRequest, version: int, submit: Submit) -> Pending:
        """``submit`` has the group's coordinator carry the request out, with a check that comes last, when the group has
        accepted the offsets and enough replicas are in sync (CoordinatorPartitionWriter.append). It refuses a group without a
        name."""
        pending, claim = Pending(), offsets_claim(request, version)
        try:
            topic = known_offsets_topic(self._topics)
            index = -1 if topic is None else partition_for(request.group_id, len(topic.partitions))
            if (
                not request.group_id
                or self._verification is None
                or topic is None
                or not topic.partitions[index].is_led
            ):
                return submit(None)
            partition = topic.partitions[index]
            if not needs_verification(partition.log, claim):
                return submit(None)
        except Refusal as refusal:
            pending.respond(refuse(request, refusal.code))
            return pending
        guard = guard_of(partition.log, partition.leader_epoch, claim)

        def check() -> None:
            check_guard(guard, partition.log, partition.leader_epoch, claim)

        def done(codes: Codes) -> None:
            code = for_offsets(codes[OFFSETS_TOPIC, index], claim)
            if code == ErrorCode.NONE:
                pending.respond_with(submit(check))
            else:
                pending.respond(refuse(request, code))

        adds = version >= TXN_OFFSET_COMMIT_V2_FROM
        part = PartOfTransaction(request.transactional_id, claim, ((OFFSETS_TOPIC, index),), adds, done)
        self._verification.verify(part)
        return pending
