"""The last step where subscriptions differ: exchanges in a circle that leave every load as it is, or swap two, and save moves.

A partition costs one move unless its owner has it. Members are nodes; an edge passes one partition on, at the change of cost.
While a circle with a negative sum exists, its partitions are passed on; without one, no assignment with these loads moves
fewer (Klein 1967, on flows of minimal cost). The search grows with the cube of the members, so larger groups stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MOST_MEMBERS, MOST_WAYS = 50, 5_000
_Edge = tuple[int, int, int, tuple[str, int] | None]  # (giver, taker, cost, partition; None: the two swap their loads)


@dataclass(frozen=True, slots=True)
class DividedPartitions:
    """The state of a division: the partitions of each member by topic, their former holders, the takers of each topic."""

    held: Sequence[Mapping[str, set[int]]]
    loads: Sequence[int]
    holders: Mapping[str, Sequence[int]]
    takers: Mapping[str, Sequence[int]]


def move_least(divided: DividedPartitions, pass_on: Callable[[int, str, int, int], None]) -> None:
    """``pass_on`` (giver, topic, partition, taker) changes the state."""
    ways = sum(len(divided.takers[topic]) for held in divided.held for topic in held)
    if len(divided.held) > MOST_MEMBERS or ways > MOST_WAYS:
        return
    circle = _negative_circle(divided)
    while circle:
        for giver, taker, _, partition in circle:
            if partition is not None:
                pass_on(giver, *partition, taker)
        circle = _negative_circle(divided)


def _edges(divided: DividedPartitions) -> list[_Edge]:
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


def _negative_circle(divided: DividedPartitions) -> list[_Edge]:
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
