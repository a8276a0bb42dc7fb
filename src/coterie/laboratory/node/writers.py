"""Producers of the laboratory that write through Produce: once without idempotence, until acknowledged with it, and in
transactions. Their batches are known to a `RecordChecker`; several partitions share a request.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.client import ClientProcess, Request, Sleep, Steps
from coterie.laboratory.node.record_checker import RecordChecker, SentBatch, SentTransaction, TopicPartition
from coterie.laboratory.world import World
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest

NOBODY = (-1, -1)
PRODUCE_VERSIONS = (3, 11)
RETRY_MS = 100
# What a broker on a failing disk, or one that loads, may answer to a request that it will take later.
RETRIABLE = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
Gave = Generator[Request | Sleep, Any, bool]


@dataclass(slots=True)
class _Batch:
    sent: SentBatch
    data: bytes


@dataclass(slots=True)
class ProducerIdentity:
    """A producer id and epoch with the next sequence number of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class Writer(ClientProcess):
    """``transactional_id``: of a subclass that has transactions."""

    transactional_id: str | None = None
    _made = 0  # values

    def _batches(
        self, identity: ProducerIdentity | None, transaction: SentTransaction | None = None
    ) -> dict[TopicPartition, _Batch]:
        """New batches for some partitions."""
        rng = self.world.random
        chosen = rng.sample(self.partitions, rng.randint(1, len(self.partitions)))
        return {partition: self._batch(partition, identity, transaction) for partition in sorted(chosen)}

    def _batch(
        self, partition: TopicPartition, identity: ProducerIdentity | None, transaction: SentTransaction | None
    ) -> _Batch:
        rng, count = self.world.random, self.world.between(1, 4)
        values = tuple(f"{self.name}.{self._made + n}".encode() for n in range(count))
        self._made += count
        items = [(self.world.now_ms, b"k" * rng.choice([1, 1, 20, 200]), value, ()) for value in values]
        sent = self.checker.send(partition, values, None if transaction is None else transaction.number)
        if identity is None:
            return _Batch(sent, encode_batch(items))
        sequence = identity.sequences.get(partition, 0)
        identity.sequences[partition] = sequence + count
        data = encode_batch(
            items,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            attributes=0 if transaction is None else TRANSACTIONAL_BIT,
        )
        return _Batch(sent, data)

    def _produce(self, batches: dict[TopicPartition, _Batch], acks: int = -1) -> Request:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, index), batch in batches.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index, batch.data))
        data = [TopicProduceData(topic, partition_data=partitions) for topic, partitions in topics.items()]
        version = self.world.between(*PRODUCE_VERSIONS)
        return Request(ProduceRequest(self.transactional_id, acks, 5_000, data), version)

    def _until_produced(self, batches: dict[TopicPartition, _Batch]) -> Generator[Request | Sleep, Any, ErrorCode]:
        """Sends what is not acknowledged again and again; the first error that is not retriable ends it."""
        left = dict(batches)
        while left:
            response = yield self._produce(left)
            for partition, code, base_offset in _results(response):
                if code == ErrorCode.NONE:
                    self.checker.acknowledge(left.pop(partition).sent, base_offset)
                elif code not in RETRIABLE:
                    return code
            if left:
                yield Sleep(self.world.between(1, RETRY_MS))
        return ErrorCode.NONE

    def _initialized(
        self, timeout_ms: int = 60_000, claim: tuple[int, int] = NOBODY
    ) -> Generator[Request | Sleep, Any, ProducerIdentity]:
        while True:
            response = yield Request(InitProducerIdRequest(self.transactional_id, timeout_ms, *claim), 4)
            if response is not None and not response.error_code:
                return ProducerIdentity(response.producer_id, response.producer_epoch)
            claim = NOBODY if response is not None else claim
            yield Sleep(self.world.between(1, RETRY_MS))


def _results(response: Message | None) -> list[tuple[TopicPartition, ErrorCode, int]]:
    if not isinstance(response, ProduceResponse):
        return []
    return [
        ((topic.name, p.index), error_of(p.error_code), p.base_offset)
        for topic in response.responses
        for p in topic.partition_responses
    ]


class PlainWriter(Writer):
    """Sends each batch once, sometimes without acknowledgement."""

    def _process(self) -> Steps:
        while True:
            batches = self._batches(None)
            response = yield self._produce(batches, self.world.random.choice([-1, 1, 0]))
            for partition, code, base_offset in _results(response):
                if code == ErrorCode.NONE:
                    self.checker.acknowledge(batches[partition].sent, base_offset)
                else:
                    assert code in RETRIABLE, f"{self.name}: a Produce was refused: {code.name}"
                    self.checker.refuse(batches[partition].sent)
            yield Sleep(self.world.between(0, 1_500))


class IdempotentWriter(Writer):
    """Sends each batch until it is acknowledged; with one request in flight no sequence can be out of order."""

    def _process(self) -> Steps:
        while True:
            identity = yield from self._initialized()
            for _ in range(self.world.between(1, 60)):
                code = yield from self._until_produced(self._batches(identity))
                assert code == ErrorCode.NONE, f"{self.name}: an idempotent Produce was refused: {code.name}"
                yield Sleep(self.world.between(0, 1_000))


class TransactionalWriter(Writer):
    """One transaction after the other. Two writers with the same ``transactional_id`` fence each other."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        partitions: Sequence[TopicPartition],
        checker: RecordChecker,
        transactional_id: str,
    ) -> None:
        super().__init__(world, broker, name, partitions, checker)
        self.transactional_id = transactional_id

    def _process(self) -> Steps:
        claim = NOBODY
        while True:
            identity = yield from self._initialized(self.world.random.choice([5_000, 30_000]), claim)
            while (yield from self._transaction(identity)):
                yield Sleep(self.world.between(0, 1_500))
            claim = self.world.random.choice([NOBODY, (identity.producer_id, identity.epoch)])
            yield Sleep(self.world.between(0, 3_000))

    def _transaction(self, identity: ProducerIdentity) -> Gave:
        """False where the producer must initialize anew."""
        transaction = self.checker.begin_transaction()
        for _ in range(self.world.between(1, 3)):
            batches = self._batches(identity, transaction)
            if not (yield from self._added(identity, list(batches))):
                return False
            if (yield from self._until_produced(batches)):
                return False
            yield Sleep(self.world.random.choice([0, 0, 100, 2_000]))
        transaction.committed = self.world.chance(0.6)
        assert self.transactional_id is not None
        end = EndTxnRequest(self.transactional_id, identity.producer_id, identity.epoch, transaction.committed)
        while True:
            response = yield Request(end, 3)
            if response is not None and response.error_code == ErrorCode.NONE:
                self.checker.end(transaction)
                return True
            if response is not None and response.error_code not in RETRIABLE:
                return False
            yield Sleep(self.world.between(1, RETRY_MS))

    def _added(self, identity: ProducerIdentity, partitions: list[TopicPartition]) -> Gave:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        assert self.transactional_id is not None
        request = AddPartitionsToTxnRequest(
            self.transactional_id,
            identity.producer_id,
            identity.epoch,
            [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in topics.items()],
        )
        while True:
            response = yield Request(request, 3)
            if response is not None:
                codes = {p.partition_error_code for t in response.results_by_topic for p in t.results_by_partition}
                if codes == {ErrorCode.NONE}:
                    return True
                if not codes <= RETRIABLE:
                    return False
            yield Sleep(self.world.between(1, RETRY_MS))
