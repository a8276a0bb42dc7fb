"""The pauses between the attempts of a request that fails (KIP-580), without a clock and without randomness: the time and the
jitter are arguments."""

from __future__ import annotations

from dataclasses import dataclass

JITTER = 0.2  # retry.backoff.jitter, a constant in Kafka's CommonClientConfigs
_MOST_DOUBLINGS = 63  # the settings are 64-bit numbers: none is doubled more often before it reaches its maximum


@dataclass(frozen=True, slots=True)
class Backoff:
    """retry.backoff.ms and retry.backoff.max.ms, as Kafka's ExponentialBackoff reads them: where the first is not the smaller,
    every pause lasts the maximum, without jitter."""

    initial_ms: int = 100
    max_ms: int = 1_000

    def pause_ms(self, failures: int, jitter: float = 0.0) -> int:
        """The pause after an attempt that ``failures`` failed attempts in a row came before. ``jitter`` between -1 and 1
        shortens or lengthens it by up to 20 %; the maximum holds with it."""
        if self.initial_ms >= self.max_ms:
            return self.max_ms
        pause_ms = min(self.initial_ms << min(failures, _MOST_DOUBLINGS), self.max_ms)
        return min(int(pause_ms * (1 + JITTER * jitter)), self.max_ms)


@dataclass(slots=True)
class Retries:
    """The attempts of one piece of work. ``started_ms``: when its timeout began; None: begins with the next failure."""

    backoff: Backoff
    started_ms: float | None
    failures: int = 0

    def failed(self, now_ms: float, timeout_ms: float, jitter: float) -> float | None:
        """The pause before the next attempt, cut short at the timeout; None once that is over: the work has failed."""
        if self.started_ms is None:
            self.started_ms = now_ms
        left_ms = self.started_ms + timeout_ms - now_ms
        if left_ms <= 0:
            return None
        pause_ms = self.backoff.pause_ms(self.failures, jitter)
        self.failures += 1
        return min(pause_ms, left_ms)

    def succeeded(self) -> None:
        """The next failure is the first of a new row, and of a new timeout."""
        self.started_ms, self.failures = None, 0
