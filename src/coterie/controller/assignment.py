"""The replicas of a partition: which brokers hold a new topic's partitions (Kafka's AdminUtils.assignReplicasToBrokers, without
racks), and the replicas while they change (Kafka's ReplicaAssignment, KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Partition -> its brokers, the preferred leader first, for ``partitions`` from ``first_partition`` on. Leaders go round
    from ``start_index`` on; the followers of a partition begin ``shift`` brokers behind its leader, and one further with each
    round. Both are chosen at random by the caller. Raises ValueError for a replication factor above the number of brokers."""
    if not 0 < replication_factor <= len(brokers):
        raise ValueError(f"replication factor {replication_factor} with {len(brokers)} brokers")
    count, assigned = len(brokers), dict[int, tuple[int, ...]]()
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start_index) % count
        others = [(leader + 1 + (shift + number) % (count - 1)) % count for number in range(replication_factor - 1)]
        assigned[partition] = tuple(brokers[index] for index in (leader, *others))
    return assigned
