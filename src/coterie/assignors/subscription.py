"""The input and the result of an assignor (Kafka's ConsumerPartitionAssignor)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Owned = Mapping[str, Sequence[int]]  # topic -> partitions
Assignment = dict[str, dict[str, list[int]]]  # member id -> topic -> partitions, ascending


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it; ``owned`` are the partitions it had in generation ``generation`` (-1: none)."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: Owned = field(default_factory=dict)
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class AssignableTopics:
    """The assignable partitions: ``counts`` by topic, and where racks are known, those of each partition's
    replicas: topic -> one set per partition. Topics that do not exist are left out."""

    counts: Mapping[str, int]
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)


AssignFunction = Callable[[AssignableTopics, Sequence[Subscriber]], Assignment]


def in_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Members with an instance id first, by that id; then the others by member id."""
    return sorted(subscribers, key=lambda s: (s.group_instance_id is None, s.group_instance_id or s.member_id))


def racks_matter(subscribers: Iterable[Subscriber], partition_racks: Iterable[frozenset[str]]) -> bool:
    """Racks matter only if members and partitions both have them, they overlap, and not every partition is on
    every rack (KIP-881, testUseRackAwareAssignment)."""
    members = {s.rack for s in subscribers if s.rack}
    partitions = set(partition_racks)
    everywhere = frozenset[str]().union(*partitions)
    return bool(members & everywhere) and partitions != {everywhere}
