"""What a producer's machine requests of its driver: each effect is returned once, carried out, and reported back. The Produce
requests in them, made of batches, their responses by batch, and what a failed attempt calls for (Sender.completeBatch,
TransactionManager.canRetry)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from coterie.machines.cluster_metadata import Address
from coterie.producing.accumulator import ProducingConfig
from coterie.producing.batch import Acknowledged, BatchResult, ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.partition_queue import PartitionQueue
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_APPENDED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def encoded(batch: ProducerBatch, codec: int, in_transaction: bool) -> bytes:
    """The record batch under its numbers."""
    producer_id, epoch = batch.producer
    return encode_batch(
        batch.items,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=batch.sequence,
        attributes=TRANSACTIONAL_BIT if in_transaction else 0,
    )


def produce_request(
    batches: Iterable[ProducerBatch], config: ProducingConfig, transactional_id: str | None
) -> ProduceRequest:
    """The Produce of encoded batches, each of another partition."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name)
        topic.partition_data.append(PartitionProduceData(index, batch.encoded))
    return ProduceRequest(transactional_id, config.acks, config.request_timeout_ms, list(topics.values()))


def results_of(response: ProduceResponse) -> dict[TopicPartition, tuple[BatchResult, int]]:
    """The result of each partition, and the log's start offset, -1 where the broker does not name it."""
    results: dict[TopicPartition, tuple[BatchResult, int]] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            # A batch with numbers that are long past is in the log, at an offset that the broker no longer knows.
            if partition.error_code in _APPENDED:
                result: BatchResult = Acknowledged(partition.base_offset, partition.log_append_time_ms)
            else:
                result = _failure(partition)
            results[topic.name, partition.index] = result, partition.log_start_offset
    return results


def _failure(partition: PartitionProduceResponse) -> ProduceFailure:
    error = error_of(partition.error_code)
    record_errors = {e.batch_index: e.batch_index_error_message for e in partition.record_errors}
    return ProduceFailure(error, partition.error_message, error.retriable, None, record_errors)


def new_leaders(response: ProduceResponse) -> tuple[dict[TopicPartition, tuple[int, int]], dict[int, Address]]:
    """The leaders that brokers name in place of themselves, with their epochs, and the addresses of brokers (KIP-951)."""
    leaders: dict[TopicPartition, tuple[int, int]] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            leader = partition.current_leader
            if leader.leader_epoch >= 0:
                leaders[topic.name, partition.index] = leader.leader_id, leader.leader_epoch
    return leaders, {node.node_id: (node.host, node.port) for node in response.node_endpoints} if leaders else {}


class BatchRemedy(Enum):
    """One of these for each failed attempt; ACKNOWLEDGE and FAIL end the batch."""

    RETRY = "send it again after a pause"
    KEEP_AS_REFUSED = "its number was refused: see what becomes of the numbers after it"
    ACKNOWLEDGE = "it is in the log, at an offset that is not known"
    SPLIT = "send its halves"
    FAIL = "fail it"


def remedy_of(
    failure: ProduceFailure, batch: ProducerBatch, queue: PartitionQueue, log_start_offset: int, in_transaction: bool
) -> BatchRemedy:
    """``log_start_offset`` of the response, -1 where it has none."""
    code = failure.code
    if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.items) > 1:
        return BatchRemedy.SPLIT
    if batch.sequence >= 0 and code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        if queue.sequence.holds(batch.producer, batch.sequence, len(batch.items)):
            return BatchRemedy.ACKNOWLEDGE  # a broker that was restarted knows only a producer's last batch again
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return _of_an_unknown_producer(queue, log_start_offset, in_transaction)
        return BatchRemedy.KEEP_AS_REFUSED
    return BatchRemedy.RETRY if failure.is_retriable else BatchRemedy.FAIL


def _of_an_unknown_producer(queue: PartitionQueue, log_start_offset: int, in_transaction: bool) -> BatchRemedy:
    """The broker has forgotten the producer: its records are gone from the log, where retention deleted them (KIP-360)."""
    if log_start_offset < 0:
        return BatchRemedy.RETRY
    lost = in_transaction and queue.sequence.last_offset >= log_start_offset
    return BatchRemedy.FAIL if lost else BatchRemedy.KEEP_AS_REFUSED


@dataclass(frozen=True, slots=True)
class SendProduce:
    """Send to that broker, then call `produced` or `request_failed` with the token. With acks=0 there is no response: call
    `sent`."""

    token: int
    node_id: int
    request: ProduceRequest


@dataclass(frozen=True, slots=True)
class LookUpLeaders:
    """Look the leaders of these topics up, then call `leaders_looked_up`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForgetLeaders:
    """What is known of the topic is out of date: `leader_of` is to return None until a look-up."""

    topic: str


@dataclass(frozen=True, slots=True)
class GetProducerId:
    """Send InitProducerId without a transactional id to any broker, then call `identified` or `not_identified`."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Have these take part in the open transaction, then call `partitions_added` or `partitions_refused`."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """Every record of the batch has its result (`ProducerBatch.result_of`)."""

    batch: ProducerBatch


Effect = SendProduce | LookUpLeaders | ForgetLeaders | GetProducerId | AddPartitions | BatchEnded
