"""The replicas of a partition while they change (Kafka's ReplicaAssignment, KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """``replicas``: all of them, the preferred leader first; a reassignment adds and removes some of them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment is complete."""
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment; a cancelled one goes back to them."""
        return tuple(r for r in self.replicas if r not in self.adding)

    def reassigned_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        """From the replicas before a reassignment, which it replaces, to ``target``."""
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        adding = tuple(r for r in replicas if r not in origin)
        return ReplicaAssignment(replicas, adding, tuple(r for r in replicas if r not in target))

    def with_leaving(self, brokers: Iterable[int]) -> ReplicaAssignment:
        """With replicas of a reassignment that this one replaces, which are part of neither its origin nor its target: the
        topic's node has them until they are deleted."""
        leaving = tuple(b for b in sorted(brokers) if b not in self.replicas)
        return ReplicaAssignment((*self.replicas, *leaving), (*self.adding, *leaving), (*self.removing, *leaving))
