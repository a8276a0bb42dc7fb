"""The committed offsets of a group, from its coordinator (OffsetFetch): when the coordinator is looked up, what is requested
again and when, how the lookup ends (Kafka's ConsumerCoordinator.fetchCommittedOffsets with its OffsetFetchResponseHandler, and
CommitRequestManager for members of the consumer protocol); and `OwnedOffsets`, what of them a member keeps.

The offsets come from one response: where one partition fails by an error that may pass, all of them are requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from coterie.consuming.effects import LookUpCoordinator
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff, Retries
from coterie.machines.cluster_metadata import GROUP, ClusterMetadata
from coterie.wire.errors import COORDINATOR_LOST, ErrorCode, error_of
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
)

STABLE_FROM = 7


class CommittedPosition(NamedTuple):
    """A committed offset, -1 where there is none, with its leader epoch and text."""

    offset: int
    leader_epoch: int
    metadata: str


class PendingOffsets(Enum):
    """What becomes of a partition whose newest offset belongs to an open transaction (KIP-447). Brokers tell from version 7 of
    OffsetFetch on, Apache Kafka 2.5."""

    IGNORED = "the offset before it is returned"
    AWAITED = "the transaction's end is awaited; an older broker returns the offset before it"
    NEVER_IGNORED = "the transaction's end is awaited; with an older broker the lookup fails"


class EpochMember(Protocol):
    """A member of the consumer protocol (KIP-848), as OffsetFetch names it from version 9 on."""

    @property
    def member_id(self) -> str:
        """Chosen by the member itself (KIP-1082)."""

    @property
    def member_epoch(self) -> int:
        """The epoch of the member's last heartbeat response; the broker refuses another with STALE_MEMBER_EPOCH."""


@dataclass(frozen=True, slots=True, eq=False)
class SendOffsetFetch:
    """Send to that broker in a version up to `wire.topic_names.OFFSET_FETCH`, then call `CommittedLookup.responded` or
    `CommittedLookup.failed`: the latter, with UNSUPPORTED_VERSION, instead of a request with ``require_stable`` below version
    STABLE_FROM."""

    node_id: int
    request: OffsetFetchRequest


@dataclass(frozen=True, slots=True)
class CommittedConfig:
    """``timeout_ms``: of the whole, 0 for a single attempt."""

    timeout_ms: float
    pending: PendingOffsets = PendingOffsets.IGNORED
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class CommittedFailure:
    """``where``: the partition as a text, empty for the request as a whole."""

    code: ErrorCode
    where: str


class CommittedLookup:
    """One lookup, of these partitions or of all that the group has (None). ``offsets`` has them in the end, unless ``failure``
    has the reason why not. ``member``: in whose name, read again for each request. Times in ms of the driver's clock,
    ``jitter`` between -1 and 1."""

    def __init__(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        config: CommittedConfig,
        known: ClusterMetadata,
        now_ms: float,
        member: EpochMember | None = None,
    ) -> None:
        self.offsets: dict[TopicPartition, CommittedPosition] = {}
        self.failure: CommittedFailure | None = None
        self.passing: CommittedFailure | None = None  # of the last attempt, after which another follows
        self.awaits_pending = config.pending is not PendingOffsets.IGNORED
        self.is_done = False
        self._group_id, self._partitions, self._config = group_id, partitions, config
        self._known, self._member = known, member
        self._retries = Retries(config.backoff, now_ms)
        self._under_way: SendOffsetFetch | LookUpCoordinator | None = None
        self._retry_at_ms: float | None = None

    def next(self, now_ms: float) -> SendOffsetFetch | LookUpCoordinator | None:
        """The effect that is due; each is returned once."""
        if self.is_done or self._under_way is not None:
            return None
        if self._retry_at_ms is not None and now_ms < self._retry_at_ms:
            return None
        self._retry_at_ms = None
        node_id = self._known.coordinator(self._group_id, GROUP)
        self._under_way = LookUpCoordinator() if node_id is None else self._send(node_id)
        return self._under_way

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although nothing happened; None: only after an input."""
        return self._retry_at_ms

    def _send(self, node_id: int) -> SendOffsetFetch:
        """In the shape of old versions, which name one group, and of new ones."""
        old: list[OffsetFetchRequestTopic] | None = None
        new: list[OffsetFetchRequestTopics] | None = None
        if self._partitions is not None:
            topics: dict[str, list[int]] = {}
            for topic, index in self._partitions:
                topics.setdefault(topic, []).append(index)
            old = [OffsetFetchRequestTopic(topic, indexes) for topic, indexes in topics.items()]
            new = [OffsetFetchRequestTopics(topic, partition_indexes=indexes) for topic, indexes in topics.items()]
        group = OffsetFetchRequestGroup(self._group_id, topics=new)
        if self._member is not None:
            group.member_id, group.member_epoch = self._member.member_id, self._member.member_epoch
        return SendOffsetFetch(node_id, OffsetFetchRequest(self._group_id, old, [group], self.awaits_pending))

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def coordinator_looked_up(self, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False) -> None:
        """NONE: the coordinator is in the cluster's metadata. ``is_final``: no other attempt can succeed, whatever the code."""
        assert isinstance(self._under_way, LookUpCoordinator)
        self._under_way = None
        if code:
            self._fail(CommittedFailure(code, ""), code.retriable and not is_final, now_ms, jitter)

    def responded(self, sent: SendOffsetFetch, response: OffsetFetchResponse, now_ms: float, jitter: float) -> None:
        """A partition that the response does not name has failed."""
        self._ended(sent)
        results = _results(response)
        code, where = _first_error(response, results)
        missing = set() if self._partitions is None else set(self._partitions) - results.keys()
        if not code and missing:
            topic, index = min(missing)
            code, where = ErrorCode.NETWORK_EXCEPTION, f"{topic}-{index}"
        if code:
            # The next heartbeat's response brings the epoch that the coordinator has; a member that has left has none.
            has_epoch = self._member is not None and self._member.member_epoch > 0
            may_pass = code.retriable or (code == ErrorCode.STALE_MEMBER_EPOCH and has_epoch)
            self._request_failed(sent, CommittedFailure(code, where), may_pass, now_ms, jitter)
            return
        wanted = results.keys() if self._partitions is None else self._partitions
        for partition in wanted:
            p = results[partition]
            self.offsets[partition] = CommittedPosition(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
        self.is_done = True

    def failed(
        self, sent: SendOffsetFetch, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False
    ) -> None:
        """No response came; ``is_final`` as in `coordinator_looked_up`."""
        self._ended(sent)
        is_old = code == ErrorCode.UNSUPPORTED_VERSION and sent.request.require_stable
        if is_old and self._config.pending is PendingOffsets.AWAITED:
            self.awaits_pending = False
            return
        self._request_failed(sent, CommittedFailure(code, ""), code.retriable and not is_final, now_ms, jitter)

    def _ended(self, sent: SendOffsetFetch) -> None:
        assert sent is self._under_way
        self._under_way = None

    def _request_failed(
        self, sent: SendOffsetFetch, failure: CommittedFailure, may_pass: bool, now_ms: float, jitter: float
    ) -> None:
        if failure.code in COORDINATOR_LOST and self._known.coordinator(self._group_id, GROUP) == sent.node_id:
            self._known.forget_coordinator(self._group_id, GROUP)
        self._fail(failure, may_pass, now_ms, jitter)

    def _fail(self, failure: CommittedFailure, may_pass: bool, now_ms: float, jitter: float) -> None:
        pause_ms = self._retries.failed(now_ms, self._config.timeout_ms, jitter) if may_pass else None
        if pause_ms is None:
            self.failure, self.is_done = failure, True
        else:
            self.passing = failure
            self._retry_at_ms = now_ms + pause_ms


def _results(response: OffsetFetchResponse) -> dict[TopicPartition, OffsetFetchResponsePartition]:
    """The results by partition, in either shape of response."""
    old = [(topic.name, topic.partitions) for topic in response.topics]
    new = [(topic.name, topic.partitions) for group in response.groups for topic in group.topics]
    return {TopicPartition(name, p.partition_index): p for name, partitions in old + new for p in partitions}


def _first_error(
    response: OffsetFetchResponse, results: dict[TopicPartition, OffsetFetchResponsePartition]
) -> tuple[ErrorCode, str]:
    """The group's error; else that of the first partition whose error does not pass; else the first partition's."""
    of_group = response.error_code or next((group.error_code for group in response.groups if group.error_code), 0)
    if of_group:
        return error_of(of_group), ""
    failed = [(error_of(p.error_code), f"{tp.topic}-{tp.partition}") for tp, p in results.items() if p.error_code]
    lasting = [(code, where) for code, where in failed if not code.retriable]
    return next(iter(lasting + failed), (ErrorCode.NONE, ""))


Partition = tuple[str, int]


@dataclass(slots=True)
class OwnedOffsets:
    """``positions`` and ``committed`` have the partitions whose committed offset was looked up; it is -1 where the group has
    none. ``epochs``: the leader epoch of what is before each position, as looked up (KIP-320); -1 where it is unknown. A driver
    that knows it keeps it as it reads on."""

    positions: dict[Partition, int] = field(default_factory=dict)
    committed: dict[Partition, int] = field(default_factory=dict)
    epochs: dict[Partition, int] = field(default_factory=dict)
    _owned: dict[Partition, None] = field(default_factory=dict)

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """From now on these are owned; those kept keep their positions."""
        self._owned = dict.fromkeys(partitions)
        self._drop([tp for tp in self.positions if tp not in self._owned])

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """These partitions are owned no more."""
        dropped = list(partitions)
        for tp in dropped:
            self._owned.pop(tp, None)
        self._drop(dropped)

    def _drop(self, partitions: Iterable[Partition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)
            self.committed.pop(tp, None)
            self.epochs.pop(tp, None)

    def unknown(self) -> list[Partition]:
        """The owned partitions whose committed offset is to be looked up."""
        return [tp for tp in self._owned if tp not in self.positions]

    def looked_up(self, committed: Mapping[Any, tuple[int, int, str]], starting: Mapping[Partition, int]) -> None:
        """Reading begins at the committed offset, or at ``starting`` where that is -1. A partition that has a position by
        now, or is not owned any more, is left alone. ``committed``: the offset with leader epoch and metadata."""
        for tp, (offset, epoch, _) in committed.items():
            if tp in self._owned and tp not in self.positions:
                self.committed[tp] = offset
                self.positions[tp], self.epochs[tp] = (offset, epoch) if offset >= 0 else (starting[tp], -1)

    def cut(self, partition: Partition, offset: int, epoch: int) -> None:
        """The log lost what was at the offset and behind it: reading goes on there, and so may the committed offset."""
        self.positions[partition], self.epochs[partition] = offset, epoch
        self.committed[partition] = min(offset, self.committed[partition])

    def replaced(self, partition: Partition, offset: int) -> None:
        """Another topic has the name now: reading begins at the offset, and the group has committed nothing of it."""
        self.positions[partition], self.epochs[partition], self.committed[partition] = offset, -1, -1

    def advance(self, count: Callable[[], int]) -> None:
        """As many records more were read of each partition with a position."""
        for tp in self.positions:
            self.positions[tp] += count()

    def to_commit(self, processed: Mapping[Partition, int], lost: Collection[Partition] = ()) -> dict[Partition, int]:
        """Of what was processed, what may be committed: never an offset before the committed one, nor behind a position that
        went back, never a partition that is not owned, or is lost to another member."""
        return {
            tp: offset
            for tp, offset in processed.items()
            if tp in self.positions and tp not in lost and self.committed[tp] < offset <= self.positions[tp]
        }

    def starts(self) -> dict[Partition, int]:
        """The positions of partitions of which the group has committed nothing."""
        return {tp: offset for tp, offset in self.positions.items() if self.committed[tp] < 0}

    def commit_made(self, offsets: Mapping[Partition, int]) -> None:
        """The group has committed these; of partitions given up meanwhile nothing is kept."""
        self.committed.update({tp: offset for tp, offset in offsets.items() if tp in self.committed})
