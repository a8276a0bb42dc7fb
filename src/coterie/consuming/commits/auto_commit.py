"""enable.auto.commit: when a consumer's positions are committed without a call (maybeAutoCommitOffsetsAsync and
maybeAutoCommitOffsetsSync of Kafka's ConsumerCoordinator)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.consuming.commits.commits import CommitEnded, Commits
from coterie.consuming.commits.errors import RETRIED, Verdict
from coterie.consuming.commits.requests import CommitOffsets
from coterie.consuming.commits.verdicts import CommitPurpose, may_auto_commit
from coterie.machines.backoff import Retries
from coterie.member.consumer.machine import ConsumerMemberMachine

Consumed = Callable[[], CommitOffsets]


@dataclass(slots=True)
class AutoCommitSchedule:
    """One asynchronous commit every ``interval_ms`` (None: none at all), at most one under way; one that fails for a cause
    that passes is made up for after a pause, by a member of the consumer protocol at the next interval (its
    CommitRequestManager). ``consumed()`` gives the positions. Times in ms."""

    commits: Commits
    interval_ms: float | None
    next_ms: float = float("inf")
    token: int | None = None  # of the commit under way
    _retries: Retries | None = None

    def restart(self, now_ms: float) -> None:
        """The next commit is due after the whole interval."""
        if self.interval_ms is not None:
            self.next_ms = now_ms + self.interval_ms

    def poll(self, consumed: Consumed, now_ms: float) -> int | None:
        """Begins the commit that is due, and returns its token. While the member has no generation of its own none is made,
        and the interval begins again."""
        if self.token is not None or now_ms < self.next_ms:
            return None
        self.restart(now_ms)
        member, offsets = self.commits.member, consumed()
        if offsets and (member is None or may_auto_commit(member)):
            self.token = self.commits.commit_async(offsets)
        return self.token

    def commit_now(self, consumed: Consumed, now_ms: float, timeout_ms: float) -> int | None:
        """Begins the synchronous commit before partitions are given up; None where there is none to make. Its failure is no
        error: the next owner starts at the commit before."""
        offsets = consumed()
        if self.interval_ms is None or not offsets:
            return None
        return self.commits.commit(offsets, now_ms, timeout_ms, CommitPurpose.REVOCATION)

    def give_up(self, consumed: Consumed) -> int | None:
        """Begins the asynchronous commit of positions that another assignment replaces without a rebalance."""
        offsets = consumed()
        return self.commits.commit_async(offsets) if self.interval_ms is not None and offsets else None

    def ended(self, result: CommitEnded, now_ms: float, jitter: float) -> None:
        """A commit has ended, whether of this schedule or not."""
        if result.token != self.token:
            return
        self.token = None
        if result.verdict == Verdict.DONE:
            self._retries = None
        elif result.verdict in RETRIED and not isinstance(self.commits.member, ConsumerMemberMachine):
            self._retries = self._retries or Retries(self.commits.backoff, now_ms)
            self.next_ms = now_ms + (self._retries.failed(now_ms, float("inf"), jitter) or 0)
