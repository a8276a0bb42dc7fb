"""Sticky where subscriptions differ: a flow of partitions from members with many to members with few.

Every member keeps its partitions; a free one goes to the subscribed member with the fewest. Then, as long as a member has two
more than another that its partitions can reach, perhaps over others in between, partitions move along the path that moves the
fewest owned partitions. When no such path is left, no assignment is better balanced (an optimal semi-matching: Harvey, Ladner,
Lovasz, Tamir 2003). A region from which no path led out is not searched again.

The last step (`_move_least`): exchanges in a circle that leave every load as it is, or swap two, and save moves. A partition
costs one move unless its owner has it. Members are nodes; an edge passes one partition on, at the change of cost. While a
circle with a negative sum exists, its partitions are passed on; without one, no assignment with these loads moves fewer (Klein
1967, on flows of minimal cost). The search grows with the cube of the members, so larger groups stay as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from coterie.assignors.assignor import AssignableTopics, Subscriber, racks_matter
from coterie.assignors.claims import NOBODY, Claims
from coterie.assignors.equal_shares import Shares

MOST_MEMBERS, _MOST_WAYS = 50, 5_000
_Edge = tuple[int, int, int, tuple[str, int] | None]  # (giver, taker, cost, partition; None: the two swap their loads)
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
    _move_least(_DividedPartitions(flow.held, flow.loads, claims.holders, flow.takers), flow.pass_on)
    flow.release_moved()
    return [{t: sorted(ps) for t, ps in held.items()} for held in flow.held]


@dataclass(frozen=True, slots=True)
class _DividedPartitions:
    """The state of a division: the partitions of each member by topic, their former holders, the takers of each topic."""

    held: Sequence[Mapping[str, set[int]]]
    loads: Sequence[int]
    holders: Mapping[str, Sequence[int]]
    takers: Mapping[str, Sequence[int]]


def _move_least(divided: _DividedPartitions, pass_on: Callable[[int, str, int, int], None]) -> None:
    """``pass_on`` (giver, topic, partition, taker) changes the state."""
    ways = sum(len(divided.takers[topic]) for held in divided.held for topic in held)
    if len(divided.held) > MOST_MEMBERS or ways > _MOST_WAYS:
        return
    circle = _negative_circle(divided)
    while circle:
        for giver, taker, _, partition in circle:
            if partition is not None:
                pass_on(giver, *partition, taker)
        circle = _negative_circle(divided)


def _edges(divided: _DividedPartitions) -> list[_Edge]:
    """The cheapest edge between each two members."""
    best: dict[tuple[int, int], tuple[int, tuple[str, int] | None]] = {}
    for giver, held in enumerate(divided.held):
        for topic, partitions in held.items():
            holders = divided.holders[topic]
            home = {holders[p]: p for p in sorted(partitions)}
            spare = next((p for holder, p in home.items() if holder != giver), None)
            for taker in divided.takers[topic]:
                if taker == giver:
                    continue
                if taker in home:
                    cost, partition = -1, home[taker]
                elif spare is not None:
                    cost, partition = 0, spare
                else:
                    cost, partition = 1, home[giver]
                if cost < best.get((giver, taker), (2, None))[0]:
                    best[giver, taker] = (cost, (topic, partition))
    for one, load in enumerate(divided.loads):
        for other, less in enumerate(divided.loads):
            if less == load - 1 and best.get((other, one), (2, None))[0] > 0:
                best[other, one] = (0, None)  # the circle ends: one has given, the other has received
    return [(giver, taker, cost, partition) for (giver, taker), (cost, partition) in best.items()]


def _negative_circle(divided: _DividedPartitions) -> list[_Edge]:
    """Its edges; none where there is none (Bellman and Ford: what still gets shorter after as many rounds as there are
    nodes comes from such a circle)."""
    edges, count = _edges(divided), len(divided.held)
    distance, reached_by = [0] * count, list[_Edge | None]([None] * count)
    last = -1
    for _ in range(count):
        last = -1
        for edge in edges:
            giver, taker, cost, _partition = edge
            if distance[giver] + cost < distance[taker]:
                distance[taker] = distance[giver] + cost
                reached_by[taker] = edge
                last = taker
        if last < 0:
            return []
    for _ in range(count):  # back into the circle
        last = _giver(reached_by, last)
    circle: list[_Edge] = []
    node = last
    while not circle or node != last:
        back = reached_by[node]
        assert back is not None
        circle.append(back)
        node = back[0]
    return circle


def _giver(reached_by: list[_Edge | None], node: int) -> int:
    edge = reached_by[node]
    assert edge is not None
    return edge[0]
