"""Range: per topic, contiguous runs of partitions to its subscribers in order; the first n % m get one more (A1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.assignors.subscription import Assignment, Subscriber, in_order


def assign_range(partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber]) -> Assignment:
    """``partition_counts``: partitions per topic that exists; other topics are passed over."""
    assignment: Assignment = {s.member_id: {} for s in subscribers}
    by_topic: dict[str, list[str]] = {}
    for subscriber in in_order(subscribers):
        for topic in subscriber.topics:
            by_topic.setdefault(topic, []).append(subscriber.member_id)
    for topic in sorted(by_topic):
        members, count = by_topic[topic], partition_counts.get(topic, 0)
        each, extra = divmod(count, len(members))
        start = 0
        for place, member_id in enumerate(members):
            size = each + (place < extra)
            if size:
                assignment[member_id][topic] = list(range(start, start + size))
            start += size
    return assignment
