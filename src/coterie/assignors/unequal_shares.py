"""Sticky where subscriptions differ: a flow of partitions from members with many to members with few.

Every member keeps its partitions; a free one goes to the subscribed member with the fewest. Then, as long as a member has two
more than another that its partitions can reach, perhaps over others in between, partitions move along the path that
moves the fewest owned partitions. When no such path is left, no assignment is better balanced (an
optimal semi-matching: Harvey, Ladner, Lovasz, Tamir 2003). A region from which no path led out is not searched again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coterie.assignors.claims import NOBODY, Claims
from coterie.assignors.equal_shares import Shares
from coterie.assignors.fewest_moves import DividedPartitions, move_least
from coterie.assignors.subscription import AssignableTopics, Subscriber, racks_matter

_Path = list[tuple[int, str, int]]  # (giver, topic, taker), from the one that has too many on


class _Flow:
    """The owners of partitions while they are moved, with the members' loads."""

    def __init__(self, topics: AssignableTopics, members: Sequence[Subscriber], claims: Claims) -> None:
        self.claims = claims
        self.takers: dict[str, list[int]] = {t: [] for t in claims.holders}
        for index, member in enumerate(members):
            for topic in member.topics:
                if topic in self.takers:
                    self.takers[topic].append(index)
        self.held = [
            {t: set(ps) for t, ps in claims.kept_by(index, member.owned).items()}
            for index, member in enumerate(members)
        ]
        self.loads = [sum(map(len, held.values())) for held in self.held]
        self._members = members
        self._racks = topics.racks
        if not racks_matter(members, (r for t in claims.holders for r in topics.racks.get(t, ()))):
            self._racks = {}
        self._closed = bytearray(len(members))
        self._closed_topics: set[str] = set()

    # -- what is free ---------------------------------------------------------------------------------------------------

    def give_out(self) -> None:
        """Free partitions, of the topics with the fewest takers first, each to the taker that has fewest."""
        free, width = self.claims.free(), len(self.loads)
        for topic in sorted(free, key=lambda t: (len(self.takers[t]), t)):
            takers = self.takers[topic]
            if not takers:
                continue
            racks = self._racks.get(topic)
            heap = [self.loads[index] * width + index for index in takers]
            heapify(heap)
            for partition in free[topic]:
                load, index = divmod(heap[0], width)
                if racks is not None:
                    index = self._closest(takers, load, racks[partition], index)
                self.loads[index] += 1
                self.held[index].setdefault(topic, set()).add(partition)
                if racks is None:
                    heapreplace(heap, heap[0] + width)
                else:
                    heap[heap.index(load * width + index)] += width
                    heapify(heap)

    def _closest(self, takers: list[int], load: int, racks: frozenset[str], first: int) -> int:
        """Among the takers with the lowest load, one on a rack of the partition; ``first`` where there is none."""
        return next((p for p in takers if self.loads[p] == load and self._members[p].rack in racks), first)

    # -- what is too much -------------------------------------------------------------------------------------------------

    def balance(self) -> None:
        """Highest load first, until no member has two more than another within reach."""
        heap = [(-load, index) for index, load in enumerate(self.loads)]
        heapify(heap)
        while heap:
            load, index = heappop(heap)
            if -load != self.loads[index] or self._closed[index]:
                continue
            path = self._augmenting_path(index)
            if path:
                self._move_along(path)
                heappush(heap, (-self.loads[index], index))
                taker = path[-1][2]
                heappush(heap, (-self.loads[taker], taker))

    def _augmenting_path(self, source: int) -> _Path:
        """A path with the fewest moves to a member that has at least two fewer; empty, and what was seen closed, when
        there is none."""
        reached_by: dict[int, tuple[int, str]] = {source: (-1, "")}
        seen: set[str] = set()
        here = deque([source])
        one_move_more: list[tuple[int, str]] = []  # (giver, topic)
        while here or one_move_more:
            if here:
                giver = here.popleft()
                steps: list[tuple[int, str]] = []
                for topic, partitions in self.held[giver].items():
                    if topic not in seen and topic not in self._closed_topics:
                        free = self._has_free(giver, topic, partitions)
                        (steps if free else one_move_more).append((giver, topic))
            else:
                steps, one_move_more = one_move_more, []
            for giver, topic in steps:
                if topic in seen:
                    continue
                seen.add(topic)
                taker = self._reach(giver, topic, reached_by, here, self.loads[source] - 2)
                if taker >= 0:
                    return self._traced(reached_by, taker)
        for index in reached_by:
            self._closed[index] = 1
        self._closed_topics |= seen
        return []

    def _has_free(self, giver: int, topic: str, partitions: set[int]) -> bool:
        """Whether one of them was not the giver's before, so that passing it on costs nothing."""
        holders = self.claims.holders[topic]
        return any(holders[p] != giver for p in partitions)

    def _reach(
        self, giver: int, topic: str, reached_by: dict[int, tuple[int, str]], here: deque[int], enough: int
    ) -> int:
        """Enters the topic's takers; returns the one with the fewest partitions if it has few enough, otherwise -1."""
        loads, best, step = self.loads, -1, (giver, topic)
        for taker in self.takers[topic]:
            if taker not in reached_by:
                reached_by[taker] = step
                here.append(taker)
                if loads[taker] <= enough:
                    best, enough = taker, loads[taker] - 1
        return best

    @staticmethod
    def _traced(reached_by: dict[int, tuple[int, str]], taker: int) -> _Path:
        path: _Path = []
        while True:
            giver, topic = reached_by[taker]
            if giver < 0:
                return path[::-1]
            path.append((giver, topic, taker))
            taker = giver

    def _move_along(self, path: _Path) -> None:
        for giver, topic, taker in path:
            holders = self.claims.holders[topic]
            partitions = self.held[giver][topic]
            # One that comes home, else one that is not at home here, else the last.
            partition = min(partitions, key=lambda p: (holders[p] != taker, holders[p] == giver, -p))
            self.pass_on(giver, topic, partition, taker)

    def pass_on(self, giver: int, topic: str, partition: int, taker: int) -> None:
        """Takes the partition from one member and gives it to another."""
        partitions = self.held[giver][topic]
        partitions.remove(partition)
        if not partitions:
            del self.held[giver][topic]
        self.held[taker].setdefault(topic, set()).add(partition)
        self.loads[giver] -= 1
        self.loads[taker] += 1

    # -- what need not have moved -----------------------------------------------------------------------------------------

    def return_moved(self) -> None:
        """A moved partition goes back to its owner where it can be exchanged for a formerly unowned one."""
        takers = {t: set(places) for t, places in self.takers.items()}
        for index, held in enumerate(self.held):
            away = [
                (t, p, self.claims.holders[t][p])
                for t, partitions in held.items()
                for p in partitions
                if self.claims.holders[t][p] not in (NOBODY, index)
            ]
            for topic, partition, home in away:
                if self.loads[index] > self.loads[home]:
                    self.pass_on(index, topic, partition, home)
                    continue
                spare = self._spare(home, index, takers)
                if spare is not None:
                    self.pass_on(index, topic, partition, home)
                    self.pass_on(home, *spare, index)

    def _spare(self, giver: int, taker: int, takers: dict[str, set[int]]) -> tuple[str, int] | None:
        """A partition that the giver has but never had, and the taker could have."""
        for topic, partitions in self.held[giver].items():
            if taker in takers[topic]:
                holders = self.claims.holders[topic]
                for partition in partitions:
                    if holders[partition] != giver:
                        return topic, partition
        return None

    def release_moved(self) -> None:
        for index, held in enumerate(self.held):
            for topic, partitions in held.items():
                holders = self.claims.holders[topic]
                for partition in partitions:
                    if holders[partition] not in (NOBODY, index):
                        self.claims.release(topic, partition)


def share_unequally(topics: AssignableTopics, members: Sequence[Subscriber], claims: Claims) -> Shares:
    """``members`` in order; what each has afterwards."""
    flow = _Flow(topics, members, claims)
    flow.give_out()
    flow.balance()
    flow.return_moved()
    move_least(DividedPartitions(flow.held, flow.loads, claims.holders, flow.takers), flow.pass_on)
    flow.release_moved()
    return [{t: sorted(ps) for t, ps in held.items()} for held in flow.held]
