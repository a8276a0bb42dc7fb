"""What client quotas do: they throttle. A response goes out at once with its throttle_time_ms, and the connection is muted for
as long (KIP-219). Without a quota nothing is measured.

Differs from Kafka: a Fetch over its limit keeps its records, for which the client waits afterwards and not before.
"""

from __future__ import annotations

from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.requests.calls import Call
from coterie.quotas.limits import limit_of, limit_of_address
from coterie.quotas.rates import WINDOW_MS, Rates

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78
PRODUCED, FETCHED, HANDLED, CONNECTED = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
)
# Between brokers; and what leads to a session.
EXEMPT = frozenset({4, 5, 6, 7, 27, 17, 36})


class Throttling:
    """``windows`` and ``window_ms``: quota.window.num and quota.window.size.seconds."""

    def __init__(self, quotas: ClientQuotas, windows: int, window_ms: int = WINDOW_MS) -> None:
        self._quotas = quotas
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

    @property
    def is_active(self) -> bool:
        """Whether there is any quota at all."""
        return bool(self._quotas.values)

    def _record(self, key: str, call: Call, value: float, now_ms: int) -> int:
        if not self.limits(key):
            return 0
        limit = limit_of(self._quotas.values, key, call.connection.principal.name, call.client_id)
        return 0 if limit is None else self._rates[key].record(limit.shared_by, value, limit.rate, now_ms)

    def received(self, api_key: int, call: Call, size: int, now_ms: int) -> int:
        """How long to throttle (ms) for the bytes of a request."""
        return self._record(PRODUCED, call, size, now_ms) if api_key == PRODUCE else 0

    def handled(self, api_key: int, call: Call, took_s: float, now_ms: int) -> int:
        """How long to throttle (ms) for the time that a request has taken: a percentage of one processor."""
        if api_key in EXEMPT:
            return 0
        return min(self._record(HANDLED, call, took_s * 100, now_ms), self._longest_ms)

    def sent(self, api_key: int, call: Call, size: int, now_ms: int) -> int:
        """How long to throttle (ms) for the bytes of a response."""
        return self._record(FETCHED, call, size, now_ms) if api_key in (FETCH, SHARE_FETCH) else 0

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
