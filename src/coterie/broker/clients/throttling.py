"""What client quotas do: they throttle. A response goes out at once with its throttle_time_ms, and the connection is muted for
as long (KIP-219). Without a quota nothing is measured.

A Fetch over its consumer_byte_rate or its request_percentage has no records. Of controller_mutation_rate (KIP-599), of
partitions that are created and deleted, a bucket of tokens, one for each partition, is full with what the rate brings in all
windows, and may be overdrawn by the last topic. Then requests of the versions that know THROTTLING_QUOTA_EXCEEDED receive it
for each further topic, and others are carried out; both are throttled until the bucket is no longer overdrawn (Kafka's
ControllerMutationQuotaManager).
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.requests.calls import Call
from coterie.quotas import (
    MOST_REMEMBERED,
    WINDOW_MS,
    WINDOWS,
    Limit,
    Rates,
    TokenBucket,
    limit_of,
    limit_of_address,
)
from coterie.wire.errors import ErrorCode, Refusal

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
STRICT_SINCE = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}  # versions
PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78
# Whose handlers set throttle_time_ms themselves.
THROTTLED_BY_HANDLERS = frozenset({FETCH, *STRICT_SINCE})
PRODUCED, FETCHED, HANDLED, CONNECTED, MUTATED = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
    "controller_mutation_rate",
)
# Between brokers; what leads to a session; and Fetch, whose time `fetched` has.
EXEMPT = frozenset({4, 5, 6, 7, 27, 17, 36, FETCH})


class Mutations:
    """Of one request. ``bucket``: None without a quota. ``throttle_ms``: how long its client is throttled."""

    __slots__ = ("_bucket", "_is_strict", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._bucket, self._now_ms, self._is_strict = bucket, now_ms, is_strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """So many are created or deleted. Raises Refusal THROTTLING_QUOTA_EXCEEDED."""
        if self._bucket is None:
            return
        now_ms = self._now_ms()
        if not self._is_strict:
            self._bucket.take(partitions, now_ms)
        self.throttle_ms = max(self.throttle_ms, self._bucket.throttle_ms(now_ms))
        if self._is_strict:
            if self.throttle_ms:
                raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
            self._bucket.take(partitions, now_ms)


class Throttling:
    """``windows`` and ``window_ms``: quota.window.num and quota.window.size.seconds; ``mutations_s``: for how long the rate of
    mutations is kept for a burst."""

    def __init__(
        self, quotas: ClientQuotas, windows: int, window_ms: int = WINDOW_MS, mutations_s: int = WINDOWS
    ) -> None:
        self._quotas = quotas
        self._buckets: dict[int, TokenBucket] = {}  # as `Rates` has them
        self._mutations_s = mutations_s
        self._kept_s = (windows - 1) * window_ms // 1_000
        self._rates = {key: Rates(windows, window_ms) for key in (PRODUCED, FETCHED, HANDLED, CONNECTED)}
        self._longest_ms = window_ms  # of a throttle for the time of requests
        self._changes = -1  # of the quotas that are known
        self._keys: frozenset[str] = frozenset()

    def limits(self, key: str) -> bool:
        """Whether anybody has such a quota."""
        if self._quotas.changes != self._changes:
            self._changes = self._quotas.changes
            self._keys = frozenset(key for of_entity in self._quotas.values.values() for key in of_entity)
        return key in self._keys

    def _limit(self, key: str, call: Call) -> Limit | None:
        if not self.limits(key):
            return None
        return limit_of(self._quotas.values, key, call.connection.principal.name, call.client_id)

    def _record(self, key: str, call: Call, value: float, now_ms: int) -> int:
        limit = self._limit(key, call)
        return 0 if limit is None else self._rates[key].record(limit.shared_by, value, limit.rate, now_ms)

    def received(self, api_key: int, call: Call, size: int, now_ms: int) -> int:
        """How long to throttle (ms) for the bytes of a request."""
        return self._record(PRODUCED, call, size, now_ms) if api_key == PRODUCE else 0

    def handled(self, api_key: int, call: Call, took_s: float, now_ms: int) -> int:
        """How long to throttle (ms) for the time that a request has taken: a percentage of one processor."""
        return 0 if api_key in EXEMPT else self._handled(call, took_s, now_ms)

    def _handled(self, call: Call, took_s: float, now_ms: int) -> int:
        return min(self._record(HANDLED, call, took_s * 100, now_ms), self._longest_ms)

    def sent(self, call: Call, size: int, now_ms: int) -> int:
        """How long to throttle (ms) for the bytes of the response to a ShareFetch: its records are acquired, and sent."""
        return self._record(FETCHED, call, size, now_ms)

    def fetched(self, call: Call, size: int, took_s: float, now_ms: int) -> int:
        """How long to throttle (ms) for the bytes of the response to a Fetch, or for its time; then the records are not sent,
        and do not count (KafkaApis.handleFetchRequest)."""
        throttle_ms = max(self._record(FETCHED, call, size, now_ms), self._handled(call, took_s, now_ms))
        if throttle_ms:
            self._record(FETCHED, call, -size, now_ms)
        return throttle_ms

    def fetched_at_most(self, call: Call, otherwise: int) -> int:
        """The bytes that the client may fetch in all windows but one; ``otherwise`` without a quota."""
        limit = self._limit(FETCHED, call)
        return otherwise if limit is None else int(limit.rate * self._kept_s)

    def mutations(self, api_key: int, call: Call, now_ms: Callable[[], int]) -> Mutations:
        """What a request may create or delete."""
        limit, bucket = self._limit(MUTATED, call), None
        if limit is not None:
            burst, number = limit.rate * self._mutations_s, hash(limit.shared_by)
            bucket = self._buckets.get(number)
            if bucket is None or (bucket.rate, bucket.burst) != (limit.rate, burst):
                if len(self._buckets) >= MOST_REMEMBERED:
                    self._buckets.clear()
                bucket = self._buckets[number] = TokenBucket(limit.rate, burst)
        return Mutations(bucket, now_ms, is_strict=call.api_version >= STRICT_SINCE[api_key])

    def connected(self, address: str, now_ms: int) -> bool:
        """Whether a new connection from the address is too many for its quota; then it does not count, so that an address that
        goes on trying has its rate nonetheless (Kafka's ConnectionQuotas)."""
        if not self.limits(CONNECTED):
            return False
        limit = limit_of_address(self._quotas.values, CONNECTED, address)
        if limit is None or not self._rates[CONNECTED].record(address, 1, limit, now_ms):
            return False
        self._rates[CONNECTED].record(address, -1, limit, now_ms)
        return True
