"""A fetch session (KIP-227): the broker remembers what is wanted, so that each request names only what changed."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

_MAX_EPOCH = 2**31 - 1
NEW_SESSION_EPOCH = 0
_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)


class FetchSession:
    """One broker's. A broker that declines sessions (id 0) is asked in full each time."""

    def __init__(self) -> None:
        self._id, self._epoch = 0, NEW_SESSION_EPOCH
        self._known: dict[TopicPartition, int] = {}  # what the broker remembers: the offset last asked for

    def fill(self, request: FetchRequest, offsets: Mapping[TopicPartition, int], partition_max_bytes: int) -> None:
        """Puts in what is wanted: all of it in a new session, else what changed since the last request."""
        request.session_id, request.session_epoch = self._id, self._epoch
        changed = offsets if not self._id else {tp: o for tp, o in offsets.items() if self._known.get(tp) != o}
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), offset in changed.items():
            asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
            topics.setdefault(topic, FetchTopic(topic)).partitions.append(asked)
        forgotten: dict[str, ForgottenTopic] = {}
        for topic, partition in self._known.keys() - offsets.keys() if self._id else ():
            forgotten.setdefault(topic, ForgottenTopic(topic)).partitions.append(partition)
        request.topics, request.forgotten_topics_data = list(topics.values()), list(forgotten.values())
        self._known = dict(offsets)

    def answered(self, response: FetchResponse) -> ErrorCode:
        """Takes note of the session; says why an answer holds nothing (NONE: it is a good one)."""
        code = error_of(response.error_code)
        if code in _LOST:
            self.reset()
        elif not code:
            self._id = response.session_id
            self._epoch = 1 if self._epoch >= _MAX_EPOCH or not self._id else self._epoch + 1
            if not self._id:
                self._epoch = NEW_SESSION_EPOCH
        return code

    def is_lost(self, code: ErrorCode) -> bool:
        return code in _LOST

    def reset(self) -> None:
        """After a lost connection: the next request begins a new session."""
        self._id, self._epoch, self._known = 0, NEW_SESSION_EPOCH, {}
