"""`backoff` with this process's clock and randomness: how every part of a client waits before it tries again, and which errors
are worth it: what `wire.errors` calls retriable, unless a part names them as final for itself."""

from __future__ import annotations

from coterie.client.errors import KafkaError
from coterie.client.pauses.clock import jitter, now_ms
from coterie.client.settings.settings import ClientSettings
from coterie.machines.backoff import Backoff, Retries
from coterie.wire.errors import ErrorCode

FOREVER_S = float("inf")
# Retriable, since the topic may be made yet; final where a caller is to hear of a slip at once.
NO_SUCH_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def backoff_of(settings: ClientSettings) -> Backoff:
    """The pauses of a client: from retry.backoff.ms up to retry.backoff.max.ms."""
    return Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)


class Retrying:
    """The attempts of one piece of work, whose timeout begins now."""

    def __init__(self, settings: ClientSettings, timeout_s: float = FOREVER_S) -> None:
        self._retries, self._timeout_s = Retries(backoff_of(settings), now_ms()), timeout_s

    def succeeded(self) -> None:
        """The next failure is the first of a new row, and its timeout begins with it."""
        self._retries.succeeded()

    def pause_after_s(self, error: KafkaError, *, final: frozenset[ErrorCode] = frozenset()) -> float:
        """An attempt failed: the pause before the next one. Raises the error where there is none: it is not one that passes, or
        one of ``final``, or the timeout is over."""
        pause_s = self.next_pause_s() if error.retriable and error.code not in final else None
        if pause_s is None:
            raise error
        return pause_s

    def next_pause_s(self) -> float | None:
        """An attempt failed, whatever by: the pause before the next one; None once the timeout is over."""
        pause_ms = self._retries.failed(now_ms(), self._timeout_s * 1000, jitter())
        return None if pause_ms is None else pause_ms / 1000
