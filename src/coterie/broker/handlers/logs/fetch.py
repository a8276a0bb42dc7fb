"""Fetch: records now, or a wait for min.bytes of them; in full, or as part of a session (`fetch_sessions`)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic as time_s
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import Access, access_of, from_brokers
from coterie.broker.handlers.cluster import name_leaders
from coterie.broker.handlers.logs.waiting_tail import WaitingTail, check_leader
from coterie.broker.handlers.services import FetchServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import (
    Fetch,
    FetchedPartition,
    PartitionKey,
    Read,
    is_consumer,
    replica_id,
    size_of,
)
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import AT_ONCE, Work, finish
from coterie.broker.storage.topic import INTERNAL_TOPICS, Partition
from coterie.broker.storage.topics import Topics
from coterie.log.aside import Aside, at_once, resumable
from coterie.log.leader_epochs import UNDEFINED_OFFSET
from coterie.log.reading import cut_short, read_committed, read_message_set, read_visible
from coterie.records.compression import ZSTD
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

READ_COMMITTED = 1
MESSAGE_FORMATS = {0: 0, 1: 0, 2: 1, 3: 1}  # of the versions before record batches
RESPONSE_LIMIT_FROM, BATCHES_FROM, LEADERS_FROM = 3, 4, 16
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle_fetch(broker: FetchServices, request: FetchRequest, call: Call) -> Message | Pending:
    """Answered at once, or by `_Wait`; a follower's Fetch goes to the replicas. FETCH_SESSION_ID_NOT_FOUND and the
    other errors of sessions are the response's, all others a partition's."""
    if broker.member is not None and replica_id(request) >= 0:
        return _fetch_of_a_follower(broker, request, call)
    now_ms = broker.clock.now_ms()
    try:
        fetch = broker.fetch_sessions.begin(request, call.api_version > topic_names.FETCH, now_ms)
    except Refusal as refusal:
        return FetchResponse(error_code=refusal.code)
    if _is_of_a_reader(broker.topics, request, fetch):
        broker.clients.seen.fetched(call, now_ms)
    fetching = _Fetching(broker, request, fetch, call, _reads_committed(request))
    if fetching.in_turns:
        fetching.took_s = 0.0  # in which others have turns too
        return broker.turns.run(_in_turns(fetching, now_ms))
    read, enough = fetching.read()
    if enough or request.max_wait_ms <= 0 or not fetch.partitions:
        return fetching.response(read, now_ms)
    return _Wait(fetching, read).pending


def _is_of_a_reader(topics: Topics, request: FetchRequest, fetch: Fetch) -> bool:
    """Not of a tool under the same client id, which looks at single records or at what groups have stored."""
    names = (topics.name_of(f.topic, f.topic_id, fetch.by_id) for f in fetch.partitions.values())
    return (request.max_wait_ms > 0 or request.min_bytes > 0) and any(name not in INTERNAL_TOPICS for name in names)


@from_brokers
def _fetch_of_a_follower(broker: FetchServices, request: FetchRequest, call: Call) -> Message | Pending:
    assert broker.member is not None
    return broker.member.follower_fetches.fetch(request)


def _in_turns(fetching: _Fetching, now_ms: int) -> Work:
    read, enough = yield from fetching.reading()
    yield
    if enough or fetching.request.max_wait_ms <= 0:
        return fetching.response(read, now_ms)
    return _Wait(fetching, read).pending


def _again(fetching: _Fetching) -> Work:
    """After a wait: whatever there is by now."""
    read, _ = yield from fetching.reading()
    yield
    return fetching.response(read, fetching.broker.clock.now_ms())


@dataclass(slots=True)
class _Fetching:
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
        check_leader(partition, wanted)
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


class _Wait:
    """A fetch that waits until min.bytes are there; its response is sent at the latest after max_wait_ms.

    As in Kafka's DelayedFetch bytes are counted while they are appended, and read once there are enough: an append costs
    little, however many fetches wait for it.
    """

    def __init__(self, fetching: _Fetching, read: Read) -> None:
        fetching.took_s = time_s() - fetching.began_s
        self._fetching = fetching
        broker, request = fetching.broker, fetching.request
        self.pending = Pending()
        self.pending.cancel = self._stop
        self._min_bytes = min(request.min_bytes, fetching.allowed_bytes)
        self._tails = fetching.tails(read)
        self._bytes = sum(tail.bytes for tail in self._tails)
        for tail in self._tails:
            tail.changed = self._changed
            tail.partition.watchers[tail.appended] = None
        # No connection may be silent for longer (connections.max.idle.ms), so no fetch waits for longer.
        idle_ms = broker.max_idle_ms
        wait_ms = request.max_wait_ms if idle_ms < 0 else min(request.max_wait_ms, idle_ms)
        self._timer = broker.scheduler.call_later(wait_ms / 1000, self._finish)
        for tail in [tail for tail in self._tails if tail.has_changed()]:  # while others were read
            tail.appended()

    def _changed(self, tail: WaitingTail, by: int) -> None:
        self._bytes += by
        if self.pending.response is not None or (self._bytes < self._min_bytes and not tail.is_refused()):
            return
        if self._fetching.in_turns:
            self._finish()
            return
        read, enough = self._fetching.read()
        if enough:
            self._done(read)

    def _finish(self) -> None:
        if self._fetching.in_turns:
            self._stop()
            self.pending.respond_with(self._fetching.broker.turns.run(_again(self._fetching)))
        else:
            self._done(self._fetching.read()[0])

    def _stop(self) -> None:
        self._timer.cancel()
        for tail in self._tails:
            tail.partition.watchers.pop(tail.appended, None)
        self._tails.clear()  # which refer to this

    def _done(self, read: Read) -> None:
        self._stop()
        self.pending.respond(self._fetching.response(read, self._fetching.broker.clock.now_ms()))


def _reads_committed(request: FetchRequest) -> bool:
    """Replicas read to the end of the log, whatever isolation they request."""
    return request.isolation_level == READ_COMMITTED and is_consumer(request)


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


HANDLERS: dict[int, Handler] = {1: handle_fetch}
