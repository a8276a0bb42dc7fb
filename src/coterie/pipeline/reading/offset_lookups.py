"""The driver of lookups of offsets (`consuming/offset_lookup`, `consuming/committed_offsets`) over blocking sockets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from coterie.client.offsets.lookup_steps import list_offsets_steps, offset_fetch_steps, run_steps_blocking
from coterie.client.pauses.clock import Waits, now_ms
from coterie.client.pauses.retrying import backoff_of
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import ByPartition
from coterie.consuming.committed_offsets import CommittedConfig, CommittedLookup, PendingOffsets, SendOffsetFetch
from coterie.consuming.effects import LookUpCoordinator, RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.messages.groups.offset_fetch import OffsetFetchResponse
from coterie.wire.messages.logs.list_offsets import ListOffsetsResponse


def looked_up(
    timestamps: ByPartition[int],
    settings: ClientSettings,
    known: ClusterMetadata,
    send: Callable[[SendListOffsets], ListOffsetsResponse],
    refresh: Callable[[frozenset[str]], None],
    *,
    waits: Waits,
    unknown_topic_timeout_ms: int = 0,
) -> dict[TopicPartition, int]:
    """The offset for each timestamp. ``send`` and ``refresh`` (of topics' metadata, into ``known``) raise KafkaError. Errors
    that pass are retried for default.api.timeout.ms, a topic that no broker knows no longer than its own timeout. Raises
    KafkaError."""
    config = LookupConfig(
        timeout_ms=settings.default_api_timeout_ms,
        unknown_topic_timeout_ms=unknown_topic_timeout_ms,
        request_timeout_ms=settings.request_timeout_ms,
        committed_only=settings.committed_only,
        backoff=backoff_of(settings),
    )
    wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
    lookup = OffsetLookup(wanted, config, known, now_ms())

    def carry_out(effect: SendListOffsets | RefreshMetadata) -> Any:
        return send(effect) if isinstance(effect, SendListOffsets) else refresh(effect.topics)

    return run_steps_blocking(list_offsets_steps(lookup), carry_out, "the offsets of partitions", waits)


def committed(
    group_id: str,
    partitions: Collection[tuple[str, int]],
    settings: ClientSettings,
    known: ClusterMetadata,
    send: Callable[[SendOffsetFetch], OffsetFetchResponse],
    look_up_coordinator: Callable[[], None],
    *,
    waits: Waits,
) -> dict[TopicPartition, int]:
    """The group's committed offsets, -1 where there is none. ``send`` and ``look_up_coordinator`` (into ``known``) raise
    KafkaError. Errors that pass are retried for default.api.timeout.ms. Raises KafkaError."""
    pending = PendingOffsets.AWAITED if settings.committed_only else PendingOffsets.IGNORED
    config = CommittedConfig(settings.default_api_timeout_ms, pending, backoff_of(settings))
    wanted = [TopicPartition(*partition) for partition in partitions]
    lookup = CommittedLookup(group_id, wanted, config, known, now_ms())

    def carry_out(effect: SendOffsetFetch | LookUpCoordinator) -> Any:
        return send(effect) if isinstance(effect, SendOffsetFetch) else look_up_coordinator()

    steps, what = offset_fetch_steps(lookup, f"group {group_id}"), f"the committed offsets of group {group_id}"
    positions = run_steps_blocking(steps, carry_out, what, waits)
    return {partition: position.offset for partition, position in positions.items()}
