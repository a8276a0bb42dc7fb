"""A share session (KIP-932): the broker remembers which partitions are wanted, so that each request names only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.consuming.sharing.acknowledgements import Acknowledgements, TopicIdPartition, acknowledgement_batches
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

FIRST_EPOCH, FINAL_EPOCH = 0, -1
_MAX_EPOCH = 2**31 - 1
_E = ErrorCode
LOST = frozenset({_E.SHARE_SESSION_NOT_FOUND, _E.INVALID_SHARE_SESSION_EPOCH})


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
