"""Offsets asked for and committed: ListOffsets at the leaders, OffsetFetch and OffsetCommit at the coordinator."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Mapping

from coterie.client.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.client.retrying import backoff_of
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.consuming.commit_requests import commit_request, first_error
from coterie.consuming.fetch_effects import RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup, SendListOffsets
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.list_offsets import ListOffsetsResponse
from coterie.wire.messages.offset_commit import OffsetCommitResponse
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from coterie.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NAMES_UP_TO = 9  # from v10 on OffsetCommit and OffsetFetch speak of topic ids
STABLE_FROM = 7
NEW_TOPIC_S = 5.0  # in which every broker knows a topic that was just created


async def list_offsets(
    cluster: Cluster, timestamps: ByPartition[int], *, committed: bool = False, wait: bool = True
) -> dict[TopicPartition, int]:
    """The offset for each timestamp (-1 end, -2 start); -1 where no record is that late. ``committed``: the end is where
    the first open transaction begins. ``wait``: what may pass is retried until request.timeout.ms, a topic that no broker
    knows for NEW_TOPIC_S. Raises KafkaError."""
    wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
    config = LookupConfig(
        timeout_ms=cluster.timeout_s * 1000 if wait else 0,
        unknown_topic_timeout_ms=NEW_TOPIC_S * 1000,
        committed_only=committed,
        backoff=backoff_of(cluster.settings),
    )
    lookup = OffsetLookup(wanted, config, cluster.known, _now_ms())
    errors: dict[ErrorCode, KafkaError] = {}
    while not lookup.is_done:
        for effect in lookup.next(_now_ms()):
            await _carry_out(cluster, lookup, effect, errors)
        deadline_ms = lookup.next_deadline_ms()
        if deadline_ms is not None:
            await asyncio.sleep(max(deadline_ms - _now_ms(), 0) / 1000)
    if lookup.failure is not None:
        code, partition = lookup.failure.code, str(lookup.failure)
        raise errors[code] if code in errors and not partition else KafkaError(code, partition or None)
    return lookup.offsets


async def _carry_out(
    cluster: Cluster,
    lookup: OffsetLookup,
    effect: SendListOffsets | RefreshMetadata,
    errors: dict[ErrorCode, KafkaError],
) -> None:
    """``errors``: the last one of each code that a request as a whole ended with. Raises KafkaError that is not retriable."""
    try:
        if isinstance(effect, SendListOffsets):
            response: ListOffsetsResponse = await cluster.request(effect.request, effect.node_id)
        else:
            await cluster.refresh(effect.topics)
    except KafkaError as error:
        if not error.retriable:
            raise
        errors[error.code] = error
        if isinstance(effect, SendListOffsets):
            lookup.failed(effect, error.code, _now_ms(), random.uniform(-1, 1))
        else:
            lookup.metadata_refreshed(effect, _now_ms(), random.uniform(-1, 1), error.code)
        return
    if isinstance(effect, SendListOffsets):
        lookup.answered(effect, response, _now_ms(), random.uniform(-1, 1))
    else:
        lookup.metadata_refreshed(effect, _now_ms(), random.uniform(-1, 1))


def _now_ms() -> float:
    return time.monotonic() * 1000


async def diverged(
    cluster: Cluster, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, int]:
    """Of positions from an older leader's time, those behind which that leader's log was cut: where the common part ends
    (KIP-320). Raises KafkaError."""
    ends: dict[TopicPartition, int] = {}
    for (topic, partition), position in positions.items():
        current = cluster.leader_epoch(topic, partition)
        leader = cluster.leader(topic, partition)
        if leader is None or not 0 <= position.leader_epoch < current:
            continue
        asked = OffsetForLeaderPartition(partition, current, position.leader_epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [asked])])
        response: OffsetForLeaderEpochResponse = await cluster.request(request, leader)
        for answered in response.topics:
            for p in answered.partitions:
                check(p.error_code, f"{topic}-{partition}")
                if 0 <= p.end_offset < position.offset:
                    ends[TopicPartition(topic, partition)] = p.end_offset
    return ends


async def committed_offsets(
    cluster: Cluster,
    coordinator: int,
    group_id: str,
    partitions: Iterable[PartitionLike] | None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The group's offsets, -1 where there is none; ``partitions`` None for all it has. ``require_stable``: those with a
    transaction's offset pending fail with UNSTABLE_OFFSET_COMMIT, which is retriable. Raises KafkaError."""
    request = fetch_request(group_id, partitions, require_stable=require_stable)
    connection = await cluster.coordinator_connection(coordinator)
    if require_stable and connection.version_of(OffsetFetchRequest) < STABLE_FROM:
        text = "offsets without pending ones need OffsetFetch version 7, which Apache Kafka has from 2.5 on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    response = await connection.request(request, OffsetFetchResponse, cluster.timeout_s, highest=NAMES_UP_TO)
    return fetched_offsets(response, group_id)


def fetch_request(
    group_id: str, partitions: Iterable[PartitionLike] | None, *, require_stable: bool = False
) -> OffsetFetchRequest:
    """In the shape of old versions, which name one group, and of new ones."""
    asked: dict[str, list[int]] | None = None
    if partitions is not None:
        asked = {}
        for topic, partition in partitions:
            asked.setdefault(topic, []).append(partition)
    old = None if asked is None else [OffsetFetchRequestTopic(t, p) for t, p in asked.items()]
    new = None if asked is None else [OffsetFetchRequestTopics(t, partition_indexes=p) for t, p in asked.items()]
    return OffsetFetchRequest(group_id, old, [OffsetFetchRequestGroup(group_id, topics=new)], require_stable)


def fetched_offsets(response: OffsetFetchResponse, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """What an answer to `fetch_request` says; -1 where there is none. ``group``: as an error names it. Raises KafkaError."""
    check(response.error_code, group)
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for answer in response.groups:
        check(answer.error_code, group)
    answered = [(t.name, t.partitions) for t in response.topics]
    answered += [(t.name, t.partitions) for g in response.groups for t in g.topics]
    for name, results in answered:
        for p in results:
            check(p.error_code, f"{name}-{p.partition_index}")
            committed = OffsetAndMetadata(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
            offsets[TopicPartition(name, p.partition_index)] = committed
    return offsets


async def commit_offsets(
    cluster: Cluster,
    coordinator: int,
    group_id: str,
    offsets: ByPartition[int | OffsetAndMetadata],
    generation: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> None:
    """Commits for a member, or for a group without members. Raises KafkaError with the first partition's error."""
    request = commit_request(group_id, offsets, generation, member_id, group_instance_id)
    connection = await cluster.coordinator_connection(coordinator)
    response = await connection.request(request, OffsetCommitResponse, cluster.timeout_s, highest=NAMES_UP_TO)
    check_committed(response)


def check_committed(response: OffsetCommitResponse, where: str = "") -> None:
    """Raises KafkaError with the first partition's error; ``where`` comes before the partition's name."""
    code, partition = first_error(response)
    check(code, where + partition)
