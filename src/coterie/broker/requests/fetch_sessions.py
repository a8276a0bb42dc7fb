"""Incremental fetch sessions (KIP-227): the broker remembers which partitions a consumer fetches, and from where.

A request then names only what changed, and a response holds only partitions with records, with a new high watermark or
log start, or with an error. The rules are those of Kafka's FetchSession.scala. No clock, no randomness: times and fresh
ids are passed in. A session does not end with its connection; it is evicted when its slot is wanted and

- it has not been used for two minutes, or
- it is older than two minutes and holds fewer partitions than the session that wants the slot, or
- a replica wants the slot and it is a consumer's (``privileged``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.framing import encode_response
from coterie.wire.messages.logs.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

EVICTION_MS = 120_000
NO_SESSION = 0
CONSUMER, FUTURE_REPLICA = -1, -3  # replica ids that are no broker's
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_FULL_FETCH = frozenset({INITIAL_EPOCH, FINAL_EPOCH})
_MAX_EPOCH = 2**31 - 1

PartitionKey = tuple[str | bytes, int]  # the topic's name, or its id where requests carry ids; the partition's index


def next_epoch(epoch: int) -> int:
    """The epoch that must follow; it wraps to 1, since 0 begins a session."""
    return 1 if epoch >= _MAX_EPOCH else epoch + 1


def replica_id(request: FetchRequest) -> int:
    """The fetching replica: a broker's id, -1 for a consumer, -3 for a replica that moves to another directory. From v15 on
    it is in the replica's state."""
    return request.replica_id if request.replica_id != CONSUMER else request.replica_state.replica_id


def is_consumer(request: FetchRequest) -> bool:
    """A follower's fetches are no consumer's; those of a replica that moves between directories count as neither."""
    return replica_id(request) < 0 and replica_id(request) != FUTURE_REPLICA


@dataclass(slots=True)
class FetchedPartition:
    """A partition as a request names it, and the offsets in its last response. ``topic`` is "" until its id is
    resolved to a name."""

    topic: str
    topic_id: bytes
    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must hold ``data``."""
        changed = self.high_watermark != data.high_watermark or self.log_start_offset != data.log_start_offset
        return changed or bool(data.records) or bool(data.error_code) or data.diverging_epoch.end_offset >= 0

    def apply(self, data: PartitionData) -> None:
        """Remembers what the consumer knows after a response with ``data``."""
        # After an error the partition is in the next response again, whatever its offsets.
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset


Partitions = dict[PartitionKey, FetchedPartition]
Read = list[tuple[PartitionKey, FetchedPartition, PartitionData]]


@dataclass(slots=True)
class CachedFetchSession:
    """One session; ``partitions`` in the order in which they are read."""

    session_id: int
    privileged: bool
    by_id: bool
    partitions: Partitions
    created_ms: int
    last_used_ms: int
    epoch: int = next_epoch(INITIAL_EPOCH)
    size: int = 0  # of partitions, when last used

    @property
    def eviction_key(self) -> tuple[bool, int, int]:
        """Small sessions go before large ones, and those of followers last (KIP-227)."""
        return self.privileged, self.size, self.session_id


@dataclass(slots=True)
class Fetch:
    """One request's partitions, in the order in which they are read, and the session that it is part of."""

    partitions: Partitions
    by_id: bool
    privileged: bool = False
    opens: bool = False  # a session begins with its response
    session: CachedFetchSession | None = None
    epoch: int = 0  # the session's after this request


@dataclass(slots=True)
class FetchSessions:
    """The sessions of a broker, at most ``slots``; ``new_id`` gives random positive int32."""

    slots: int
    new_id: Callable[[], int]
    eviction_ms: int = EVICTION_MS
    evictions: int = 0
    _sessions: dict[int, CachedFetchSession] = field(default_factory=dict)  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(session.size for session in self._sessions.values())

    def begin(self, request: FetchRequest, by_id: bool, now_ms: int) -> Fetch:
        """The partitions that a request fetches. Raises Refusal FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR."""
        epoch = request.session_epoch
        if epoch in _FULL_FETCH:
            if request.session_id:
                self._sessions.pop(request.session_id, None)
            return Fetch(_named(request, by_id), by_id, replica_id(request) >= 0, epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            self._update(session, request)
        if not session.partitions:
            del self._sessions[session.session_id]
            return Fetch(_named(request, by_id), by_id)
        self._touch(session, now_ms)
        session.epoch = next_epoch(epoch)
        return Fetch(session.partitions, by_id, session=session, epoch=session.epoch)

    @staticmethod
    def _update(session: CachedFetchSession, request: FetchRequest) -> None:
        partitions = session.partitions
        for key, named in _named(request, session.by_id).items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = named
            else:
                known.wanted = named.wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                partitions.pop((topic.topic_id if session.by_id else topic.topic, index), None)

    def respond(self, fetch: Fetch, read: Read, now_ms: int) -> FetchResponse:
        """The response to ``fetch`` with the records read for it; creates its session, or advances the session's epoch."""
        session = fetch.session
        if session is None:
            session_id = self._open(fetch, read, now_ms) if fetch.opens else NO_SESSION
            return FetchResponse(session_id=session_id, responses=_by_topic(read))
        if session.epoch != fetch.epoch:  # another request of the session overtook this one while it waited
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id)
        changed = _news(fetch, read)
        for _, partition, data in read:
            partition.apply(data)
        for key, partition, data in changed:
            # What had records is read last the next time, so that no partition starves the others. One that was
            # forgotten while the request waited moved the epoch on, so each is still there.
            if data.records and len(session.partitions) > 1:
                del session.partitions[key]
                session.partitions[key] = partition
        return FetchResponse(session_id=session.session_id, responses=_by_topic(changed))

    def throttled(self, fetch: Fetch, throttle_ms: int) -> FetchResponse:
        """The response in the place of `respond`'s to a client over its quota: without records, and as if nothing had been
        read. A session that was to begin does not."""
        session = fetch.session
        if session is None:
            return FetchResponse(throttle_ms, session_id=NO_SESSION)
        overtaken = session.epoch != fetch.epoch
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH if overtaken else ErrorCode.NONE
        return FetchResponse(throttle_ms, code, session.session_id)

    def _open(self, fetch: Fetch, read: Read, now_ms: int) -> int:
        if len(self._sessions) >= self.slots and not self._make_room(fetch.privileged, len(read), now_ms):
            return NO_SESSION
        session_id = self.new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self.new_id()
        for _, partition, data in read:
            # Unlike in later responses an error leaves the watermark of -1 that its data has.
            partition.high_watermark, partition.log_start_offset = data.high_watermark, data.log_start_offset
        partitions = {key: partition for key, partition, _ in read}
        session = CachedFetchSession(session_id, fetch.privileged, fetch.by_id, partitions, now_ms, now_ms)
        self._touch(session, now_ms)
        return session_id

    def _touch(self, session: CachedFetchSession, now_ms: int) -> None:
        session.last_used_ms, session.size = now_ms, len(session.partitions)
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = session

    def _make_room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Evicts a session for a new one of ``size`` partitions; False where none may be evicted."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms <= self.eviction_ms:
            evictable = [s for s in self._sessions.values() if self._is_evictable(s, privileged)]
            oldest = min(evictable, key=lambda s: s.eviction_key, default=None)
            if oldest is None or (privileged, size, 0) < oldest.eviction_key:
                return False
        del self._sessions[oldest.session_id]
        self.evictions += 1
        return True

    def _is_evictable(self, session: CachedFetchSession, by_privileged: bool) -> bool:
        lasting = session.last_used_ms - session.created_ms > self.eviction_ms
        return lasting or (by_privileged and not session.privileged)


def _named(request: FetchRequest, by_id: bool) -> Partitions:
    """The partitions that a request names; of a partition named twice the later entry counts."""
    partitions: Partitions = {}
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        key = topic_id if by_id else name
        for wanted in topic.partitions:
            partitions[key, wanted.partition] = FetchedPartition(name, topic_id, wanted)
    return partitions


def size_of(fetch: Fetch, read: Read, version: int) -> int:
    """The bytes of the response that `FetchSessions.respond` would make."""
    return len(encode_response(0, FetchResponse(responses=_by_topic(_news(fetch, read))), version))


def _news(fetch: Fetch, read: Read) -> Read:
    return read if fetch.session is None else [part for part in read if part[1].is_news(part[2])]


def _by_topic(read: Read) -> list[FetchableTopicResponse]:
    """As Kafka groups them: neighbours of one topic together, so that a topic may come more than once."""
    responses: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for (topic, _), partition, data in read:
        if topic != last:
            responses.append(FetchableTopicResponse(partition.topic, partition.topic_id))
            last = topic
        responses[-1].partitions.append(data)
    return responses
