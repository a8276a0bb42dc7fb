"""A partition's part of a ShareFetch response: the batches, of which only the acquired records are handed out (Kafka's
ShareCompletedFetch)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.consuming.record import ShareRecord, TimestampType
from coterie.consuming.sharing.acknowledgements import GAP, AcknowledgeType, TopicIdPartition
from coterie.records.batch import TIMESTAMP_TYPE_BIT, batches, check_crc
from coterie.records.decoding import decode_rows
from coterie.wire.messages.share.share_fetch import SharePartitionData

Deserialize = Callable[[ShareRecord[Any, Any]], ShareRecord[Any, Any]]


@dataclass(slots=True)
class HandedOut:
    """What is handed out at once. ``types``: acknowledgements that need no user: of gaps, and of records that cannot be read.
    ``damage``: why ``damaged`` offsets cannot be read."""

    records: list[ShareRecord[Any, Any]] = field(default_factory=list)
    types: dict[int, int] = field(default_factory=dict)
    damage: Exception | None = None
    damaged: frozenset[int] = frozenset()


class CompletedShareFetch:
    """Records that broker ``node_id`` acquired for this member, until all are handed out."""

    def __init__(
        self,
        node_id: int,
        partition: TopicIdPartition,
        data: SharePartitionData,
        lock_timeout_ms: int,
        check_crcs: bool,
    ) -> None:
        self.node_id, self.partition, self.lock_timeout_ms = node_id, partition, lock_timeout_ms
        self._counts: dict[int, int] = {}
        for run in data.acquired_records:  # of two that overlap the first counts, as in Kafka
            for offset in range(run.first_offset, run.last_offset + 1):
                self._counts.setdefault(offset, run.delivery_count)
        self._data = data.records or b""
        self._check_crcs = check_crcs
        self._batches = batches(self._data)
        self._rows: deque[ShareRecord[Any, Any]] = deque()
        self._damage: HandedOut | None = None  # comes by itself, after the records before it

    @property
    def is_consumed(self) -> bool:
        """Whether every acquired offset is handed out, as a record, a gap or damage."""
        return not self._counts and self._damage is None

    def take(self, limit: int, deserialize: Deserialize | None) -> HandedOut:
        """At least ``limit`` records where there are so many, and the rest of the batch that they end in. Damage behind records
        is left for the next call."""
        if self._damage is not None:
            damaged, self._damage = self._damage, None
            return damaged
        delivery = HandedOut()
        while self._rows or len(delivery.records) < limit:
            try:
                if not self._rows and not self._unfold():
                    self._pass_gaps(delivery, None)
                    break
            except Exception as error:  # any that the bytes made a decoder raise
                self._damaged(delivery, error, self._of_batch(), AcknowledgeType.REJECT)
                break
            record = self._rows.popleft()
            if record.offset not in self._counts:
                continue
            self._pass_gaps(delivery, record.offset)
            record = record._replace(delivery_count=self._counts.pop(record.offset))
            try:
                delivery.records.append(record if deserialize is None else deserialize(record))
            except Exception as error:
                self._damaged(delivery, error, frozenset({record.offset}), AcknowledgeType.RELEASE)
                break
        return delivery

    def _unfold(self) -> bool:
        """The next batch with records becomes rows; False once there is none. Raises what a damaged batch raises."""
        while not self._rows:
            following = next(self._batches, None)
            if following is None:
                return False
            at, header = self._header = following
            if self._check_crcs:
                check_crc(self._data, at, header)
            if not header.is_control:
                by = (
                    TimestampType.LOG_APPEND_TIME
                    if header.attributes & TIMESTAMP_TYPE_BIT
                    else TimestampType.CREATE_TIME
                )
                after = (by, header.leader_epoch, 1)
                self._rows.extend(decode_rows(self._data, at, header, ShareRecord, self.partition[1:], after))
        return True

    def _pass_gaps(self, delivery: HandedOut, before: int | None) -> None:
        """The acquired offsets before that one, without a record, are gaps; None: all that are left."""
        for offset in list(self._counts):
            if before is not None and offset >= before:
                break
            delivery.types[offset] = GAP
            del self._counts[offset]

    def _of_batch(self) -> frozenset[int]:
        """The acquired offsets of the batch that cannot be read; all that are left where it has no header."""
        header = getattr(self, "_header", (0, None))[1]
        if header is None:
            return frozenset(self._counts)
        return frozenset(offset for offset in self._counts if header.base_offset <= offset <= header.last_offset)

    def _damaged(self, delivery: HandedOut, error: Exception, offsets: frozenset[int], kind: AcknowledgeType) -> None:
        damaged = HandedOut([], dict.fromkeys(sorted(offsets), int(kind)), error, offsets)
        for offset in offsets:
            self._counts.pop(offset, None)
        if delivery.records:
            self._damage = damaged
        else:
            delivery.types |= damaged.types
            delivery.damage, delivery.damaged = error, offsets
