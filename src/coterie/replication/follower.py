"""A follower of a partition: finds where its log agrees with the leader's, cuts the rest, and fetches (Kafka's
AbstractFetcherThread and ReplicaFetcherThread; KIP-101, KIP-279)."""

from __future__ import annotations

from coterie.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EndOfEpoch
from coterie.replication.states import (
    EpochLookup,
    PartitionState,
    ReplicaError,
    ReplicaFetch,
    ReplicaFetched,
    ReplicaLog,
    ReplicationConfig,
)

Request = EpochLookup | ReplicaFetch


class Follower:
    """One request is under way at a time: `next_request` gives it, and the inputs take it back with its response. Responses to
    requests of an earlier epoch are passed over."""

    def __init__(
        self, broker_id: int, log: ReplicaLog, config: ReplicationConfig, state: PartitionState, high_watermark: int
    ) -> None:
        self.broker_id, self.log, self.config, self.state = broker_id, log, config, state
        log.high_watermark = high_watermark
        self.truncates = True  # the log may hold what the leader's does not
        self.is_fenced = False  # the controller has a newer leader; nothing is fetched until it says so here
        self._due_ms = 0
        self._under_way: Request | None = None

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def leader(self) -> int:
        """NO_LEADER while there is none."""
        return self.state.leader

    def resumed(self, state: PartitionState) -> None:
        """A new epoch; the log is compared again, whether the leader has changed or not."""
        self.state, self.truncates, self.is_fenced, self._due_ms, self._under_way = state, True, False, 0, None

    def next_request(self, now_ms: int) -> Request | None:
        """None while one is under way, the back-off lasts, or there is no leader to reach."""
        if self._under_way is not None or self.is_fenced or self.leader < 0 or now_ms < self._due_ms:
            return None
        if self.truncates and self.log.epochs.latest == UNDEFINED_EPOCH:
            self._truncate(self.high_watermark)
        if self.truncates:
            self._under_way = EpochLookup(self.state.leader_epoch, self.log.epochs.latest)
        else:
            epoch, end_offset = self.state.leader_epoch, self.log.end_offset
            self._under_way = ReplicaFetch(self.broker_id, epoch, end_offset, self.log.start_offset)
        return self._under_way

    def next_deadline_ms(self) -> int | None:
        """When `next_request` may give one by itself."""
        return None if self._under_way is not None or self.is_fenced or self.leader < 0 else self._due_ms

    def rest_until(self, due_ms: int) -> None:
        """No request before; a follower at its leader's end, where the leader does not let it wait."""
        self._due_ms = due_ms

    def failed(self, request: Request, now_ms: int) -> None:
        """No response came to the request."""
        if self._is_over(request):
            self._due_ms = now_ms + self.config.replica_fetch_backoff_ms

    def refused(self, request: Request, error: ReplicaError, now_ms: int) -> None:
        """An error other than OFFSET_OUT_OF_RANGE."""
        if self._is_over(request):
            self._due_ms = now_ms + self.config.replica_fetch_backoff_ms
            self.is_fenced = error is ReplicaError.FENCED_LEADER_EPOCH

    def waits_for(self, request: Request) -> bool:
        """Whether the request is still the one under way."""
        return self._under_way is request

    def _is_over(self, request: Request) -> bool:
        """Whether it is the one that was under way."""
        is_over = self._under_way is request
        if is_over:
            self._under_way = None
        return is_over

    def epoch_ended(self, request: EpochLookup, leaders: EndOfEpoch) -> None:
        """The leader's response to `EpochLookup`."""
        if not self._is_over(request):
            return
        end_offset = self.log.end_offset
        if leaders.end_offset == UNDEFINED_OFFSET:
            self._truncate(self.high_watermark)  # the leader knows no epoch of this log
            return
        own = self.log.epochs.end_of(leaders.epoch, end_offset)
        if leaders.epoch == UNDEFINED_EPOCH or own.epoch == UNDEFINED_EPOCH:
            self._truncate(leaders.end_offset)
        elif own.epoch == leaders.epoch:
            self._truncate(min(own.end_offset, leaders.end_offset))
        else:  # the leader lacks the epochs behind: compare the rest
            self._cut(min(own.end_offset, leaders.end_offset))

    def _truncate(self, offset: int) -> None:
        self._cut(offset)
        self.truncates = False

    def _cut(self, offset: int) -> None:
        """An epoch that begins at the log's end goes in any case: it is of this broker as a leader that appended nothing. A
        replica that nobody counts on is cut at its gap, which the leader fills; one in the ISR may be the next leader."""
        gap_offset = self.log.gap_offset
        if gap_offset is not None and self.broker_id not in self.state.isr:
            offset = min(offset, gap_offset)
        self.log.truncate_to(min(offset, self.log.end_offset))
        self.log.high_watermark = min(self.high_watermark, self.log.end_offset)

    def fetched(self, request: ReplicaFetch, result: ReplicaFetched) -> None:
        """The leader's response to `ReplicaFetch`."""
        if not self._is_over(request):
            return
        log = self.log
        if result.batches:
            if log.start_offset < log.end_offset <= result.start_offset:
                self._give_up_deleted()
            log.append_as_follower(result.batches)
        start_offset = log.start_offset
        high_watermark = max(min(result.high_watermark, log.end_offset), start_offset)
        if high_watermark != log.high_watermark:
            log.high_watermark = high_watermark
        if result.start_offset > start_offset:
            log.advance_start(min(result.start_offset, high_watermark))

    def _give_up_deleted(self) -> None:
        """The leader has deleted all that this log holds, and had perhaps other records there: then its first batch may begin
        before this log's end, which an empty log takes."""
        self.log.high_watermark = self.log.end_offset
        self.log.advance_start(self.log.end_offset)

    def out_of_range(self, request: ReplicaFetch, leader_start_offset: int, leader_end_offset: int) -> None:
        """OFFSET_OUT_OF_RANGE: the leader's log ends before this one does, which an unclean election brings about, or begins
        behind it, after retention."""
        if not self._is_over(request):
            return
        if leader_end_offset < self.log.end_offset:
            self._cut(leader_end_offset)
        elif leader_start_offset > self.log.end_offset:
            self.log.start_anew_at(leader_start_offset)
            self.log.high_watermark = leader_start_offset
