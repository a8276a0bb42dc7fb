"""enable.auto.commit: the positions of a consumer committed every auto.commit.interval.ms, and before partitions go
(`consuming.auto_commit` says when)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from coterie.client.consumer.committer import Committer
from coterie.client.errors import KafkaError, check
from coterie.client.pauses.clock import jitter, now_ms
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import OffsetAndMetadata, TopicPartition
from coterie.consuming.commits.commits import AutoCommitSchedule, CommitEnded
from coterie.wire.errors import ErrorCode

SOONEST_S = 0.05  # how long a poll sleeps at least between two looks at a commit that is overdue


class AutoCommit:
    """``consumed()`` gives the positions. Does nothing without a group, or with enable.auto.commit=false."""

    def __init__(
        self,
        committer: Committer,
        settings: ClientSettings,
        group_id: str | None,
        consumed: Callable[[], dict[TopicPartition, OffsetAndMetadata]],
    ) -> None:
        is_enabled = settings.enable_auto_commit and group_id is not None
        interval_ms = settings.auto_commit_interval_ms if is_enabled else None
        self._committer, self._consumed = committer, consumed
        self._schedule = AutoCommitSchedule(committer.machine, interval_ms)
        committer.on_ended = self._ended

    def restart(self) -> None:
        """The next commit is due after the whole interval."""
        self._schedule.restart(now_ms())

    def due_in_s(self) -> float:
        """How long a poll may sleep before `if_due` has something to do."""
        return max((self._schedule.next_ms - now_ms()) / 1000, SOONEST_S)

    def if_due(self) -> None:
        """Begins the commit that is due; a failed one is made up for by the next."""
        self._follow(self._schedule.poll(self._consumed, now_ms()))

    def raise_if_fenced(self) -> None:
        """Raises FencedInstanceIdError after an asynchronous or automatic commit that was, as Java's consumer does in each
        poll."""
        if self._committer.machine.is_fenced:
            check(ErrorCode.FENCED_INSTANCE_ID)

    def give_up(self) -> None:
        """Begins a commit before another assignment replaces this one."""
        self._follow(self._schedule.give_up(self._consumed))

    def _follow(self, token: int | None) -> None:
        if token is not None:
            self._committer.follow_async(token, {}, _ignore)

    def _ended(self, result: CommitEnded) -> None:
        if result.token == self._schedule.token:
            self._schedule.ended(result, now_ms(), jitter())

    async def now(self, timeout_s: float) -> None:
        """Commits, and waits for it no longer than that; a failure is none, since the next owner starts at the commit
        before."""
        token = self._schedule.commit_now(self._consumed, now_ms(), timeout_s * 1000)
        if token is not None:
            with contextlib.suppress(KafkaError):
                await self._committer.follow(token, timeout_s)


def _ignore(offsets: dict[TopicPartition, int], error: Exception | None) -> None:
    """The schedule has the result."""
