"""Sticky where all members subscribe to the same topics: everyone's share is known beforehand, so one pass is enough.

N partitions for M members: each gets N // M, and N % M of them one more. A member keeps its partitions up to its
share; the rest goes to the members with the fewest, so that no partition moves without need.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import islice

from coterie.assignors.assignor import AssignableTopics, Subscriber, racks_matter
from coterie.assignors.claims import Claims

Shares = list[dict[str, list[int]]]  # per member: topic -> partitions


def share_equally(topics: AssignableTopics, members: Sequence[Subscriber], claims: Claims) -> Shares:
    """``members`` in order. What each has afterwards; what it had comes from ``claims``, which this uses up."""
    total = sum(len(holders) for holders in claims.holders.values())
    each, extra = divmod(total, len(members))
    by_rack = racks_matter(members, (r for t in claims.holders for r in topics.racks.get(t, ())))
    if by_rack:
        _give_up_distant(topics, members, claims)
    shares = [claims.kept_by(index, m.owned) for index, m in enumerate(members)]
    counts = [sum(map(len, share.values())) for share in shares]
    for index, count in enumerate(counts):
        most = each + 1 if count > each and extra else each
        if count > each:
            extra -= most > each
        if count > most:
            shares[index] = _first(shares[index], most, claims)
            counts[index] = most
    free = claims.free()
    if by_rack:
        extra = _deal_close(topics, members, shares, counts, free=free, each=each, extra=extra)
    _deal(shares, free, _takers(counts, each, extra))
    return shares


def _first(share: dict[str, list[int]], most: int, claims: Claims) -> dict[str, list[int]]:
    """The ``most`` lowest-numbered partitions, so that what goes is spread over the topics."""
    kept: dict[str, list[int]] = {}
    for number, (partition, topic) in enumerate(sorted((p, t) for t, ps in share.items() for p in ps)):
        if number < most:
            kept.setdefault(topic, []).append(partition)
        else:
            claims.release(topic, partition)
    return kept


def _takers(counts: list[int], each: int, extra: int) -> list[int]:
    """The takers of free partitions in turn: always a member with the fewest, in the members' order."""
    takers: list[int] = []
    waiting: dict[int, list[int]] = {}
    for index, count in enumerate(counts):
        if count < each:
            waiting.setdefault(count, []).append(index)
    filling: list[int] = []
    for level in range(min(waiting, default=each), each):
        if level in waiting:
            filling = sorted(filling + waiting[level])
        takers += filling
    takers += islice((index for index, count in enumerate(counts) if count <= each), extra)
    return takers


def _deal(shares: Shares, free: dict[str, list[int]], takers: list[int]) -> None:
    turn = iter(takers)
    for topic in sorted(free):
        for partition, index in zip(free[topic], turn):  # noqa: B905 - the takers go on with the next topic
            share = shares[index]
            if topic in share:
                share[topic].append(partition)
            else:
                share[topic] = [partition]
    for share in shares:
        for partitions in share.values():
            if len(partitions) > 1:
                partitions.sort()


# -- racks ---------------------------------------------------------------------------------------------------------------


def _give_up_distant(topics: AssignableTopics, members: Sequence[Subscriber], claims: Claims) -> None:
    """Releases a partition without a replica on its owner's rack, if another member is closer."""
    racks = {m.rack for m in members if m.rack}
    for topic, holders in claims.holders.items():
        for partition, (index, close) in enumerate(zip(holders, topics.racks.get(topic, ()), strict=False)):
            if index >= 0 and close & racks and members[index].rack and members[index].rack not in close:
                claims.release(topic, partition)


def _deal_close(
    topics: AssignableTopics,
    members: Sequence[Subscriber],
    shares: Shares,
    counts: list[int],
    free: dict[str, list[int]],
    each: int,
    extra: int,
) -> int:
    """Free partitions to members on one of their racks, within everyone's share, those with the fewest racks to choose
    from first; one without a taker stays in ``free``. Returns how many members may still have one more than ``each``."""
    heaps: dict[str, list[tuple[int, int]]] = {}
    for index, member in enumerate(members):
        if member.rack:
            heaps.setdefault(member.rack, []).append((counts[index], index))
    for heap in heaps.values():
        heapify(heap)
    order = []
    for topic in sorted(free):
        known = topics.racks.get(topic, ())
        order += [(sum(len(heaps.get(r, ())) for r in known[p]), topic, p) for p in free[topic] if p < len(known)]
    for _, topic, partition in sorted(order):
        nearby = [heaps[r][0] for r in topics.racks[topic][partition] if r in heaps]
        if not nearby:
            continue
        count, index = min(nearby)
        if count < each or (count == each and extra > 0):
            extra -= count == each
            counts[index] += 1
            heapreplace(heaps[members[index].rack or ""], (count + 1, index))
            shares[index].setdefault(topic, []).append(partition)
            free[topic].remove(partition)
    return extra
