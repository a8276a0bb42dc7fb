"""Where each partition is read, and what of it is fetched and not handed out yet: batches, unfolded when polled. And whether
the position is still in the log after another leader was elected (KIP-320): the new leader's log may have been cut before it
(SubscriptionState.maybeCompleteValidation, OffsetsForLeaderEpochUtils).

A position whose last record is of an older leader epoch than the metadata's is validated before it is fetched; one of the same
epoch is not, since no leader cuts what it has written itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

from coterie.consuming.record import Record, TimestampType, TopicPartition
from coterie.machines.backoff import Retries
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.records.batch import TIMESTAMP_TYPE_BIT, BatchError, BatchHeader, batches, check_crc
from coterie.records.decoding import decode_rows
from coterie.records.markers import marker_of
from coterie.records.message_sets import is_legacy, readable
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.fetch import PartitionData
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNKNOWN = -1
UNKNOWN_EPOCH = -1
NEVER_FAILED_MS = float("-inf")
VALIDATED_FROM = (
    3  # the first version of OffsetForLeaderEpoch that a consumer may use: older ones need rights on the cluster
)


@dataclass(frozen=True, slots=True)
class Stored:
    """One fetched batch; ``data`` is that of the whole response, or the batch made of an old message. ``skipped``: nothing in
    it is for the reader."""

    data: bytes
    at: int
    header: BatchHeader
    skipped: bool

    def bytes(self) -> bytes:
        """The whole batch, its header included."""
        return self.data[self.at : self.at + self.header.size]


class FetchState(Enum):
    """Whether a partition can be fetched (SubscriptionState.FetchStates, and a batch that cannot be read)."""

    INITIALIZING = "no position yet: the committed offset or auto.offset.reset is to be looked up"
    FETCHING = "fetched from its leader"
    AWAIT_VALIDATION = "a new leader was elected: whether its log has the position is to be looked up"
    AWAIT_RESET = "the log has no such offset: auto.offset.reset is to be looked up"
    DAMAGED = "a batch or record there cannot be read; stays until a seek"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """``offset`` cannot be read, as ``cause`` states; ``next_offset`` is behind the batch as far as its header tells."""

    offset: int
    next_offset: int
    cause: Exception


@dataclass(slots=True)
class Position:
    """``offset`` is that of the next record handed out, UNKNOWN until it is looked up; ``fetch_offset`` is ahead of it by
    what is buffered. ``offset_epoch``: the leader epoch of the last record before ``offset``; ``validated_epoch``: that of the
    leader whose log is known to have it (KIP-320). ``retry_at_ms``: not fetched before, -inf where nothing failed;
    ``leader_due``: nor before the leader is looked up. ``refused``: the last fetch failed by an error that no retry mends;
    fetched again after the next poll. ``read_replica``: the broker that the leader named to read from, until
    ``replica_until_ms`` (KIP-392). ``paused`` by the user; ``unsubscribed``: its topic is not subscribed to any more;
    ``in_callback``: the listener is being notified that it comes or goes."""

    partition: TopicPartition
    offset: int = UNKNOWN
    fetch_offset: int = UNKNOWN
    state: FetchState = FetchState.INITIALIZING
    offset_epoch: int = UNKNOWN_EPOCH
    validated_epoch: int = UNKNOWN_EPOCH
    damage: Unreadable | None = None
    retries: Retries | None = None
    retry_at_ms: float = NEVER_FAILED_MS
    leader_due: bool = False
    refused: bool = False
    read_replica: int | None = None
    replica_until_ms: float = NEVER_FAILED_MS
    high_watermark: int = -1
    last_stable_offset: int = -1
    paused: bool = False
    unsubscribed: bool = False
    in_callback: bool = False
    buffered_bytes: int = 0
    stored: deque[Stored] = field(default_factory=deque)
    _records: list[Record] = field(default_factory=list)
    _next: int = 0
    _after: int = UNKNOWN  # the offset after the batch that ``_records`` are of
    _aborted_producers: set[int] = field(default_factory=set)

    def start_at(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Reads from ``offset`` on; UNKNOWN: an offset must be looked up before. ``epoch``: the leader epoch of the record
        before, as far as it is known."""
        self.offset = self.fetch_offset = offset
        self.offset_epoch = epoch
        self.state = FetchState.INITIALIZING if offset == UNKNOWN else FetchState.FETCHING

    @property
    def known_epoch(self) -> int:
        """The leader epoch before the offset, or at it, as far as anything was read there."""
        if self.offset_epoch == UNKNOWN_EPOCH and self.stored:
            return self.stored[0].header.leader_epoch
        return self.offset_epoch

    @property
    def is_held(self) -> bool:
        """Whether nothing of it is fetched and handed out for now."""
        return self.paused or self.unsubscribed or self.in_callback

    def fresh(self) -> Position:
        """A position of the same partition: nothing is buffered, no response is awaited; a pause after an error
        stays."""
        new = Position(self.partition, paused=self.paused, unsubscribed=self.unsubscribed, in_callback=self.in_callback)
        new.retries, new.retry_at_ms, new.leader_due = self.retries, self.retry_at_ms, self.leader_due
        return new

    def unvalidated(self) -> Position:
        """The same position, of which nothing is buffered and no response is awaited."""
        new = self.fresh()
        new.refused, new.validated_epoch = self.refused, self.validated_epoch
        new.high_watermark, new.last_stable_offset = self.high_watermark, self.last_stable_offset
        new.start_at(self.offset, self.known_epoch)
        new.state = FetchState.AWAIT_VALIDATION
        return new

    def is_wanted(self, buffer_bytes: int) -> bool:
        """Whether a request for it is due: to validate it, or to fetch more, unless over ``buffer_bytes`` are unread."""
        if self.refused:
            return False
        if self.state is FetchState.AWAIT_VALIDATION:
            return True
        return self.state is FetchState.FETCHING and not self.is_held and self.buffered_bytes <= buffer_bytes

    def damaged(self, damage: Unreadable) -> None:
        """Not fetched any further; what is buffered before the damage is still handed out."""
        self.state, self.damage = FetchState.DAMAGED, damage

    def is_buffered(self) -> bool:
        """Whether something that was fetched has not been handed out."""
        return self._next < len(self._records) or bool(self.stored)

    def store(
        self, data: PartitionData, *, committed_only: bool, check_crcs: bool, control_batches: bool = False
    ) -> None:
        """Takes a partition's part of a response. Raises BatchError, CompressionError for a damaged batch; those before it
        are stored then, and ``fetch_offset`` is where it would be read."""
        self.high_watermark, self.last_stable_offset = data.high_watermark, data.last_stable_offset
        aborted: list[tuple[int, int]] = []
        for transaction in (data.aborted_transactions or ()) if committed_only else ():
            heappush(aborted, (transaction.first_offset, transaction.producer_id))
        raw, begin = data.records or b"", self.fetch_offset
        for batch, at, header in _fetched(raw, begin, check_crcs):
            if header.last_offset < self.fetch_offset:
                continue
            if check_crcs:
                check_crc(batch, at, header)
            skipped = header.is_control and not control_batches
            if committed_only:
                skipped = self._is_aborted(batch, at, header, aborted) or skipped
            self.stored.append(Stored(batch, at, header, skipped))
            self.buffered_bytes += header.size
            self.fetch_offset = header.last_offset + 1
        self._pass_over()
        if raw and self.fetch_offset == begin:
            raise BatchError(f"{len(raw)} bytes were returned without a whole batch that reaches the offset")

    def _is_aborted(self, raw: bytes, at: int, header: BatchHeader, aborted: list[tuple[int, int]]) -> bool:
        """Keeps count of the producers whose aborted transactions are open here (KIP-98)."""
        while aborted and aborted[0][0] <= header.last_offset:
            self._aborted_producers.add(heappop(aborted)[1])
        if header.is_control:
            if marker_of(raw, at, header) is False:
                self._aborted_producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborted_producers

    def _pass_over(self) -> None:
        """Batches in front that hold nothing for the reader move the position on by themselves."""
        while self.stored and self.stored[0].skipped and self._next >= len(self._records):
            batch = self.stored.popleft()
            self.buffered_bytes -= batch.header.size
            self.offset = max(self.offset, batch.header.last_offset + 1)
            self.offset_epoch = batch.header.leader_epoch

    def take(self, limit: int) -> list[Record]:
        """Up to ``limit`` records; the position moves on past them. Raises BatchError, CompressionError."""
        if self._next >= len(self._records) and not self._unfold():
            return []
        first, count = self._next, len(self._records)
        end = min(first + limit, count)
        taken = self._records[first:end] if first or end < count else self._records
        self._move_to(end)
        return taken

    def take_decoded(self) -> Record | None:
        """The next record, where it is decoded already; the position moves on past it."""
        index = self._next
        if index >= len(self._records):
            return None
        record = self._records[index]
        self._move_to(index + 1)
        return record

    def _move_to(self, index: int) -> None:
        if index < len(self._records):
            self._next, self.offset = index, self._records[index].offset
        else:
            self.offset, self._records, self._next = self._after, [], 0
            self._pass_over()

    def _unfold(self) -> bool:
        """The next batch becomes records; False when there is none."""
        self._pass_over()
        while self.stored:
            batch = self.stored[0]
            records = self._records_of(batch)  # may raise: then the batch stays in front
            self.stored.popleft()
            self.buffered_bytes -= batch.header.size
            if batch.header.base_offset < self.offset:
                records = [r for r in records if r.offset >= self.offset]
            self._after = batch.header.last_offset + 1
            self.offset_epoch = batch.header.leader_epoch
            if records:
                self._records, self._next = records, 0
                return True
            self.offset = self._after  # nothing but records before the position
            self._pass_over()
        return False

    def _records_of(self, batch: Stored) -> list[Record]:
        header = batch.header
        times = TimestampType.LOG_APPEND_TIME if header.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME
        return decode_rows(batch.data, batch.at, header, Record, self.partition, (times, header.leader_epoch))

    def take_batches(self, limit_bytes: int) -> Iterator[Stored]:
        """Whole batches instead of records; the first may begin before the position."""
        while self.stored and limit_bytes > 0:
            batch = self.stored.popleft()
            self.buffered_bytes -= batch.header.size
            limit_bytes -= batch.header.size
            if not batch.skipped:
                yield batch
            self.offset = batch.header.last_offset + 1
            self.offset_epoch = batch.header.leader_epoch


def _fetched(raw: bytes, first_offset: int, check_crcs: bool) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """The batches of a response, and those made of old messages: (bytes, where it is in them, header). Raises BatchError."""
    for piece in readable(raw, first_offset, check_crcs=check_crcs) if is_legacy(raw) else (raw,):
        for at, header in batches(piece):
            yield piece, at, header


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where the newest epoch up to the position's ends in the leader's log: ``end_offset`` -1 where the log has none of
    them."""

    code: ErrorCode
    leader_epoch: int = UNKNOWN_EPOCH
    end_offset: int = UNKNOWN

    @property
    def is_undefined(self) -> bool:
        """Whether the leader cannot tell."""
        return self.end_offset == UNKNOWN or self.leader_epoch == UNKNOWN_EPOCH


def is_to_validate(position: Position, leader_epoch: int) -> bool:
    """``leader_epoch``: the metadata's, -1 where it has none."""
    return position.state is FetchState.FETCHING and UNKNOWN_EPOCH < position.known_epoch < leader_epoch > (
        position.validated_epoch
    )


def validation_request(
    positions: Mapping[TopicPartition, Position], known: ClusterMetadata
) -> OffsetForLeaderEpochRequest:
    """The request to the leader of these partitions."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, index), position in positions.items():
        entry = topics.setdefault(topic, OffsetForLeaderTopic(topic))
        entry.partitions.append(
            OffsetForLeaderPartition(index, known.leader_epoch(topic, index), position.offset_epoch)
        )
    return OffsetForLeaderEpochRequest(topics=list(topics.values()))


def epoch_ends(
    response: OffsetForLeaderEpochResponse, positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, EpochEnd]:
    """The end of the epoch of each partition of the request; one that the response does not name has failed."""
    ends = dict.fromkeys(positions, EpochEnd(ErrorCode.NETWORK_EXCEPTION))
    for topic in response.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.topic, result.partition)
            if partition in ends:
                ends[partition] = EpochEnd(error_of(result.error_code), result.leader_epoch, result.end_offset)
    return ends
