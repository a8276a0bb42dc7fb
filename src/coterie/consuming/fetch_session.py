"""A fetch session (KIP-227): the broker remembers what is wanted, so that each request names only what changed."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

_MAX_EPOCH = 2**31 - 1
NEW_SESSION_EPOCH = 0
NO_SESSION_EPOCH = -1
_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)

Wanted = tuple[int, int]  # the offset to read from, and the leader epoch that this client knows (-1: none)


class FetchSession:
    """One broker's. A broker that declines sessions (id 0) is asked in full each time; so is every broker where
    ``incremental`` is false."""

    def __init__(self, *, incremental: bool = True) -> None:
        self._first_epoch = NEW_SESSION_EPOCH if incremental else NO_SESSION_EPOCH
        self._id, self._epoch = 0, self._first_epoch
        self._known: dict[TopicPartition, Wanted] = {}  # what the broker remembers

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted], partition_max_bytes: int) -> None:
        """Puts in what is wanted: all of it in a new session, else what changed since the last request."""
        request.session_id, request.session_epoch = self._id, self._epoch
        changed = wanted if not self._id else {tp: w for tp, w in wanted.items() if self._known.get(tp) != w}
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), (offset, epoch) in changed.items():
            topics.setdefault(topic, FetchTopic(topic)).partitions.append(
                FetchPartition(
                    partition,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                )
            )
        forgotten: dict[str, ForgottenTopic] = {}
        for topic, partition in self._known.keys() - wanted.keys() if self._id else ():
            forgotten.setdefault(topic, ForgottenTopic(topic)).partitions.append(partition)
        request.topics, request.forgotten_topics_data = list(topics.values()), list(forgotten.values())
        self._known = dict(wanted)

    def answered(self, response: FetchResponse) -> ErrorCode:
        """The error of the whole response, NONE for one that may be read; the session goes on as it has it. A response to a
        request in full that lacks a partition is NETWORK_EXCEPTION (FetchSessionHandler.verifyFullFetchResponsePartitions).
        """
        code = error_of(response.error_code)
        if code in _LOST:
            self.reset()
        elif not code:
            if not self._id and self._lacks_one(response):
                return ErrorCode.NETWORK_EXCEPTION
            self._id = response.session_id
            self._epoch = 1 if self._epoch >= _MAX_EPOCH or not self._id else self._epoch + 1
            if not self._id:
                self._epoch = self._first_epoch
        return code

    def _lacks_one(self, response: FetchResponse) -> bool:
        named = {(topic.topic, data.partition_index) for topic in response.responses for data in topic.partitions}
        return not self._known.keys() <= named

    def is_lost(self, code: ErrorCode) -> bool:
        """Whether the broker does not know the session, or not in this epoch (FetchSessionHandler.handleResponse)."""
        return code in _LOST

    def close(self, request: FetchRequest) -> bool:
        """Makes the request the one that ends the session (FetchMetadata.FINAL_EPOCH); False where there is none."""
        if not self._id:
            return False
        request.session_id, request.session_epoch = self._id, NO_SESSION_EPOCH
        self.reset()
        return True

    def reset(self) -> None:
        """After a lost connection: the next request begins a new session."""
        self._id, self._epoch, self._known = 0, self._first_epoch, {}
