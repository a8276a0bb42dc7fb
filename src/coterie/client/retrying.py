"""`backoff` with this process's clock and randomness: how every part of a client waits before it tries again."""

from __future__ import annotations

import random
import time

from coterie.backoff import Backoff, Retries
from coterie.client.settings import ClientSettings

FOREVER_S = float("inf")


def backoff_of(settings: ClientSettings) -> Backoff:
    """From retry.backoff.ms up to retry.backoff.max.ms."""
    return Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)


def pause_s(backoff: Backoff, failures: int) -> float:
    """With jitter, after an attempt that ``failures`` failed attempts in a row came before."""
    return backoff.pause_ms(failures, random.uniform(-1, 1)) / 1000


class Retrying:
    """The attempts of one piece of work, whose timeout begins now."""

    def __init__(self, settings: ClientSettings) -> None:
        self._retries = Retries(backoff_of(settings), time.monotonic() * 1000)

    def succeeded(self) -> None:
        """The next failure is the first of a new row, and its timeout begins with it."""
        self._retries.succeeded()

    def next_pause_s(self, timeout_s: float = FOREVER_S) -> float | None:
        """An attempt failed: the pause before the next one; None once ``timeout_s`` is over."""
        pause_ms = self._retries.failed(time.monotonic() * 1000, timeout_s * 1000, random.uniform(-1, 1))
        return None if pause_ms is None else pause_ms / 1000
