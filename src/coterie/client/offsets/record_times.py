"""When the record at an offset was written, by the header of its batch: a lag in time, on any Kafka.

No API returns it, so the leaders are sent a Fetch of little of each partition. A batch that is larger is returned only to a
request for its partition alone: from version 3 on, none but the first partition of a response may exceed its limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.client.offsets.offsets import list_offsets
from coterie.client.types import TopicPartition
from coterie.machines.cluster_metadata import NO_NODE
from coterie.records.batch import NO_TIMESTAMP, first_timestamp
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

SAMPLE_BYTES = 4_096
DELETED, EARLIEST = -1, -2


async def record_times(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As `Admin.record_times`. Raises KafkaError where no broker describes the topics."""
    if not offsets:
        return {}
    infos = await cluster.refresh({topic for topic, _ in offsets})
    led: dict[int, dict[TopicPartition, int]] = {}
    for tp, offset in offsets.items():
        leader = infos[tp.topic].leaders.get(tp.partition, NO_NODE) if tp.topic in infos else NO_NODE
        if leader != NO_NODE:
            led.setdefault(leader, {})[tp] = offset
    times: dict[TopicPartition, int] = {}
    await asyncio.gather(*(_of_leader(cluster, leader, wanted, times) for leader, wanted in led.items()))
    return times


async def _of_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], times: dict[TopicPartition, int]
) -> None:
    """Asks for all at once, and for each that is left by itself. Without what a broker that fails leads."""
    with contextlib.suppress(KafkaError):
        left = await _look_up(cluster, leader, wanted, times)
        deleted = [tp for tp, offset in left.items() if offset == DELETED]
        if deleted:
            left |= await list_offsets(cluster, dict.fromkeys(deleted, EARLIEST), errors={})
        await asyncio.gather(*(_look_up(cluster, leader, {tp: offset}, times) for tp, offset in left.items()))


async def _look_up(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], times: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns what to request again: a batch that did not fit beside the others, and, DELETED, a record that is no longer in
    the log. Raises KafkaError."""
    connection = await cluster.connection(leader)
    response = await connection.request(_request(wanted), FetchResponse, cluster.timeout_s, highest=topic_names.FETCH)
    left: dict[TopicPartition, int] = {}
    for topic in response.responses:
        for data in topic.partitions:
            tp = TopicPartition(topic.topic, data.partition_index)
            offset = wanted.get(tp, data.high_watermark)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                left[tp] = DELETED
            elif not data.error_code and data.records:
                timestamp = first_timestamp(data.records)
                times |= {} if timestamp == NO_TIMESTAMP else {tp: timestamp}
            elif not data.error_code and data.high_watermark > offset:
                left[tp] = offset
    return left


def _request(wanted: Mapping[TopicPartition, int]) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for (topic, partition), offset in wanted.items():
        wanted_partition = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=SAMPLE_BYTES)
        topics.setdefault(topic, FetchTopic(topic)).partitions.append(wanted_partition)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=list(topics.values()))
