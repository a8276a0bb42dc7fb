"""Round robin: all subscribed partitions, by topic then number, dealt in a circle; who is not subscribed is skipped (A1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from coterie.assignors.subscription import AssignableTopics, Assignment, Subscriber, in_order


def assign_round_robin(topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Assignment:
    """Member id -> topic -> partitions. Every subscriber has a key; unknown topics are left out (RoundRobinAssignor)."""
    assignment: Assignment = {s.member_id: {} for s in subscribers}
    names = sorted({t for s in subscribers for t in s.topics if t in topics.counts})
    circle = cycle(in_order(subscribers))
    for name in names:
        for partition in range(topics.counts[name]):
            taker = next(s for s in circle if name in s.topics)
            assignment[taker.member_id].setdefault(name, []).append(partition)
    return assignment
