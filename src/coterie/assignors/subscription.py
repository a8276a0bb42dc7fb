"""What an assignor is given and what it gives back (spec: assignors.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Assignment = dict[str, dict[str, list[int]]]  # member id -> topic -> partitions, ascending


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it; ``owned`` are the partitions it had in generation ``generation``."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[tuple[str, int], ...] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


Assignor = Callable[[Mapping[str, int], Sequence[Subscriber]], Assignment]


def in_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Members with an instance id first, by that id; then the others by member id (scenarios part 2)."""
    return sorted(subscribers, key=lambda s: (s.group_instance_id is None, s.group_instance_id or s.member_id))
