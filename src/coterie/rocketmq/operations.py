"""The effects that a client requests from its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.rocketmq.allocation import MessageQueue


class Unavailable(Exception):
    """No response, or an error. The next attempt may succeed."""


@dataclass(frozen=True, slots=True)
class FetchRoute:
    """A request to a name server. -> a tuple of the topic's readable queues."""

    topic: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat to every broker of the topics that are known."""

    client_id: str
    group: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unregister:
    """Goodbye, to every broker."""

    client_id: str
    group: str


@dataclass(frozen=True, slots=True)
class FindConsumers:
    """A request to any one broker of that topic. -> a sequence of the group's client ids."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class Lock:
    """LOCK_BATCH_MQ to their brokers. -> the set of queues locked for this client, for the broker's 60 s."""

    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class Unlock:
    """UNLOCK_BATCH_MQ to their brokers, one way: no response is awaited."""

    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class PullFrom:
    """-> the first offset: the group's stored one at the broker, otherwise by consumeFromWhere."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class StartPulling:
    """A new process queue."""

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Drop:
    """The process queue is no longer owned and delivers no further message. -> the offset up to which all is consumed, None
    where nothing was; while an orderly message is still being consumed, refused with Unavailable."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class Consumed:
    """-> dict[MessageQueue, int]: up to where all is consumed."""


@dataclass(frozen=True, slots=True)
class PersistOffsets:
    """One way: there is no response."""

    offsets: Mapping[MessageQueue, int]


Effect = (
    FetchRoute
    | Heartbeat
    | Unregister
    | FindConsumers
    | Lock
    | Unlock
    | PullFrom
    | StartPulling
    | Drop
    | Consumed
    | PersistOffsets
)
