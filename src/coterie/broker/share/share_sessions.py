"""Share sessions (KIP-932): the broker remembers which partitions a member of a share group fetches here.

Unlike a fetch session one belongs to a member, and ends with its connection: what the member has acquired is then released.
The rules are those of Kafka's ShareSession, ShareSessionCache and SharePartitionManager. No clock: nothing is evicted for its
age, so a broker that has its share sessions refuses further ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.broker.requests.calls import ClientConnection
from coterie.broker.requests.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.share_fetch import SharePartitionData

MAX_MEMBER_ID_LENGTH = 36


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class SharedPartition(NamedTuple):
    """A partition as requests name it; ``topic`` is "" where its id is not known."""

    topic_id: bytes
    partition: int
    topic: str = ""

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic_id, self.partition


@dataclass(slots=True)
class ShareSession:
    """One session. ``partitions`` in the order in which they are read; the value is whether the next response must have the
    partition, whatever it holds: a new one, or one after an error."""

    key: SessionKey
    connection: ClientConnection
    partitions: dict[tuple[bytes, int], SharedPartition]
    client_id: str = ""
    must_respond: set[tuple[bytes, int]] = field(default_factory=set)
    epoch: int = next_epoch(INITIAL_EPOCH)

    def update(self, named: Iterable[SharedPartition], forgotten: Iterable[tuple[bytes, int]]) -> None:
        """Adds the partitions that a request names, and removes the ones that it forgets."""
        for partition in named:
            if partition.key not in self.partitions:
                self.partitions[partition.key] = partition
                self.must_respond.add(partition.key)
        for key in forgotten:
            self.partitions.pop(key, None)
            self.must_respond.discard(key)

    def takes(self, key: tuple[bytes, int], data: SharePartitionData) -> bool:
        """Whether an incremental response has ``data``. A partition with records is read last the next time."""
        takes = bool(data.records) or bool(data.error_code) or key in self.must_respond
        self.must_respond.discard(key)
        if data.error_code:
            self.must_respond.add(key)
        if data.records and key in self.partitions:
            self.partitions[key] = self.partitions.pop(key)
        return takes


class ShareFetchContext(NamedTuple):
    """The partitions that one request fetches; ``session`` where the response is incremental, ``epoch`` is the request's."""

    partitions: list[SharedPartition]
    epoch: int
    session: ShareSession | None = None


@dataclass(slots=True)
class ShareSessions:
    """At most ``slots`` sessions. ``on_lost``: called with the key of a session whose connection has ended, before it is
    removed; ``on_empty``: with a group that has no session left after that."""

    slots: int
    on_lost: Callable[[SessionKey], None] = lambda key: None
    on_empty: Callable[[str], None] = lambda group_id: None
    _sessions: dict[SessionKey, ShareSession] = field(default_factory=dict)
    _of_connection: dict[int, SessionKey] = field(default_factory=dict)
    _departed: dict[SessionKey, str] = field(default_factory=dict)  # client ids, of as many members as there are slots

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        """The session of a member."""
        return self._sessions.get(key)

    def begin(
        self,
        key: SessionKey,
        epoch: int,
        named: list[SharedPartition],
        forgotten: Iterable[tuple[bytes, int]],
        connection: ClientConnection,
        client_id: str = "",
    ) -> ShareFetchContext:
        """What a ShareFetch fetches. Raises Refusal SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH or
        SHARE_SESSION_LIMIT_REACHED."""
        if epoch == FINAL_EPOCH:
            self._existing(key)
            return ShareFetchContext([], epoch)
        if epoch == INITIAL_EPOCH:
            self._sessions.pop(key, None)
            if len(self._sessions) >= self.slots:
                raise Refusal(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            partitions = {partition.key: partition for partition in named}
            self._sessions[key] = ShareSession(key, connection, partitions, client_id)
            self._of_connection[id(connection)] = key
            connection.on_closed = self._closed
            return ShareFetchContext(list(partitions.values()), epoch)
        session = self._at_epoch(key, epoch)
        session.update(named, forgotten)
        session.epoch = next_epoch(epoch)
        return ShareFetchContext(list(session.partitions.values()), epoch, session)

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """A ShareAcknowledge of that epoch. Raises Refusal as `begin` does."""
        if epoch == INITIAL_EPOCH:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            self._existing(key)
        else:
            self._at_epoch(key, epoch).epoch = next_epoch(epoch)

    def remove(self, key: SessionKey) -> ShareSession | None:
        """Ends a session; returns it."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._departed[key] = session.client_id
            if len(self._departed) > self.slots:
                del self._departed[next(iter(self._departed))]
        return session

    def client_id(self, key: SessionKey) -> str:
        """The client id of a member, also soon after its session; "" where it is not known."""
        session = self._sessions.get(key)
        return self._departed.get(key, "") if session is None else session.client_id

    def clear(self) -> None:
        """Ends all sessions."""
        self._sessions.clear()
        self._of_connection.clear()
        self._departed.clear()

    def _existing(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _at_epoch(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._existing(key)
        if session.epoch != epoch:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def _closed(self, connection: ClientConnection) -> None:
        key = self._of_connection.pop(id(connection), None)
        if key is None:
            return
        session = self._sessions.get(key)
        if session is not None and session.connection is connection:
            self.on_lost(key)
            self.remove(key)
        if not any(other.group_id == key.group_id for other in self._sessions):
            self.on_empty(key.group_id)
