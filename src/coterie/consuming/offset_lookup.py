"""The offsets of timestamps, -1 the end and -2 the start, from the leader of each partition (ListOffsets): which leaders
receive requests, what is requested again and when, how it ends (Kafka's OffsetFetcher.fetchOffsetsByTimes).

A round has a request for every leader of what is still missing. What fails by an error that may pass is requested again after a
pause (KIP-580), from the leader that new metadata names; what was returned is kept. A partition's error passes, whatever it is,
unless it is one of LASTING (Kafka's OffsetFetcherUtils.handleListOffsetResponse).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.consuming.effects import RefreshMetadata
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff, Retries
from coterie.machines.cluster_metadata import NO_NODE, ClusterMetadata
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LASTING = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})
UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, eq=False)
class SendListOffsets:
    """Send to that broker, then call `OffsetLookup.responded` or `OffsetLookup.failed`."""

    node_id: int
    request: ListOffsetsRequest
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """``timeout_ms``: of the whole, 0 for a single attempt; ``unknown_topic_timeout_ms`` where no broker knows the topic.
    ``request_timeout_ms``: for which a broker may look in remote storage. ``committed_only``: the end is where the first
    open transaction begins. ``each``: a partition's error ends the lookup of that partition alone, and a topic that no broker
    knows is not waited for."""

    timeout_ms: float
    unknown_topic_timeout_ms: float
    request_timeout_ms: int = 30_000
    committed_only: bool = False
    each: bool = False
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class LookupFailure:
    """``partition`` None: its request as a whole."""

    code: ErrorCode
    partition: TopicPartition | None

    @property
    def where(self) -> str:
        """The partition as a text, empty for the request as a whole."""
        return "" if self.partition is None else f"{self.partition.topic}-{self.partition.partition}"


class OffsetLookup:
    """One lookup. ``offsets`` has what is known so far; an offset of -1: no record has such a timestamp. ``failure``: the
    lookup has ended without the others; or, where each partition counts for itself, ``errors`` says why one has no offset.
    Times in ms of the driver's clock, ``jitter`` between -1 and 1."""

    def __init__(
        self, timestamps: Mapping[TopicPartition, int], config: LookupConfig, known: ClusterMetadata, now_ms: float
    ) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.failure: LookupFailure | None = None
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.passing: LookupFailure | None = None  # of the last round, after which another follows
        self._config, self._known = config, known
        self._missing = dict(timestamps)
        self._retries = Retries(config.backoff, now_ms)
        self._under_way: set[SendListOffsets] = set()
        self._is_refreshed = False  # in this round
        self._refreshing: RefreshMetadata | None = None
        self._stale = set(known.topics_to_look_up({topic for topic, _ in timestamps}, now_ms))
        self._failed: LookupFailure | None = None
        self._codes: dict[TopicPartition, ErrorCode] = {}  # the partitions' own failures of this round
        self._retry_at_ms: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything is looked up, or the lookup has failed."""
        return not self._missing or self.failure is not None

    def next(self, now_ms: float) -> list[SendListOffsets | RefreshMetadata]:
        """The effects that are due; each is returned once."""
        if self.is_done or self._refreshing is not None or self._under_way:
            return []
        if self._retry_at_ms is not None:
            if now_ms < self._retry_at_ms:
                return []
            self._retry_at_ms = None
        stale = self._stale | {tp.topic for tp in self._missing if self._leader(tp) is None}
        sends = [] if stale and not self._is_refreshed else self._requests()
        if not sends:
            self._refreshing = RefreshMetadata(frozenset(stale))
            return [self._refreshing]
        self._under_way = set(sends)
        return [*sends]

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although nothing happened; None: only after an input."""
        return None if self.is_done else self._retry_at_ms

    def _leader(self, partition: TopicPartition) -> int | None:
        leader = self._known.leader(*partition)
        return None if leader == NO_NODE else leader

    def _requests(self) -> list[SendListOffsets]:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in self._missing.items():
            leader = self._leader(partition)
            if leader is not None:
                by_leader.setdefault(leader, {})[partition] = timestamp
        return [SendListOffsets(leader, self._request(p), frozenset(p)) for leader, p in by_leader.items()]

    def _request(self, timestamps: dict[TopicPartition, int]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for (topic, index), timestamp in timestamps.items():
            entry = topics.setdefault(topic, ListOffsetsTopic(topic))
            entry.partitions.append(ListOffsetsPartition(index, self._known.leader_epoch(topic, index), timestamp))
        isolation_level = int(self._config.committed_only)
        return ListOffsetsRequest(-1, isolation_level, list(topics.values()), self._config.request_timeout_ms)

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def metadata_refreshed(
        self, refresh: RefreshMetadata, now_ms: float, jitter: float, code: ErrorCode = ErrorCode.NONE
    ) -> None:
        """The topics' leaders are as new as they can be; ``code``: no response came, for this reason."""
        assert refresh is self._refreshing
        self._refreshing = None
        if code:
            self._fail(code, None)
            self._round_ended(now_ms, jitter)
            return
        self._stale, self._is_refreshed = set(), True
        leaderless = [partition for partition in self._missing if self._leader(partition) is None]
        for partition in leaderless:
            info = self._known.topic(partition.topic)
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if self._known.leader(*partition) == NO_NODE:
                missing = ErrorCode.LEADER_NOT_AVAILABLE
            self._fail(info.error or missing if info is not None else missing, partition)
        if all(self._leader(partition) is None for partition in self._missing) or self.failure is not None:
            self._round_ended(now_ms, jitter)

    def responded(self, sent: SendListOffsets, response: ListOffsetsResponse, now_ms: float, jitter: float) -> None:
        """A partition that the response does not name has failed."""
        self._under_way.remove(sent)
        unnamed = set(sent.partitions)
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if partition not in unnamed:
                    continue
                unnamed.remove(partition)
                code = error_of(result.error_code)
                if code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
                    # The format before 0.10 has no timestamps.
                    self.offsets[partition] = NO_OFFSET if code else result.offset
                    self._missing.pop(partition, None)
                    self._known.epoch_seen(*partition, result.leader_epoch)
                else:
                    self._fail(code, partition, may_pass=code not in LASTING)
        for partition in sorted(unnamed):
            self._fail(ErrorCode.NETWORK_EXCEPTION, partition)
        self._round_ended(now_ms, jitter)

    def failed(self, sent: SendListOffsets, code: ErrorCode, now_ms: float, jitter: float) -> None:
        """No response came, for a reason that may pass."""
        self._under_way.remove(sent)
        self._stale |= {topic for topic, _ in sent.partitions}
        self._fail(code, None)
        self._round_ended(now_ms, jitter)

    def _fail(self, code: ErrorCode, partition: TopicPartition | None, *, may_pass: bool | None = None) -> None:
        """Notes a failure; ``may_pass`` None: the code says whether it may."""
        failed = LookupFailure(code, partition)
        passes = code.retriable if may_pass is None else may_pass
        if partition is not None:
            self._stale.add(partition.topic)
            self._codes[partition] = code
        if partition is not None and self._config.each and (not passes or code in UNKNOWN):
            self.errors[partition] = code
            del self._missing[partition]
        elif not passes:
            self.failure = self.failure or failed
        self._failed = self._failed or failed

    def _round_ended(self, now_ms: float, jitter: float) -> None:
        """Once no request is under way: what failed is due again after a pause."""
        if self._under_way or self.is_done:
            return
        failed, self._failed, self._is_refreshed = self._failed, None, False
        codes, self._codes = self._codes, {}
        assert failed is not None, "a round without a failure leaves nothing missing"
        is_unknown = failed.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        config = self._config
        limit_ms = min(config.timeout_ms, config.unknown_topic_timeout_ms) if is_unknown else config.timeout_ms
        pause_ms = self._retries.failed(now_ms, limit_ms, jitter)
        if pause_ms is None and config.each:
            self.errors |= {partition: codes.get(partition, failed.code) for partition in self._missing}
            self._missing.clear()
        elif pause_ms is None:
            self.failure = failed
        else:
            self.passing = failed
            self._retry_at_ms = now_ms + pause_ms
