"""The rate of what is counted, over samples of a second (Kafka's Rate and SampledStat), and how long to throttle for it.

A rate is over at least all windows but the current one, so that a first burst is not taken for a rate. A throttle is as long as
the rate needs to fall to its limit where nothing more comes (Kafka's QuotaUtils).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOWS, WINDOW_MS = 11, 1_000  # quota.window.num, quota.window.size.seconds
MOST_REMEMBERED = 10_000  # of the users, client ids and addresses whose rates are kept


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
