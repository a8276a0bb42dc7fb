"""A follower's requests to its leader as messages, and what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from coterie.broker.cluster.config import ClusterConfig
from coterie.replication.states import EpochLookup, ReplicaFetch, ReplicaFetched, TopicPartition
from coterie.wire.messages.logs.fetch import FetchRequest, PartitionData
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EARLIEST, LATEST = -2, -1
UNKNOWN_END = -1  # Fetch does not say where the leader's log ends


def _topics(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    """Neighbours of one topic together, in the order given."""
    for topic, rows in groupby(partitions, lambda partition: partition[0]):
        yield topic, [number for _, number in rows]


def ends_of_epochs(broker_id: int, lookups: Mapping[TopicPartition, EpochLookup]) -> OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch: where the epochs of several partitions end."""
    topics = [
        OffsetForLeaderTopic(topic, [_lookup(number, lookups[topic, number]) for number in numbers])
        for topic, numbers in _topics(lookups)
    ]
    return OffsetForLeaderEpochRequest(broker_id, topics)


def _lookup(number: int, lookup: EpochLookup) -> OffsetForLeaderPartition:
    return OffsetForLeaderPartition(number, lookup.current_leader_epoch, lookup.epoch)


def fetch(config: ClusterConfig) -> FetchRequest:
    """Fetch, whose partitions are to be filled in by its session."""
    return FetchRequest(
        replica_id=config.broker_id,
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
    )


def fetched(row: PartitionData) -> ReplicaFetched:
    """The leader's response for one partition; batches are bytes."""
    batches = [row.records] if row.records else []
    return ReplicaFetched(batches, row.high_watermark, row.log_start_offset, UNKNOWN_END)


def end_of_log(request: ReplicaFetch, partition: TopicPartition, timestamp: int) -> ListOffsetsRequest:
    """ListOffsets: the EARLIEST or LATEST offset."""
    topic, number = partition
    wanted = ListOffsetsPartition(number, request.current_leader_epoch, timestamp)
    return ListOffsetsRequest(request.replica_id, topics=[ListOffsetsTopic(topic, [wanted])])
