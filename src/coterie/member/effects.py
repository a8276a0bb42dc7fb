"""What a member requests of its driver: each effect is returned once, carried out, and reported back."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.assignors import Subscriber
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look the coordinator up, then call `coordinator_found` (or `lookup_failed`)."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send to the coordinator, then call `responded` or `lost_connection`."""

    request: Message


@dataclass(frozen=True, slots=True)
class Revoke:
    """Commit if that is automatic, call the listener, then `revoked`. ``lost``: they may have new owners already; where the
    listener is called later, `MemberMachine.lost` at that time counts as well."""

    partitions: tuple[TopicPartition, ...]
    lost: bool


@dataclass(frozen=True, slots=True)
class AssignGroup:
    """We lead: look up ``topics``, run the assignor ``protocol``, then call `group_assigned`. From now on what
    becomes of these topics is to be told with `topics_seen`."""

    protocol: str
    subscribers: tuple[Subscriber, ...]
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """We lead, but a former life of ours has assigned already (KIP-814): only tell with `topics_seen` what becomes of
    these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class LookForUnassigned:
    """We lead: look at the topics and at what the members have (DescribeGroups), then call `unassigned_seen`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A new generation's partitions, ``added`` of them new to us: tell the listener of those, fetch all."""

    partitions: tuple[TopicPartition, ...]
    generation: int
    added: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """An error for the caller; the membership ends."""

    code: ErrorCode
    message: str


Effect = FindCoordinator | Send | Revoke | AssignGroup | WatchTopics | LookForUnassigned | Assigned | Failed
