"""Produce requests made of batches, and their responses by batch."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cluster_metadata import Address
from coterie.producing.batch import Acknowledged, BatchResult, ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.config import ProducingConfig
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


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
    """Of encoded batches, each of another partition."""
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
    return {
        (topic.name, partition.index): (_result(partition), partition.log_start_offset)
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _result(partition: PartitionProduceResponse) -> BatchResult:
    """A batch with numbers that are long past is in the log, at an offset that the broker no longer knows."""
    code = partition.error_code
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Acknowledged(partition.base_offset, partition.log_append_time_ms)
    error = error_of(code)
    record_errors = {e.batch_index: e.batch_index_error_message for e in partition.record_errors}
    return ProduceFailure(error, partition.error_message, error.retriable, None, record_errors)


def new_leaders(response: ProduceResponse) -> tuple[dict[TopicPartition, tuple[int, int]], dict[int, Address]]:
    """The leaders that brokers name in place of themselves, with their epochs, and the addresses of brokers (KIP-951)."""
    leaders = {
        (topic.name, partition.index): (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.current_leader.leader_epoch >= 0
    }
    return leaders, {node.node_id: (node.host, node.port) for node in response.node_endpoints}
