"""Range: per topic, contiguous runs of partitions to its subscribers in order; the first n % m get one more. Round robin: all
subscribed partitions, by topic then number, dealt in a circle; who is not subscribed is skipped (A1).

Where racks matter to range, partitions go first to a member on a rack of theirs (KIP-881): same balance, and topics with the
same subscribers and as many partitions stay co-partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

from coterie.assignors.assignor import AssignableTopics, Assignment, Subscriber, in_order, racks_matter


class _Topic:
    """One topic while it is dealt out."""

    def __init__(self, name: str, count: int, racks: Sequence[frozenset[str]], members: list[Subscriber]) -> None:
        self.name, self.members = name, members
        self.unassigned = dict.fromkeys(range(count))
        self.taken = {m.member_id: 0 for m in members}
        self.each, self.extra = divmod(count, len(members))
        self._racks = racks if any(m.rack for m in members) else ()
        self.close_matters = racks_matter(members, self._racks)

    def room(self, member: Subscriber) -> int:
        """The number of further partitions that this member may get."""
        return self.each + (self.extra > 0) - self.taken[member.member_id]

    def close(self, member: Subscriber, partition: int) -> bool:
        return not member.rack or (bool(self._racks) and member.rack in self._racks[partition])

    def give(self, member: Subscriber, partitions: list[int], assignment: Assignment) -> None:
        assignment[member.member_id].setdefault(self.name, []).extend(partitions)
        self.taken[member.member_id] += len(partitions)
        if self.taken[member.member_id] > self.each:
            self.extra -= 1
        for partition in partitions:
            del self.unassigned[partition]

    def deal(self, may_take: Callable[[Subscriber, int], bool], assignment: Assignment) -> None:
        for member in self.members:
            room = self.room(member)
            if not self.unassigned or room <= 0:
                continue
            partitions = [p for p in self.unassigned if may_take(member, p)][:room]
            if partitions:
                self.give(member, partitions, assignment)


def assign_range(topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Assignment:
    """Member id -> topic -> partitions. Every subscriber has a key; unknown topics are left out (Kafka's RangeAssignor)."""
    assignment: Assignment = {s.member_id: {} for s in subscribers}
    by_topic: dict[str, list[Subscriber]] = {}
    for subscriber in in_order(subscribers):
        for topic in subscriber.topics:
            by_topic.setdefault(topic, []).append(subscriber)
    close: list[_Topic] = []
    for name in sorted(by_topic):
        count = topics.counts.get(name, 0)
        if count and topics.racks:
            close.append(_Topic(name, count, topics.racks.get(name, [frozenset()] * count), by_topic[name]))
        elif count:
            _deal_runs(name, count, by_topic[name], assignment)
    if any(t.close_matters for t in close):
        _deal_by_rack(close, assignment)
    for rest in close:
        rest.deal(lambda member, partition: True, assignment)
    for owned in assignment.values():
        for partitions in owned.values():
            partitions.sort()
    return assignment


def _deal_runs(name: str, count: int, members: list[Subscriber], assignment: Assignment) -> None:
    each, extra = divmod(count, len(members))
    start = 0
    for index, member in enumerate(members):
        size = each + (index < extra)
        if size:
            assignment[member.member_id][name] = list(range(start, start + size))
        start += size


def _deal_by_rack(topics: list[_Topic], assignment: Assignment) -> None:
    """Co-partitioned topics together, each of the others by itself."""
    alike: dict[tuple[object, ...], list[_Topic]] = {}
    for topic in topics:
        if any(m.rack for m in topic.members):
            alike.setdefault((len(topic.unassigned), *(m.member_id for m in topic.members)), []).append(topic)
    for together in alike.values():
        if len(together) > 1:
            _deal_together(together, assignment)
        elif together[0].close_matters:
            together[0].deal(together[0].close, assignment)


def _deal_together(topics: list[_Topic], assignment: Assignment) -> None:
    """Partition by partition, of all these topics, to the first member that is close to each and has room."""
    members = list(topics[0].members)
    for partition in range(len(topics[0].unassigned)):
        for member in members:
            if all(t.close(member, partition) and t.room(member) > 0 for t in topics):
                for topic in topics:
                    topic.give(member, [partition], assignment)
                break


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
