"""enable.auto.commit: the positions of a consumer committed every auto.commit.interval.ms, and before partitions go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from coterie.client.committer import Committer
from coterie.client.errors import KafkaError
from coterie.client.membership import Membership
from coterie.client.retrying import Retrying
from coterie.client.settings import ClientSettings
from coterie.client.types import TopicPartition

SOONEST_S = 0.05  # how often a commit in flight is looked after


class AutoCommit:
    """``consumed()`` gives the positions. Does nothing without a group, or with enable.auto.commit=false."""

    def __init__(
        self,
        committer: Committer,
        settings: ClientSettings,
        group_id: str | None,
        consumed: Callable[[], dict[TopicPartition, int]],
    ) -> None:
        self._committer, self._settings, self._consumed = committer, settings, consumed
        self._enabled = settings.enable_auto_commit and group_id is not None
        self._next_s = float("inf")
        self._retrying = Retrying(settings)
        self._committing: asyncio.Task[None] | None = None

    def restart(self) -> None:
        """The next commit is due after the whole interval."""
        self._next_s = time.monotonic() + self._settings.auto_commit_interval_ms / 1000

    def due_in_s(self) -> float:
        """How long a poll may sleep before `if_due` has something to do."""
        return max(self._next_s - time.monotonic(), SOONEST_S) if self._enabled else float("inf")

    def if_due(self, membership: Membership | None) -> None:
        """At most one at a time; a failed one is made up for by the next."""
        is_idle = self._committing is None or self._committing.done()
        if not self._enabled or not is_idle or time.monotonic() < self._next_s:
            return
        self.restart()
        wanted = self._consumed()
        if wanted and (membership is None or membership.is_stable()):
            self._committing = self._committer.commit_async(wanted, self._committed)

    def _committed(self, offsets: dict[TopicPartition, int], error: Exception | None) -> None:
        if error is None:
            self._retrying.succeeded()
        elif isinstance(error, KafkaError) and error.retriable:
            self._next_s = time.monotonic() + (self._retrying.next_pause_s() or 0)

    async def now(self, timeout_s: float) -> None:
        """Commits, and waits for it no longer than that; a failure is none, since the next owner starts at the commit
        before."""
        wanted = self._consumed()
        if not self._enabled or not wanted:
            return
        try:
            await self._committer.commit(wanted, timeout_s)
        except KafkaError:
            return
