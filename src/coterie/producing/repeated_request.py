"""A request of a producer to the cluster, for leaders or a producer id: one at a time, repeated after a pause (KIP-580)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.machines.backoff import Retries
from coterie.producing.accumulator import FOREVER_MS


@dataclass(slots=True)
class RepeatedRequest:
    """``is_out``: sent, and without a response. Times in ms; ``jitter`` between -1 and 1."""

    retries: Retries
    is_out: bool = False
    retry_at_ms: float = -FOREVER_MS

    def is_due(self, now_ms: float) -> bool:
        """Whether it may be sent."""
        return not self.is_out and now_ms >= self.retry_at_ms

    def succeeded(self) -> None:
        """It may be sent again at once."""
        self.is_out, self.retry_at_ms = False, -FOREVER_MS
        self.retries.succeeded()

    def failed(self, now_ms: float, jitter: float) -> None:
        """It may be sent again after a pause."""
        self.is_out, self.retry_at_ms = False, now_ms + (self.retries.failed(now_ms, FOREVER_MS, jitter) or 0)
