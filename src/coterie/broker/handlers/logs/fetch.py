"""Fetch: records now, or a wait for min.bytes of them; in full, or as part of a session (`fetch_sessions`)."""

from __future__ import annotations

from time import monotonic as time_s

from coterie.broker.handlers.access.access import from_brokers
from coterie.broker.handlers.logs.running_fetch import RunningFetch, WaitingTail
from coterie.broker.handlers.services import FetchServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import (
    Fetch,
    Read,
    is_consumer,
    replica_id,
)
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import INTERNAL_TOPICS
from coterie.broker.storage.topics import Topics
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal
from coterie.wire.messages.logs.fetch import (
    FetchRequest,
    FetchResponse,
)

READ_COMMITTED = 1


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
    fetching = RunningFetch(broker, request, fetch, call, _reads_committed(request))
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


def _in_turns(fetching: RunningFetch, now_ms: int) -> Work:
    read, enough = yield from fetching.reading()
    yield
    if enough or fetching.request.max_wait_ms <= 0:
        return fetching.response(read, now_ms)
    return _Wait(fetching, read).pending


def _again(fetching: RunningFetch) -> Work:
    """After a wait: whatever there is by now."""
    read, _ = yield from fetching.reading()
    yield
    return fetching.response(read, fetching.broker.clock.now_ms())


class _Wait:
    """A fetch that waits until min.bytes are there; its response is sent at the latest after max_wait_ms.

    As in Kafka's DelayedFetch bytes are counted while they are appended, and read once there are enough: an append costs
    little, however many fetches wait for it.
    """

    def __init__(self, fetching: RunningFetch, read: Read) -> None:
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


HANDLERS: dict[int, Handler] = {1: handle_fetch}
