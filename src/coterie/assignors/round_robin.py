"""Round robin: all subscribed partitions, by topic then number, dealt in a circle; who is not subscribed is skipped (A1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from coterie.assignors.subscription import Assignment, Subscriber, in_order


def assign_round_robin(partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber]) -> Assignment:
    """``partition_counts``: partitions per topic that exists; other topics are passed over."""
    assignment: Assignment = {s.member_id: {} for s in subscribers}
    topics = sorted({t for s in subscribers for t in s.topics if t in partition_counts})
    circle = cycle(in_order(subscribers))
    for topic in topics:
        for partition in range(partition_counts[topic]):
            taker = next(s for s in circle if topic in s.topics)
            assignment[taker.member_id].setdefault(topic, []).append(partition)
    return assignment
