"""Client quotas as machines (KIP-13, KIP-55, KIP-124): which quota is whose (Kafka's DefaultQuotaCallback), the rate of what is
counted, over samples of a second (Kafka's Rate and SampledStat), and how long to throttle for it. Times are arguments.

The first quota that is set counts: of the user and client id, of the user with any client id, of the user; then the same of any
user; then of the client id, and of any client id.

A rate is over at least all windows but the current one, so that a first burst is not taken for a rate. A throttle is as long as
the rate needs to fall to its limit where nothing more comes (Kafka's QuotaUtils).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
Entity = tuple[tuple[str, str | None], ...]  # (type, name), sorted by type; None is the default of the type
Quotas = Mapping[Entity, Mapping[str, float]]
WINDOWS, WINDOW_MS = 11, 1_000  # quota.window.num, quota.window.size.seconds
MOST_REMEMBERED = 10_000  # of the users, client ids and addresses whose rates are kept


class Limit(NamedTuple):
    """``shared_by``: the user and the client id that it is measured for; "" where all of them share it."""

    rate: float
    shared_by: tuple[str, str]


def _entity(user: str | None, client_id: str | None) -> Entity:
    return ((CLIENT_ID, client_id), (USER, user))


def limit_of(quotas: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """None where nothing limits them."""
    for entity, shared_by in (
        (_entity(user, client_id), (user, client_id)),
        (_entity(user, None), (user, client_id)),
        (((USER, user),), (user, "")),
        (_entity(None, client_id), (user, client_id)),
        (_entity(None, None), (user, client_id)),
        (((USER, None),), (user, "")),
        (((CLIENT_ID, client_id),), ("", client_id)),
        (((CLIENT_ID, None),), ("", client_id)),
    ):
        rate = quotas.get(entity, {}).get(key)
        if rate is not None:
            return Limit(rate, shared_by)
    return None


def limit_of_address(quotas: Quotas, key: str, address: str) -> float | None:
    """None where nothing limits it."""
    for name in (address, None):
        rate = quotas.get(((IP, name),), {}).get(key)
        if rate is not None:
            return rate
    return None


@dataclass(slots=True)
class Rate:
    """``samples``: begin (ms) and sum of each window that had any."""

    windows: int = WINDOWS
    window_ms: int = WINDOW_MS
    samples: deque[tuple[int, float]] = field(default_factory=deque)

    def record(self, value: float, now_ms: int) -> None:
        """Counts a value now."""
        if self.samples and now_ms - self.samples[-1][0] < self.window_ms:
            begun_ms, total = self.samples.pop()
            self.samples.append((begun_ms, total + value))
        else:
            self.samples.append((now_ms, value))
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        while self.samples and now_ms - self.samples[0][0] >= self.windows * self.window_ms:
            self.samples.popleft()

    def window_size_ms(self, now_ms: int) -> int:
        """The time that the rate is over."""
        begun_ms = self.samples[0][0] if self.samples else now_ms
        elapsed_ms = now_ms - begun_ms
        missing = self.windows - 1 - elapsed_ms // self.window_ms
        return (elapsed_ms + max(missing, 0) * self.window_ms) or self.window_ms

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        self._forget(now_ms)
        return sum(total for _, total in self.samples) * 1_000 / self.window_size_ms(now_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait; 0 within the limit."""
        rate = self.per_second(now_ms)
        return round((rate - limit) / limit * self.window_size_ms(now_ms)) if rate > limit else 0


class Rates:
    """The rates of one kind of quota, by the hash of what they are measured for: a name may have 32,767 bytes."""

    def __init__(self, windows: int = WINDOWS, window_ms: int = WINDOW_MS) -> None:
        self._windows, self._window_ms = windows, window_ms
        self._rates: dict[int, Rate] = {}

    def record(self, key: object, value: float, limit: float, now_ms: int) -> int:
        """Counts a value; returns how long to throttle (ms)."""
        number = hash(key)
        rate = self._rates.get(number)
        if rate is None:
            if len(self._rates) >= MOST_REMEMBERED:
                self._rates.clear()
            rate = self._rates[number] = Rate(self._windows, self._window_ms)
        rate.record(value, now_ms)
        return rate.throttle_ms(limit, now_ms)


@dataclass(slots=True)
class TokenBucket:
    """``rate`` tokens come each second, ``burst`` at most are kept; full at first. As Kafka's TokenBucket."""

    rate: float
    burst: float
    tokens: float = field(init=False)
    at_ms: int | None = None  # when they were counted

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def _refill(self, now_ms: int) -> None:
        elapsed_ms = 0 if self.at_ms is None else max(0, now_ms - self.at_ms)
        self.tokens, self.at_ms = min(self.burst, self.tokens + self.rate * elapsed_ms / 1_000), now_ms

    def take(self, tokens: float, now_ms: int) -> None:
        """Also more than there are."""
        self._refill(now_ms)
        self.tokens -= tokens

    def throttle_ms(self, now_ms: int) -> int:
        """Until it is no longer overdrawn."""
        self._refill(now_ms)
        return round(-self.tokens / self.rate * 1_000) if self.tokens < 0 else 0
