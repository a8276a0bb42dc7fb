"""The leaders of partitions, as far as the machine that sends batches needs them: known or not, out of date, looked up.
Leaders, as a producer id, are requested once at a time, and again after a pause (KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.machines.backoff import Backoff, Retries
from coterie.producing.accumulator import FOREVER_MS
from coterie.producing.batch import ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.requests import Effect, ForgetLeaders, LookUpLeaders
from coterie.wire.errors import ErrorCode

LeaderOf = Callable[[str, int], int | None]
EpochOf = Callable[[str, int], int]
# By these a broker says that another one leads, so a look-up need not wait for the pause before the next attempt.
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


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


class Leaders:
    """``leader_of`` returns the node id of a partition's leader, None or -1 where it is not known; ``epoch_of`` the leader's
    epoch, -1 where that is not known. ``stale`` are the topics whose leaders are out of date, for `forgotten`."""

    def __init__(self, leader_of: LeaderOf, epoch_of: EpochOf, backoff: Backoff) -> None:
        self._leader_of, self.epoch_of = leader_of, epoch_of
        self.lookup = RepeatedRequest(Retries(backoff, None))
        self._wanted: set[str] = set()
        self.stale: set[str] = set()

    def of(self, partition: TopicPartition) -> int | None:
        """None where it is not known, or there is none."""
        leader = self._leader_of(*partition)
        return None if leader is None or leader < 0 else leader

    def have_changed(self, batch: ProducerBatch) -> bool:
        """Whether the batch's last attempt went to a leader of an older epoch, or of an unknown one (KIP-951)."""
        return batch.was_sent and batch.leader_epoch < self.epoch_of(*batch.partition)

    # -- what is wrong --------------------------------------------------------------------------------------------------

    def attempt_failed(self, batch: ProducerBatch, failure: ProduceFailure) -> None:
        """An attempt failed with an error that may pass. A newer leader that is known already is kept, and looked up beside."""
        topic, has_changed = batch.partition[0], self.have_changed(batch)
        if not has_changed:
            self.stale.add(topic)
        if has_changed or failure.code in _MOVED:
            self._wanted.add(topic)

    def doubt(self, topic: str) -> None:
        """The topic's leaders are to be looked up before anything else is sent to them."""
        self.stale.add(topic)

    def miss(self, topic: str) -> None:
        """A leader is needed and not known."""
        if not self.lookup.is_out:
            self._wanted.add(topic)

    # -- what follows ---------------------------------------------------------------------------------------------------

    def forgotten(self) -> list[Effect]:
        """An effect for each topic whose leaders are out of date, once."""
        effects: list[Effect] = [ForgetLeaders(topic) for topic in sorted(self.stale)]
        self.stale.clear()
        return effects

    def look_up(self, now_ms: float) -> list[Effect]:
        """The look-up that is due, if any: one at a time."""
        if not self._wanted or not self.lookup.is_due(now_ms):
            return []
        self.lookup.is_out = True
        return [LookUpLeaders(frozenset(self._wanted))]

    def looked_up(self) -> set[str]:
        """The topics of the look-up that has ended."""
        topics, self._wanted = self._wanted, set()
        return topics

    def look_up_ended(self, is_waiting: bool, now_ms: float, jitter: float) -> None:
        """``is_waiting``: a batch has no leader still, so that the next look-up has to pause."""
        if is_waiting:
            self.lookup.failed(now_ms, jitter)
        else:
            self.lookup.succeeded()
