"""A broker that records are acquired from, as the sharing machine knows it: its share session (KIP-932), in which it remembers
which partitions are wanted, so that each request names only what changed; the requests to it, and a consumer's settings in
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie.consuming.sharing.acknowledgements import (
    Acknowledgements,
    AcknowledgeType,
    TopicIdPartition,
    acknowledgement_batches,
)
from coterie.machines.backoff import Backoff
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from coterie.wire.messages.share.share_fetch import (
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1  # share.acquire.mode (KIP-1206)
FIRST_EPOCH, FINAL_EPOCH = 0, -1
_MAX_EPOCH = 2**31 - 1
_E = ErrorCode
LOST = frozenset({_E.SHARE_SESSION_NOT_FOUND, _E.INVALID_SHARE_SESSION_EPOCH})


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """Kafka's settings of a share consumer; times in ms. ``acquire_mode``: BATCH_OPTIMIZED acquires whole batches, RECORD_LIMIT
    never more than ``max_poll_records``, of one broker at a time."""

    group_id: str
    member_id: str
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_wait_ms: int = 500
    max_poll_records: int = 500
    acquire_mode: int = BATCH_OPTIMIZED
    check_crcs: bool = True
    backoff: Backoff = field(default_factory=Backoff)


class SharingSession:
    """One broker's (Kafka's ShareSessionHandler). ``partitions``: what the broker remembers, once it has responded."""

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.partitions: dict[TopicIdPartition, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request begins a session: it can carry no acknowledgements."""
        return self.epoch == FIRST_EPOCH

    def changes(self, wanted: Iterable[TopicIdPartition]) -> bool:
        """Whether a request for these has to name partitions."""
        return self.is_new or set(wanted) != self.partitions.keys()

    def fill_fetch(
        self, request: ShareFetchRequest, wanted: Iterable[TopicIdPartition], carried: Iterable[Acknowledgements]
    ) -> None:
        """Puts in what is wanted: all of it in a new session, else what changed; and the acknowledgements, also of partitions
        that are wanted no more."""
        wanted = dict.fromkeys(wanted)
        known = {} if self.is_new else self.partitions
        request.share_session_epoch = self.epoch
        topics: dict[bytes, dict[int, ShareFetchPartition]] = {}
        for topic_id, _, partition in (each for each in wanted if each not in known):
            topics.setdefault(topic_id, {})[partition] = ShareFetchPartition(partition, [])
        forgotten = [each for each in known if each not in wanted]
        for acknowledged in carried:
            topic_id, _, partition = acknowledged.partition
            batches = acknowledgement_batches(acknowledged.types)
            topics.setdefault(topic_id, {})[partition] = ShareFetchPartition(partition, batches)
            if acknowledged.partition not in wanted and acknowledged.partition not in forgotten:
                forgotten.append(acknowledged.partition)
        request.topics = [ShareFetchTopic(topic_id, list(named.values())) for topic_id, named in topics.items()]
        gone: dict[bytes, list[int]] = {}
        for topic_id, _, partition in forgotten:
            gone.setdefault(topic_id, []).append(partition)
        request.forgotten_topics_data = [ForgottenShareTopic(*item) for item in gone.items()]
        self.partitions = wanted

    def fill_acknowledge(self, request: ShareAcknowledgeRequest, carried: Iterable[Acknowledgements]) -> None:
        """Puts the acknowledgements in."""
        request.share_session_epoch = self.epoch
        topics: dict[bytes, list[AcknowledgePartition]] = {}
        for acknowledged in carried:
            topic_id, _, partition = acknowledged.partition
            batches = acknowledgement_batches(acknowledged.types)
            topics.setdefault(topic_id, []).append(AcknowledgePartition(partition, batches))
        request.topics = [AcknowledgeTopic(*item) for item in topics.items()]

    def responded(self, code: ErrorCode) -> None:
        """The session goes on, also after an error, unless the broker has none or cannot have one."""
        if code in LOST or code == _E.SHARE_SESSION_LIMIT_REACHED:
            self.reset()
        elif self.epoch != FINAL_EPOCH:
            self.epoch = 1 if self.epoch >= _MAX_EPOCH else self.epoch + 1

    def finish(self) -> None:
        """The next request ends the session: what is acquired and not acknowledged in it is released."""
        self.epoch = FINAL_EPOCH

    def reset(self) -> None:
        """The next request begins a session in the former one's place."""
        self.epoch, self.partitions = FIRST_EPOCH, {}


def by_partition(carried: Iterable[Acknowledgements]) -> Mapping[tuple[bytes, int], Acknowledgements]:
    """The acknowledgements of a request, as its response names their partitions."""
    return {(each.partition.topic_id, each.partition.partition): each for each in carried}


@dataclass(frozen=True, slots=True, eq=False)
class SendShare:
    """Send the request to that broker, then call `Sharing.responded` or `Sharing.failed`. ``carried``: the acknowledgements in
    it. A request with ``request.is_renew_ack`` needs version 2 of its API."""

    node_id: int
    request: ShareFetchRequest | ShareAcknowledgeRequest
    carried: list[Acknowledgements] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class RefreshLeaders:
    """Request the metadata of these topics, then call `Sharing.leaders_refreshed`, also where that failed."""

    topics: frozenset[str]


SharingEffect = SendShare | RefreshLeaders


@dataclass(slots=True)
class ShareNode:
    """``with_fetch``: acknowledgements that the next ShareFetch carries; ``queued``: the ones for ShareAcknowledge, in order.
    ``retry_at_ms``: no request before, after ``failures`` in a row. ``closing``: the session ends once nothing is queued.
    ``renewed``: partition and offset of records that the user has in hand again."""

    session: SharingSession = field(default_factory=SharingSession)
    in_flight: SendShare | None = None
    with_fetch: dict[TopicIdPartition, Acknowledgements] = field(default_factory=dict)
    queued: list[Acknowledgements] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: float = float("-inf")
    closing: bool = False
    renewed: set[tuple[TopicIdPartition, int]] = field(default_factory=set)

    def carry(self, acknowledged: Acknowledgements) -> None:
        """The next ShareFetch takes them."""
        former = self.with_fetch.setdefault(acknowledged.partition, acknowledged)
        if former is not acknowledged:
            former.types |= acknowledged.types

    def took(self, acknowledged: Acknowledgements, code: ErrorCode) -> None:
        """The acknowledgements have ended: renewed records are in hand again, all others are not."""
        for offset, type in acknowledged.types.items():
            change = self.renewed.add if type == AcknowledgeType.RENEW and not code else self.renewed.discard
            change((acknowledged.partition, offset))

    def take_carried(self) -> list[Acknowledgements]:
        """The acknowledgements of the next ShareFetch."""
        carried, self.with_fetch = list(self.with_fetch.values()), {}
        return carried

    def take_queued(self) -> list[Acknowledgements]:
        """The acknowledgements of the next ShareAcknowledge: one of each partition, so that each has a result of its own."""
        carried: dict[TopicIdPartition, Acknowledgements] = {}
        for acknowledged in self.queued:
            carried.setdefault(acknowledged.partition, acknowledged)
        self.queued = [acknowledged for acknowledged in self.queued if acknowledged not in carried.values()]
        return list(carried.values())
