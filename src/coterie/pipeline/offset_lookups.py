"""The driver of lookups of offsets (`consuming/offset_lookup`, `consuming/committed_lookup`) over blocking sockets."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection

from coterie.client.errors import KafkaError
from coterie.client.retrying import backoff_of
from coterie.client.settings import ClientSettings
from coterie.client.types import ByPartition
from coterie.cluster_metadata import ClusterMetadata
from coterie.consuming.committed_lookup import CommittedConfig, CommittedLookup, PendingOffsets, SendOffsetFetch
from coterie.consuming.fetch_effects import RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.list_offsets import ListOffsetsResponse
from coterie.wire.messages.offset_fetch import OffsetFetchResponse


def looked_up(
    timestamps: ByPartition[int],
    settings: ClientSettings,
    known: ClusterMetadata,
    send: Callable[[SendListOffsets], ListOffsetsResponse],
    refresh: Callable[[frozenset[str]], None],
    *,
    unknown_topic_timeout_ms: int = 0,
) -> dict[TopicPartition, int]:
    """The offset for each timestamp. ``send`` and ``refresh`` (of topics' metadata, into ``known``) raise KafkaError. Errors
    that pass are retried for default.api.timeout.ms, a topic that no broker knows no longer than its own timeout. Raises
    KafkaError."""
    config = LookupConfig(
        timeout_ms=settings.default_api_timeout_ms,
        unknown_topic_timeout_ms=unknown_topic_timeout_ms,
        committed_only=settings.committed_only,
        backoff=backoff_of(settings),
    )
    wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
    lookup = OffsetLookup(wanted, config, known, _now_ms())
    errors: dict[ErrorCode, KafkaError] = {}
    while not lookup.is_done:
        for effect in lookup.next(_now_ms()):
            try:
                if isinstance(effect, SendListOffsets):
                    lookup.answered(effect, send(effect), _now_ms(), _jitter())
                else:
                    refresh(effect.topics)
                    lookup.metadata_refreshed(effect, _now_ms(), _jitter())
            except KafkaError as error:
                if not error.retriable:
                    raise
                errors[error.code] = error
                _report(lookup, effect, error.code)
        deadline_ms = lookup.next_deadline_ms()
        if deadline_ms is not None:
            time.sleep(max(deadline_ms - _now_ms(), 0) / 1000)
    if lookup.failure is not None:
        code, partition = lookup.failure.code, str(lookup.failure)
        raise errors[code] if code in errors and not partition else KafkaError(code, partition or None)
    return lookup.offsets


def committed(
    group_id: str,
    partitions: Collection[tuple[str, int]],
    settings: ClientSettings,
    known: ClusterMetadata,
    send: Callable[[SendOffsetFetch], OffsetFetchResponse],
    look_up_coordinator: Callable[[], None],
) -> dict[TopicPartition, int]:
    """The group's committed offsets, -1 where there is none. ``send`` and ``look_up_coordinator`` (into ``known``) raise
    KafkaError. Errors that pass are retried for default.api.timeout.ms. Raises KafkaError."""
    pending = PendingOffsets.AWAITED if settings.committed_only else PendingOffsets.IGNORED
    config = CommittedConfig(settings.default_api_timeout_ms, pending, backoff_of(settings))
    wanted = [TopicPartition(*partition) for partition in partitions]
    lookup = CommittedLookup(group_id, wanted, config, known, _now_ms())
    failed: KafkaError | None = None  # the last attempt, where it had no response
    while not lookup.is_done:
        effect = lookup.next(_now_ms())
        if effect is None:
            due_ms = lookup.next_deadline_ms()
            assert due_ms is not None
            time.sleep(max(due_ms - _now_ms(), 0) / 1000)
            continue
        failed = None
        try:
            if isinstance(effect, SendOffsetFetch):
                lookup.answered(effect, send(effect), _now_ms(), _jitter())
            else:
                look_up_coordinator()
                lookup.coordinator_looked_up(ErrorCode.NONE, _now_ms(), _jitter())
        except KafkaError as error:
            failed = error
            if isinstance(effect, SendOffsetFetch):
                lookup.failed(effect, error.code, _now_ms(), _jitter(), is_final=not error.retriable)
            else:
                lookup.coordinator_looked_up(error.code, _now_ms(), _jitter(), is_final=not error.retriable)
    if lookup.failure is not None:
        raise failed or KafkaError(lookup.failure.code, lookup.failure.where or f"group {group_id}")
    return {partition: stored.offset for partition, stored in lookup.offsets.items()}


def _report(lookup: OffsetLookup, effect: SendListOffsets | RefreshMetadata, code: ErrorCode) -> None:
    if isinstance(effect, SendListOffsets):
        lookup.failed(effect, code, _now_ms(), _jitter())
    else:
        lookup.metadata_refreshed(effect, _now_ms(), _jitter(), code)


def _now_ms() -> float:
    return time.monotonic() * 1000


def _jitter() -> float:
    return random.uniform(-1, 1)
