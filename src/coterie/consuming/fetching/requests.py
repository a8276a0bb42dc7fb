"""Fetch requests: a consumer's settings in them, and the session (KIP-227), in which the broker remembers what is wanted, so
that each request names only what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from coterie.machines.backoff import Backoff
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from coterie.wire.primitives import NULL_UUID


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Kafka's fetch settings. ``incremental``: by fetch sessions (KIP-227). ``as_stored``: every batch is handed out, also
    control batches and batches of aborted transactions. ``timeout_ms``: a partition that fails for longer is reported and
    not fetched again. ``validates``: positions are validated after an election (KIP-320); ``has_reset_policy``: a position
    that was cut off is reset to where the logs still agree, one that the log does not have by a look-up, else either is
    reported with every poll. ``replica_max_age_ms``: for so long a replica that the leader names is read from (KIP-392)."""

    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_wait_ms: int = 500
    max_partition_bytes: int = 1_048_576
    buffer_bytes: int = 13_107_200
    committed_only: bool = False
    check_crcs: bool = True
    rack_id: str = ""
    incremental: bool = True
    as_stored: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    timeout_ms: float = float("inf")
    validates: bool = False
    has_reset_policy: bool = True
    replica_max_age_ms: float = 300_000

    def request(self) -> FetchRequest:
        """A Fetch without partitions yet."""
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=int(self.committed_only),
            rack_id=self.rack_id,
        )


_MAX_EPOCH = 2**31 - 1
_NEW_SESSION_EPOCH = 0
_NO_SESSION_EPOCH = -1
_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)
P = TypeVar("P", bound=tuple[str, int])  # a topic's name and a partition's index
_FULL_FETCH = frozenset({_NEW_SESSION_EPOCH, _NO_SESSION_EPOCH})
Wanted = tuple[int, int]  # the offset to read from, and the leader epoch that this client knows (-1: none)
WantedByReplica = tuple[int, int, int]  # the same, and where the replica's log begins


class FetchSession:
    """One broker's (Kafka's FetchSessionHandler). A broker that declines sessions (id 0) receives full requests; so does
    every broker where ``incremental`` is false. A request in full that still names a session has the broker end that one.
    ``by_id``: the last request named each topic by its id too. A session holds either ids or names; it begins again where that
    changes, or where a topic has another id."""

    def __init__(self, *, incremental: bool = True) -> None:
        self._first_epoch = _NEW_SESSION_EPOCH if incremental else _NO_SESSION_EPOCH
        self._id, self._epoch = 0, self._first_epoch
        self._known: dict[tuple[str, int], Wanted | WantedByReplica] = {}  # what the broker remembers
        self._topic_ids: dict[str, bytes] = {}
        self.by_id = False

    def fill(
        self,
        request: FetchRequest,
        wanted: Mapping[P, Wanted | WantedByReplica],
        partition_max_bytes: int,
        topic_ids: Mapping[str, bytes],
    ) -> None:
        """Puts in what is wanted: all of it in a new session, else what changed since the last request."""
        by_id = all(topic in topic_ids for topic, _ in wanted) if wanted else self.by_id
        former_ids, self._topic_ids = self._topic_ids, dict(topic_ids)
        if by_id != self.by_id or any(former_ids.get(topic, new) != new for topic, new in topic_ids.items()):
            self.reset()
        self.by_id = by_id
        request.session_id, request.session_epoch = self._id, self._epoch
        changed = wanted if self._is_full else {tp: w for tp, w in wanted.items() if self._known.get(tp) != w}
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), each in changed.items():
            topics.setdefault(topic, FetchTopic(topic, topic_ids.get(topic, NULL_UUID))).partitions.append(
                FetchPartition(
                    partition,
                    current_leader_epoch=each[1],
                    fetch_offset=each[0],
                    log_start_offset=each[2] if len(each) == 3 else -1,
                    partition_max_bytes=partition_max_bytes,
                )
            )
        forgotten: dict[str, ForgottenTopic] = {}
        for topic, partition in () if self._is_full else sorted(self._known.keys() - wanted.keys()):
            gone = ForgottenTopic(topic, former_ids.get(topic, NULL_UUID))
            forgotten.setdefault(topic, gone).partitions.append(partition)
        request.topics, request.forgotten_topics_data = list(topics.values()), list(forgotten.values())
        self._known = dict(wanted.items())

    @property
    def _is_full(self) -> bool:
        """Whether the next request, or the one under way, names all that is wanted."""
        return self._epoch in _FULL_FETCH

    def responded(self, response: FetchResponse) -> ErrorCode:
        """The error of the whole response, NONE for one that may be read; the session goes on as it has it. NETWORK_EXCEPTION
        where a response does not name the partitions that it must (verifyFullFetchResponsePartitions, and
        verifyIncrementalFetchResponsePartitions). Topics that the response names by id are given their names."""
        if self.by_id:
            names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
            for topic in response.responses:
                topic.topic = topic.topic or names.get(topic.topic_id, "")
        code = error_of(response.error_code)
        if code or not self._names_what_it_must(response):
            has_none = code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND or (not code and self._is_full)
            self.reset()
            if has_none:
                self._id = 0
            return code or ErrorCode.NETWORK_EXCEPTION
        self._id = response.session_id
        self._epoch = 1 if self._epoch >= _MAX_EPOCH or not self._id else self._epoch + 1
        if not self._id:
            self._epoch = self._first_epoch
        return code

    def _names_what_it_must(self, response: FetchResponse) -> bool:
        """In full: all that was requested; else what has news of it. Never anything else."""
        named = {(topic.topic, data.partition_index) for topic in response.responses for data in topic.partitions}
        return named == self._known.keys() if self._is_full else named <= self._known.keys()

    def is_lost(self, code: ErrorCode) -> bool:
        """Whether the broker does not know the session, or not in this epoch (FetchSessionHandler.handleResponse)."""
        return code in _LOST

    def close(self, request: FetchRequest) -> bool:
        """Makes the request the one that ends the session (FetchMetadata.FINAL_EPOCH); False where there is none."""
        if not self._id:
            return False
        request.session_id, request.session_epoch = self._id, _NO_SESSION_EPOCH
        self.reset()
        self._id = 0
        return True

    def reset(self) -> None:
        """After an error or a lost connection: the next request begins a new session in the former one's slot
        (FetchMetadata.nextCloseExistingAttemptNew)."""
        self._epoch, self._known = self._first_epoch, {}
