"""Offsets requested and committed: ListOffsets and DeleteRecords at the leaders, OffsetFetch and OffsetCommit at the
coordinator."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, TypeVar

from coterie.client.admin_types import PartitionLag
from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError, error_about
from coterie.client.offsets.lookup_steps import (
    NO_STABLE,
    Pause,
    check_committed,
    check_stable,
    list_offsets_steps,
    offset_fetch_steps,
)
from coterie.client.pauses.clock import now_ms
from coterie.client.pauses.loop_clock import until_due
from coterie.client.pauses.retrying import backoff_of
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.consuming.commits.offset_commit import commit_request
from coterie.consuming.committed_offsets import (
    CommittedConfig,
    CommittedLookup,
    EpochMember,
    PendingOffsets,
    SendOffsetFetch,
)
from coterie.consuming.effects import LookUpCoordinator, RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup, SendListOffsets
from coterie.machines.cluster_metadata import NO_NODE
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

R = TypeVar("R")

logger = logging.getLogger(__name__)

NEW_TOPIC_S = 5.0  # in which every broker knows a topic that was just created


async def list_offsets(
    cluster: Cluster,
    timestamps: ByPartition[int],
    *,
    committed: bool = False,
    new_topic_s: float = NEW_TOPIC_S,
    arrived: Callable[[dict[TopicPartition, int]], None] | None = None,
    errors: dict[TopicPartition, KafkaError] | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """The offset for each timestamp (-1 end, -2 start); -1 where no record is that late. ``committed``: the end is where
    the first open transaction begins. What may pass is retried until ``timeout_ms``, by default default.api.timeout.ms, a topic
    that no broker knows for ``new_topic_s``. ``arrived`` is called with the offsets of each response. Raises KafkaError; with
    ``errors`` none for a partition, whose error is then put there, and no topic is waited for."""
    wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
    config = LookupConfig(
        timeout_ms=cluster.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms,
        unknown_topic_timeout_ms=new_topic_s * 1000,
        request_timeout_ms=cluster.settings.request_timeout_ms,
        committed_only=committed,
        each=errors is not None,
        backoff=backoff_of(cluster.settings),
    )
    lookup = OffsetLookup(wanted, config, cluster.known, now_ms())

    async def carry_out(effect: SendListOffsets | RefreshMetadata) -> Any:
        if isinstance(effect, SendListOffsets):
            return await cluster.request(effect.request, effect.node_id)
        return await cluster.refresh(effect.topics)

    offsets = await _run(cluster, f"offsets of {_named(wanted)}", list_offsets_steps(lookup, arrived), carry_out)
    if errors is not None:
        errors |= {tp: error_about(code, f"{tp.topic}-{tp.partition}") for tp, code in sorted(lookup.errors.items())}
    return offsets


async def committed_offsets(
    coordinator: Coordinator,
    partitions: Iterable[PartitionLike] | None,
    *,
    pending: PendingOffsets = PendingOffsets.IGNORED,
    member: EpochMember | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets of the coordinator's group, -1 where there is none; ``partitions`` None for all it has. ``member``: in whose
    name (KIP-848). Errors that pass are retried for default.api.timeout.ms. Raises KafkaError."""
    cluster, group_id = coordinator.cluster, coordinator.key
    wanted = None if partitions is None else [TopicPartition(*partition) for partition in partitions]
    config = CommittedConfig(cluster.settings.default_api_timeout_ms, pending, backoff_of(cluster.settings))
    lookup = CommittedLookup(group_id, wanted, config, cluster.known, now_ms(), member)

    async def carry_out(effect: SendOffsetFetch | LookUpCoordinator) -> Any:
        if isinstance(effect, LookUpCoordinator):
            return await coordinator.node()
        connection = await cluster.coordinator_connection(effect.node_id)
        check_stable(effect.request, connection.version_of(OffsetFetchRequest))
        return await connection.request(
            effect.request, OffsetFetchResponse, cluster.timeout_s, highest=topic_names.OFFSET_FETCH
        )

    what = f"the committed offsets of group {group_id}"
    positions = await _run(cluster, what, offset_fetch_steps(lookup, group_id), carry_out)
    if pending is PendingOffsets.AWAITED and not lookup.awaits_pending and cluster.settings.committed_only:
        logger.warning("group %s: %s; offsets of open transactions are not waited for", group_id, NO_STABLE)
    return {tp: OffsetAndMetadata(*position) for tp, position in positions.items()}


async def commit_offsets(
    cluster: Cluster, coordinator: int, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
) -> None:
    """Commits for a group without members, once. Raises KafkaError with the first partition's error."""
    request = commit_request(group_id, offsets, -1, "", None)
    connection = await cluster.coordinator_connection(coordinator)
    response = await connection.request(
        request, OffsetCommitResponse, cluster.timeout_s, highest=topic_names.OFFSET_COMMIT
    )
    check_committed(response)


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Deletes the records before these offsets, in a request to each leader; returns the new first offsets. Raises KafkaError
    with the first partition's error, once all others are done."""
    infos = await cluster.topics({t for t, _ in before})
    errors: dict[TopicPartition, KafkaError] = {}
    led: dict[int, dict[str, DeleteRecordsTopic]] = {}
    for (topic, partition), offset in before.items():
        info = infos.get(topic)
        node = None if info is None else info.leaders.get(partition)
        if node is None or node == NO_NODE:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if node is None else ErrorCode.LEADER_NOT_AVAILABLE
            code = info.error or code if info is not None else code
            errors[TopicPartition(topic, partition)] = error_about(code, f"{topic}-{partition}")
            continue
        entry = led.setdefault(node, {}).setdefault(topic, DeleteRecordsTopic(topic))
        entry.partitions.append(DeleteRecordsPartition(partition, offset))
    starts: dict[TopicPartition, int] = {}
    for node, topics in led.items():
        response: DeleteRecordsResponse = await cluster.request(
            DeleteRecordsRequest(list(topics.values()), 30_000), node
        )
        for result_topic in response.topics:
            for result in result_topic.partitions:
                tp = TopicPartition(result_topic.name, result.partition_index)
                if result.error_code:
                    errors[tp] = error_about(error_of(result.error_code), f"{tp.topic}-{tp.partition}")
                else:
                    starts[tp] = result.low_watermark
    for tp in before:
        if tp in errors:
            raise errors[tp]
        if tp not in starts:
            missing = f"the broker's response does not name {tp.topic}-{tp.partition}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, missing)
    return starts


async def lags(
    cluster: Cluster, committed: Mapping[TopicPartition, int], errors: dict[TopicPartition, KafkaError] | None
) -> dict[TopicPartition, PartitionLag]:
    """The lags of these committed offsets; a partition that is gone, or has no leader, is left out. Raises KafkaError for
    others without one; with ``errors`` the error of each partition that is left out is put there instead."""
    if not committed:
        return {}
    infos = await cluster.refresh({topic for topic, _ in committed})
    left_out: dict[TopicPartition, KafkaError] = {}
    led = dict.fromkeys(committed, -1)
    for tp in committed:
        info = infos.get(tp.topic)
        if info is None or info.leaders.get(tp.partition, NO_NODE) == NO_NODE:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error or ErrorCode.LEADER_NOT_AVAILABLE
            )
            left_out[tp] = error_about(code, f"{tp.topic}-{tp.partition}")
            del led[tp]
    ends = await list_offsets(cluster, led, errors=left_out)
    if errors is None:
        for error in left_out.values():
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                raise error
    else:
        errors |= left_out
    return {tp: PartitionLag(offset, ends[tp]) for tp, offset in committed.items() if tp in ends}


def _named(partitions: Iterable[TopicPartition]) -> str:
    """The first by name, and how many more."""
    first, *others = sorted(partitions) or [TopicPartition("", -1)]
    return f"{first.topic}-{first.partition}" + (f" and {len(others)} more" if others else "")


async def _run(
    cluster: Cluster, what: str, steps: Generator[Any, Any, R], carry_out: Callable[[Any], Awaitable[Any]]
) -> R:
    """Carries a course out on the event loop, and returns its result. ``what``: what it looks up. Raises KafkaError."""
    response, error = None, None
    while True:
        try:
            step = steps.send(response) if error is None else steps.throw(error)
        except StopIteration as end:
            cluster.waits.succeeded(what)
            result: R = end.value
            return result
        response, error = None, None
        if isinstance(step, Pause):
            if step.code != ErrorCode.NETWORK_EXCEPTION:  # else the connection is what is waited for
                cluster.waits.failed(what, step.why)
            await until_due(step.due_ms)
            continue
        try:
            response = await carry_out(step)
        except KafkaError as failed:
            error = failed
