"""Which brokers hold a new topic's partitions (Kafka's AdminUtils.assignReplicasToBrokers, without racks)."""

from __future__ import annotations

from collections.abc import Sequence


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
