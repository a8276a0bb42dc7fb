"""The partitions of a transaction as requests name them: the rows of AddPartitionsToTxn, where all are added or none."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.broker.storage.topic import INTERNAL_TOPICS, OFFSETS_TOPIC, Topic
from coterie.broker.storage.topics import Topics
from coterie.coordinator.transactions.state import TopicPartition
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)


def partitions_of(requested: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    """The partitions of one transaction, in the order of the request."""
    return [(t.name, p) for t in requested.topics for p in t.partitions]


def refused_partitions(
    topics: Topics, wanted: list[TopicPartition], *, from_broker: bool
) -> dict[TopicPartition, ErrorCode] | None:
    """The codes of all partitions where one is refused, OPERATION_NOT_ATTEMPTED for the others; None where all may be added."""
    codes = dict.fromkeys(wanted, ErrorCode.NONE)
    for partition in wanted:
        if partition[0] in INTERNAL_TOPICS and not from_broker:
            codes[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not exists(topics, partition):
            codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not any(codes.values()):
        return None
    return {partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, code in codes.items()}


def exists(topics: Topics, partition: TopicPartition) -> bool:
    """Whether the broker knows the partition."""
    try:
        topics.partition(*partition)
    except Refusal:
        return False
    return True


def known_offsets_topic(topics: Topics) -> Topic | None:
    """`__consumer_offsets`: of a broker alone created at first use, in a cluster None until the controller has created it.
    Raises Refusal."""
    return topics.by_name.get(OFFSETS_TOPIC) if topics.in_cluster else topics.offsets_topic()


def rows(
    requested: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """The response's rows of one transaction."""
    return [
        AddPartitionsToTxnTopicResult(
            t.name, [AddPartitionsToTxnPartitionResult(p, codes[t.name, p]) for p in t.partitions]
        )
        for t in requested.topics
    ]
