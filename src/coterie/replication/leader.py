"""The leader of a partition: appends, followers, the ISR and the high watermark (Kafka's Partition, KIP-16, KIP-101)."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coterie.log.leader_epochs import EndOfEpoch
from coterie.replication.states import (
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    PartitionState,
    ReplicaError,
    ReplicaFetch,
    ReplicaFetched,
    ReplicaLog,
    ReplicaRefusal,
    ReplicationConfig,
    TopicPartition,
    WriteIsr,
)

UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class RemoteReplica:
    """A follower as its leader knows it. ``caught_up_ms``: the last time at which it had all that the leader had then."""

    end_offset: int = UNKNOWN_OFFSET
    start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_offset: int = 0  # at its last fetch

    def fetched(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A follower that fetches at the leader's end is caught up now; one that has reached the end of its last fetch was
        caught up then."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif fetch_offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = fetch_offset
        self.fetched_ms, self.leader_end_offset = now_ms, leader_end_offset


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An append with acks=all; it is acknowledged when the high watermark is at ``end_offset``."""

    end_offset: int
    token: object


class Leader:
    """``state`` is the ISR as ZooKeeper last confirmed it, within the assignment. While a change of the ISR is under way or
    unconfirmed, the high watermark waits for the members of both (`_maximal_isr`), so that it is right whichever holds."""

    def __init__(
        self,
        broker_id: int,
        partition: TopicPartition,
        log: ReplicaLog,
        config: ReplicationConfig,
        state: PartitionState,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        self.broker_id, self.partition, self.log, self.config = broker_id, partition, log, config
        self.state, log.high_watermark = state.within_assignment(), high_watermark
        self.start_offset = log.end_offset  # of this epoch
        log.begin_epoch(state.leader_epoch)
        self.remotes = self._followers({}, now_ms)
        self._waiting: deque[_Waiting] = deque()
        self._pending: PartitionState | None = None  # an ISR that is being written
        self._unconfirmed: frozenset[int] = frozenset()  # one whose write was refused after it may have been done

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def begin(self, now_ms: int) -> list[Effect]:
        """A lone member of the ISR has its high watermark at the log's end at once."""
        return self._advance(now_ms)

    def resumed(self, state: PartitionState, now_ms: int) -> list[Effect]:
        """The controller confirms the leader in a new epoch, perhaps with another ISR: followers' positions stay."""
        self.state, self._pending, self._unconfirmed = state.within_assignment(), None, frozenset()
        self.start_offset = self.log.end_offset
        self.log.begin_epoch(state.leader_epoch)
        self.remotes = self._followers(self.remotes, now_ms)
        return self._advance(now_ms)

    def _followers(self, before: Mapping[int, RemoteReplica], now_ms: int) -> dict[int, RemoteReplica]:
        """In a new epoch members of the ISR count as caught up, and the others as behind: the high watermark does not wait for
        a broker that the controller has just removed from the ISR because it is dead."""
        state = self.state
        followers = {r: before.get(r, RemoteReplica()) for r in state.replicas if r != self.broker_id}
        for replica, follower in followers.items():
            follower.caught_up_ms = now_ms if replica in state.isr else 0
        return followers

    def end(self) -> list[Effect]:
        """The leader resigns. The outcome of the appends that wait is unknown: they are refused."""
        refused: list[Effect] = [AppendDecided(w.token, ReplicaError.NOT_LEADER_OR_FOLLOWER) for w in self._waiting]
        self._waiting.clear()
        return refused

    # -- producers and consumers ----------------------------------------------------------------------------------------

    def append(self, batch: Any, token: object, now_ms: int, *, acks_all: bool) -> list[Effect]:
        """The effects hold `AppendDecided` for the token, now or later. Raises ReplicaRefusal NOT_ENOUGH_REPLICAS; nothing is
        appended then."""
        if acks_all and len(self._in_sync(now_ms)) < self.config.min_insync_replicas:
            raise ReplicaRefusal(ReplicaError.NOT_ENOUGH_REPLICAS)
        before = self.log.end_offset
        self.log.append_as_leader(batch, self.state.leader_epoch)
        assert self.log.end_offset >= before, "an append never shortens the log"
        effects: list[Effect] = []
        if acks_all and self.log.end_offset > self.high_watermark:
            self._waiting.append(_Waiting(self.log.end_offset, token))
        else:  # also a repeated batch that all in sync have: the high watermark may never move again
            effects.append(AppendDecided(token))
        return effects + self._advance(now_ms)

    def read(self, offset: int) -> ReplicaFetched:
        """A consumer's fetch, below the high watermark. Raises ReplicaRefusal OFFSET_OUT_OF_RANGE."""
        if not self.log.start_offset <= offset <= self.log.end_offset:
            raise ReplicaRefusal(ReplicaError.OFFSET_OUT_OF_RANGE)
        return self._result(self.log.read(offset, self.high_watermark))

    # -- followers ------------------------------------------------------------------------------------------------------

    def fetch(self, request: ReplicaFetch, now_ms: int) -> tuple[ReplicaFetched, list[Effect]]:
        """A follower's fetch: its offset says what the follower has. Raises ReplicaRefusal."""
        self.state.check_epoch(request.current_leader_epoch)
        remote = self.remotes.get(request.replica_id)
        if remote is None:
            raise ReplicaRefusal(ReplicaError.NOT_LEADER_OR_FOLLOWER)
        end_offset = self.log.end_offset
        if not self.log.start_offset <= request.fetch_offset <= end_offset:
            raise ReplicaRefusal(ReplicaError.OFFSET_OUT_OF_RANGE)
        is_behind = request.fetch_offset < end_offset
        batches = self.log.read(request.fetch_offset, end_offset, request.max_bytes) if is_behind else ()
        remote.fetched(request.fetch_offset, end_offset, now_ms)
        effects = self._expand(request.replica_id, remote)
        effects += self._advance(now_ms)
        if remote.start_offset != request.start_offset:
            remote.start_offset = request.start_offset
            effects.append(FollowerStartMoved(self.partition))
        return self._result(batches), effects

    def is_still_caught_up(self, replica: int, end_offset: int, start_offset: int, *, now_ms: int) -> bool:
        """Whether a follower in the ISR that fetches again from the same offsets finds all as it was: everything is committed
        and it has everything. Its fetch is noted then, and `fetch` would do no more."""
        remote, log = self.remotes.get(replica), self.log
        if remote is None or remote.end_offset != end_offset or remote.start_offset != start_offset:
            return False
        if not end_offset == log.end_offset == log.high_watermark or replica not in self.state.isr:
            return False
        remote.caught_up_ms = remote.fetched_ms = now_ms
        return True

    def end_of_epoch(self, request: EpochLookup) -> EndOfEpoch:
        """Raises ReplicaRefusal."""
        self.state.check_epoch(request.current_leader_epoch)
        return self.log.epochs.end_of(request.epoch, self.log.end_offset)

    def _result(self, batches: Any) -> ReplicaFetched:
        assert self.high_watermark <= self.log.end_offset, "what is committed is in the leader's log"
        return ReplicaFetched(batches, self.high_watermark, self.log.start_offset, self.log.end_offset)

    def low_watermark(self, live: Container[int]) -> int:
        """The offset before which no live replica has records any more (KIP-107)."""
        starts = [remote.start_offset for replica, remote in self.remotes.items() if replica in live]
        return min([self.log.start_offset, *starts])

    @property
    def is_behind_epoch(self) -> bool:
        """Whether the high watermark is still below what this leader began with: records that were acknowledged by the leader
        before may be above it (KIP-207)."""
        return self.high_watermark < self.start_offset

    # -- the ISR --------------------------------------------------------------------------------------------------------

    def _expand(self, replica: int, remote: RemoteReplica) -> list[Effect]:
        """A follower joins the ISR when it has all below the high watermark, and has reached the leader's own epoch: before
        that the high watermark may be an old one."""
        if self._pending is not None or replica in self.state.isr:
            return []
        if remote.end_offset < max(self.high_watermark, self.start_offset):
            return []
        return self._write_isr((*self.state.isr, replica))

    def tick(self, now_ms: int) -> list[Effect]:
        """Requests that followers leave the ISR that were not caught up for replica.lag.time.max.ms.

        Where fewer than min.insync.replicas are in sync, none leaves, as at a failure (`election.after_failure`): each has what
        was acknowledged, unless its machine lost power, and the one that left may be the last with everything. The high
        watermark waits for all of them. Kafka 2.6 lets all leave; KIP-966 has Kafka's own way."""
        effects: list[Effect] = []
        if self._pending is None:
            in_sync = self._in_sync(now_ms)
            if self.config.min_insync_replicas <= len(in_sync) < len(self.state.isr):
                effects = self._write_isr(tuple(r for r in self.state.isr if r in in_sync))
        return effects + self._advance(now_ms)

    def shrink_to(self, kept: Container[int]) -> list[Effect]:
        """The other replicas leave the ISR, as if they lagged."""
        return self._write_isr(tuple(r for r in self.state.isr if r in kept or r == self.broker_id))

    def _in_sync(self, now_ms: int) -> set[int]:
        """The members of the ISR that do not lag."""
        return {r for r in self.state.isr if r == self.broker_id or not self._lags(r, now_ms)}

    def _lags(self, replica: int, now_ms: int) -> bool:
        remote = self.remotes[replica]
        at_end = remote.end_offset == self.log.end_offset
        return not at_end and now_ms - remote.caught_up_ms > self.config.replica_lag_time_max_ms

    def _write_isr(self, isr: tuple[int, ...]) -> list[Effect]:
        assert {self.broker_id} <= {*isr} <= {*self.state.replicas}, "the ISR is of replicas, and has the leader"
        self._pending = replace(self.state, isr=isr)
        return [WriteIsr(self.partition, self._pending)]

    def isr_written(self, written: PartitionState, version: int, now_ms: int) -> list[Effect]:
        """The node holds the ISR of that `WriteIsr`, in that version."""
        if self._pending is not written:
            return []  # of an earlier epoch
        self.state, self._pending, self._unconfirmed = replace(written, version=version), None, frozenset()
        return self._advance(now_ms)

    def isr_refused(self, written: PartitionState, current: PartitionState | None, now_ms: int) -> list[Effect]:
        """Another has written. Where the node names this leader in this epoch still, a replica has left the ISR by itself,
        and the rest holds; else this leader may be none any more, and waits for the controller with the ISR that it has. The
        other may have written after this write, of which the response was lost: its new members may be in the ISR."""
        if self._pending is not written:
            return []
        self._pending = None
        if current is None or (current.leader, current.leader_epoch) != (self.broker_id, self.state.leader_epoch):
            self._unconfirmed |= set(written.isr)
            return []
        self.state, self._unconfirmed = current.within_assignment(), frozenset()
        return self._advance(now_ms)

    def update_metadata(self, state: PartitionState, now_ms: int) -> list[Effect]:
        """What the controller's UpdateMetadata has of the partition. A newer version of the node in this leader's epoch, which
        this leader has not written: a replica has left the ISR by itself (`ControllerMachine`), and may join again. While a
        write of its own is under way, the leader learns of it by the refusal."""
        own = self.state
        is_own = (state.leader, state.leader_epoch) == (self.broker_id, own.leader_epoch)
        if self._pending is not None or not is_own or state.version <= own.version:
            return []
        confirmed = replace(own, isr=state.isr, version=state.version)
        self.state, self._unconfirmed = confirmed.within_assignment(), frozenset()
        return self._advance(now_ms)

    # -- the high watermark ---------------------------------------------------------------------------------------------

    def _maximal_isr(self) -> Iterable[int]:
        if self._pending is None and not self._unconfirmed:
            return self.state.isr
        return {*self.state.isr, *self._unconfirmed, *(self._pending.isr if self._pending else ())}

    def _advance(self, now_ms: int) -> list[Effect]:
        """The high watermark is the least end offset of the ISR and of the replicas that are caught up: they may join soon."""
        high_watermark = self.log.end_offset
        if high_watermark <= self.log.high_watermark:
            return []
        oldest_ms, remotes = now_ms - self.config.replica_lag_time_max_ms, self.remotes
        for replica in self._maximal_isr():
            if replica != self.broker_id and remotes[replica].end_offset < high_watermark:
                high_watermark = remotes[replica].end_offset
        for remote in remotes.values():
            if remote.end_offset < high_watermark and remote.caught_up_ms >= oldest_ms:
                high_watermark = remote.end_offset
        if high_watermark <= self.high_watermark:
            return []
        self.log.high_watermark = high_watermark
        return [HighWatermarkMoved(self.partition, high_watermark), *self._acknowledge()]

    def _acknowledge(self) -> list[Effect]:
        too_few = len(self.state.isr) < self.config.min_insync_replicas
        error = ReplicaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else None
        effects: list[Effect] = []
        while self._waiting and self._waiting[0].end_offset <= self.high_watermark:
            effects.append(AppendDecided(self._waiting.popleft().token, error))
        return effects
