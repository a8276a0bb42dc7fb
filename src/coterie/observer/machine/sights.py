"""What an observer sees of groups: the inputs of its machine. Times in ms since 1970: a record's is the broker's, a log
line's that of its text, the others the observer's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from coterie.coordinator.events import Event
from coterie.machines.values import value
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata


@value
class RecordRead:
    """A record of `__consumer_offsets`, as `coterie.coordinator.stored_records.stored.from_record` reads it."""

    time_ms: int
    group: str
    event: Event


@value
class StoredBefore:
    """The last generation of a group that the log has from before the observer began."""

    time_ms: int
    group: str
    value: GroupMetadataValue


@value
class Described:
    """A group as its coordinator describes it. ``members``: with timeouts of 0, which no response has. ``epoch``: the group
    epoch, None of a classic group. ``coordinator``: node id and leader epoch of the group's partition."""

    time_ms: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberMetadata, ...]
    epoch: int | None = None
    coordinator: tuple[int, int] | None = None


@value
class Logged:
    """A rebalance that a broker's log reports: a row of `coterie.observer.logs.server_log`."""

    time_ms: int
    row: Mapping[str, Any]


@value
class TopicsSeen:
    """How many partitions each topic of the cluster has, and the ids of topics with one."""

    time_ms: int
    partitions: Mapping[str, int]
    ids: Mapping[str, bytes] = field(default_factory=dict)


@value
class ShareStateRead:
    """What the share coordinator keeps of a partition in a share group: ``start`` is the first offset that is not done with
    (None: not known, or no state), ``done`` how many records behind it are, ``redelivered`` how many wait for another
    delivery."""

    time_ms: int
    group: str
    topic_id: bytes
    partition: int
    start: int | None
    done: int = 0
    redelivered: int = 0


@value
class NoCoordinatorSeen:
    """A group has no coordinator: the partition of `__consumer_offsets` has no leader."""

    time_ms: int
    group: str


@value
class Tick:
    """Time passes."""

    time_ms: int


Sight = RecordRead | StoredBefore | Described | Logged | TopicsSeen | ShareStateRead | NoCoordinatorSeen | Tick
