"""A Fetch request that is carried out: what it reads of each partition, and what it could have while it waits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic as time_s
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import Access, access_of
from coterie.broker.handlers.cluster import name_leaders
from coterie.broker.handlers.services import FetchServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import (
    Fetch,
    FetchedPartition,
    PartitionKey,
    Read,
    is_consumer,
    size_of,
)
from coterie.broker.requests.turns import AT_ONCE, finish
from coterie.broker.storage.topic import NO_LEADER_EPOCH, Partition
from coterie.broker.storage.topics import Topics
from coterie.log.aside import Aside, at_once, resumable
from coterie.log.leader_epochs import UNDEFINED_OFFSET
from coterie.log.reading import cut_short, read_committed, read_message_set, read_visible
from coterie.records.compression import ZSTD
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

MESSAGE_FORMATS = {0: 0, 1: 0, 2: 1, 3: 1}  # of the versions before record batches
RESPONSE_LIMIT_FROM, BATCHES_FROM, LEADERS_FROM = 3, 4, 16
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class RunningFetch:
    """A Fetch request that is carried out, once or several times until there is enough. ``committed``: only what
    transactions have decided is read. ``took_s``: the time until it had to wait."""

    broker: FetchServices
    request: FetchRequest
    fetch: Fetch
    call: Call
    committed: bool
    appended_bytes: dict[PartitionKey, int] = field(default_factory=dict)  # of each log, when it was read
    began_s: float = field(default_factory=time_s)
    took_s: float | None = None

    @property
    def in_turns(self) -> bool:
        """Whether it may take long: of many partitions, or in a format that records are converted to."""
        return len(self.fetch.partitions) > AT_ONCE or self.call.api_version < BATCHES_FROM

    @property
    def allowed_bytes(self) -> int:
        """The most that a response may have, which a quota for all its windows bounds too (KafkaApis.handleFetchRequest)."""
        at_most = min(self.request.max_bytes, self.broker.max_fetch_bytes)
        return min(at_most, self.broker.clients.throttling.fetched_at_most(self.call, at_most))

    @property
    def access(self) -> Access | None:
        """What the client may read; None without an authorizer."""
        return access_of(self.broker, self.call)

    def read(self) -> tuple[Read, bool]:
        """The records of each partition, and whether they are a response: min.bytes, or a partition that failed."""
        return finish(self.reading())

    def reading(self) -> Generator[Any, Any, tuple[Read, bool]]:
        """As `read`, a partition at each step.
        Partitions that do not exist come last, those of unknown topic ids before the others, as in Kafka's responses."""
        broker, fetch, request, version = self.broker, self.fetch, self.request, self.call.api_version
        read: Read = []
        unknown: Read = []
        failed = False
        room = broker.response_memory.room
        allowed = self.allowed_bytes
        limit = left = min(allowed, room)
        topics, by_id = broker.topics, fetch.by_id
        access = self.access
        first = room > 0  # without room there are no records at all
        for key, fetched in list(fetch.partitions.items()):  # which another request of the session may change
            yield
            index = fetched.wanted.partition
            try:
                partition = _partition(topics, fetched, by_id, access)
            except Refusal as refusal:
                unknown.append((key, fetched, PartitionData(index, refusal.code, records=b"")))
                continue
            self.appended_bytes[key] = partition.log.appended_bytes
            try:
                read_log = partial(self._read_log, partition, fetched, left, first)
                data = read_log(at_once) if version >= BATCHES_FROM else (yield from resumable(read_log))
            except Refusal as refusal:
                data, failed = _refused(index, refusal.code), True
            except OSError as error:
                broker.log_lines.warning("%s cannot be read: %s", partition.log.directory, error)
                data, failed = _refused(index, ErrorCode.KAFKA_STORAGE_ERROR), True
            read.append((key, fetched, data))
            failed = failed or data.diverging_epoch.end_offset != UNDEFINED_OFFSET
            if data.records:
                left -= len(data.records)
                first = False
        if unknown:
            unknown.sort(key=lambda part: part[2].error_code != ErrorCode.UNKNOWN_TOPIC_ID)
            read += unknown
        return read, failed or bool(unknown) or limit - left >= min(request.min_bytes, allowed)

    def _read_log(
        self, partition: Partition, fetched: FetchedPartition, left: int, first: bool, aside: Aside, /
    ) -> PartitionData:
        """A partition's records and offsets, ``left`` bytes at most unless it is the ``first`` with any. Raises Refusal."""
        wanted, log, version = fetched.wanted, partition.log, self.call.api_version
        _check_leader(partition, wanted)
        watermarks = log.high_watermark, log.last_stable_offset, log.log_start_offset
        diverging = _diverging_epoch(partition, wanted)
        if diverging is not None:
            data = PartitionData(wanted.partition, ErrorCode.NONE, *watermarks)
            data.diverging_epoch, data.records = diverging, b""
            return data
        if version < BATCHES_FROM and log.config.compression == ZSTD:
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        offset, limit, aborted = wanted.fetch_offset, min(wanted.partition_max_bytes, left), None
        # The first partition's first batch comes whole whatever its size, so that a consumer is never stuck.
        if version < BATCHES_FROM:
            whole = first and version >= RESPONSE_LIMIT_FROM
            magic, convert = MESSAGE_FORMATS[version], self.broker.message_sets.of
            records = read_message_set(log, offset, limit, magic, at_least_one=whole, aside=aside, convert=convert)
            if version < RESPONSE_LIMIT_FROM and not records:
                records = cut_short(log, offset, limit)
        elif self.committed:
            records, transactions = read_committed(log, offset, limit, at_least_one=first)
            if records or limit <= 0 or offset >= log.last_stable_offset:
                aborted = [AbortedTransaction(t.producer_id, t.first_offset) for t in transactions]
            # Otherwise the first batch is larger than the limit, of which Kafka returns null.
        else:
            records = read_visible(log, offset, limit, at_least_one=first)
        data = PartitionData(wanted.partition, ErrorCode.NONE, *watermarks)
        data.records, data.aborted_transactions = records, aborted
        return data

    def response(self, read: Read, now_ms: int) -> FetchResponse:
        """With the leaders of the partitions that this broker does not lead, or not in the client's epoch (KIP-951). Empty,
        and nothing counts as fetched, where the client is over a quota: KafkaApis.handleFetchRequest."""
        clients = self.broker.clients
        if clients.quotas.values and is_consumer(self.request):
            took_s = time_s() - self.began_s if self.took_s is None else self.took_s
            size = size_of(self.fetch, read, self.call.api_version)
            if throttle_ms := clients.throttling.fetched(self.call, size, took_s, now_ms):
                return self.broker.fetch_sessions.throttled(self.fetch, throttle_ms)
        response = self.broker.fetch_sessions.respond(self.fetch, read, now_ms)
        if self.call.api_version >= LEADERS_FROM:
            self._name_leaders(response)
        return response

    def _name_leaders(self, response: FetchResponse) -> None:
        refused: list[tuple[Partition, PartitionData]] = []
        for topic in response.responses:
            for data in topic.partitions:
                known = self.broker.topics.by_name.get(topic.topic) if data.error_code in _MOVED else None
                if known is not None and data.partition_index < len(known.partitions):
                    refused.append((known.partitions[data.partition_index], data))
        response.node_endpoints = name_leaders(self.broker, self.call, refused)

    def tails(self, read: Read) -> list[WaitingTail]:
        """One for each partition that exists; ``read``: what the fetch could have when it was read."""
        topics, tails = self.broker.topics, []
        for key, fetched, data in read:
            try:
                partition = _partition(topics, fetched, self.fetch.by_id, self.access)
            except Refusal:
                continue
            tails.append(
                WaitingTail(topics, partition, fetched.wanted, data, self.appended_bytes[key], committed=self.committed)
            )
        return tails


class WaitingTail:
    """What a waiting fetch can have of one partition: ``bytes`` of it, at most partition.max.bytes. To a reader of
    ``committed`` records something is new only when the last stable offset has moved."""

    def __init__(
        self,
        topics: Topics,
        partition: Partition,
        wanted: FetchPartition,
        read: PartitionData,
        appended_bytes: int,
        *,
        committed: bool,
    ) -> None:
        """``read`` when the log had so many ``appended_bytes``."""
        self.partition, self.bytes = partition, len(read.records or b"")
        self.changed: Callable[[WaitingTail, int], None]
        self._topics, self._wanted, self._committed = topics, wanted, committed
        self._before_bytes = self.bytes - appended_bytes
        self._stable_offset = read.last_stable_offset if committed else -1

    def has_changed(self) -> bool:
        """Whether something was appended since it was read."""
        return self._before_bytes + self.partition.log.appended_bytes > self.bytes

    def appended(self) -> None:
        """Something was appended, the topic is gone, or this broker's role has changed."""
        log = self.partition.log
        if self._committed and not self.is_refused():
            stable_offset = log.last_stable_offset
            if stable_offset == self._stable_offset:
                return
            self._stable_offset = stable_offset
        now = min(self._before_bytes + log.appended_bytes, self._wanted.partition_max_bytes)
        by, self.bytes = now - self.bytes, now
        self.changed(self, by)

    def is_refused(self) -> bool:
        """Whether the fetch receives an error: the topic was deleted, or another broker leads, or in another epoch."""
        topic = self._topics.by_name.get(self.partition.topic)
        index = self.partition.index
        if topic is None or index >= len(topic.partitions) or topic.partitions[index] is not self.partition:
            return True
        try:
            _check_leader(self.partition, self._wanted)
        except Refusal:
            return True
        return False


def _partition(topics: Topics, fetched: FetchedPartition, by_id: bool, access: Access | None) -> Partition:
    """Raises Refusal; a topic that is deleted, or created again, during a session keeps the name that its id had."""
    if not by_id:
        topic = topics.by_name.get(fetched.topic)
    else:
        topic = topics.by_id.get(fetched.topic_id)
        if topic is not None:
            fetched.topic = topic.name
        elif not fetched.topic:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        elif fetched.topic in topics.by_name and (
            access is None or access.allows_topic(AclOperation.READ, fetched.topic)
        ):
            raise Refusal(ErrorCode.INCONSISTENT_TOPIC_ID)
    if access is not None and not access.allows_topic(AclOperation.READ, fetched.topic):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    index = fetched.wanted.partition
    if topic is None or not 0 <= index < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.partitions[index]


def _refused(index: int, code: ErrorCode) -> PartitionData:
    """As Kafka 3.9: no records at all where there are some that cannot be converted for the client."""
    if code in (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNSUPPORTED_VERSION):
        return PartitionData(index, code, records=None)
    return PartitionData(index, code, aborted_transactions=None, records=b"")


def _diverging_epoch(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the log has left that of a client whose last record was of ``last_fetched_epoch`` (KIP-595). Raises Refusal
    OFFSET_OUT_OF_RANGE for an epoch that is not known."""
    if wanted.last_fetched_epoch < 0:
        return None
    end = partition.end_of_epoch(wanted.last_fetched_epoch)
    if end.end_offset == UNDEFINED_OFFSET:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch == wanted.last_fetched_epoch and end.end_offset >= wanted.fetch_offset:
        return None
    return EpochEndOffset(end.epoch, end.end_offset)


def _check_leader(partition: Partition, wanted: FetchPartition) -> None:
    """Of a fetch of that partition. Raises Refusal."""
    if wanted.current_leader_epoch >= 0 or partition.in_cluster:
        partition.check_leader(max(wanted.current_leader_epoch, NO_LEADER_EPOCH))
