"""The former owner of each partition: the members' ownership claims, with contradictions settled.

A member's claim counts for topics that it still subscribes to and that exist. Of two claims the one of the newer
generation holds; two of the same generation cancel each other (tests/spec/assignors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.assignors.assignor import AssignableTopics, Subscriber

NOBODY = -1
_Holders = dict[str, list[int]]  # topic -> per partition the place of its holder among the members, or NOBODY


class Claims:
    """``holders`` by topic; ``contested``: partitions that two members of the same generation claimed; ``released``:
    partitions that an assignor took from their holder, who may still be at work on them."""

    def __init__(self, topics: AssignableTopics, members: Sequence[Subscriber]) -> None:
        subscribed = set().union(*(m.topics for m in members))
        self.holders: _Holders = {t: [NOBODY] * n for t, n in topics.counts.items() if t in subscribed}
        self.contested: set[tuple[str, int]] = set()
        self.released: dict[tuple[str, int], int] = {}
        self._generations = [m.generation for m in members]
        self._partly = bytearray(len(members))  # members of whose claims not all hold
        for index, member in enumerate(members):
            for topic, partitions in member.owned.items():
                if topic in self.holders and topic in member.topics:
                    self._claim(topic, partitions, index)
                else:
                    self._partly[index] = 1
        for topic, partition in self.contested:
            self.holders[topic][partition] = NOBODY
        for index, member in enumerate(members):
            if self._partly[index]:
                self._release_unsubscribed(member, index)

    def _release_unsubscribed(self, member: Subscriber, index: int) -> None:
        """Releases owned partitions of topics that it no longer subscribes to; it revokes them before another may own them."""
        for topic in (member.owned.keys() - member.topics) & self.holders.keys():
            holders = self.holders[topic]
            for partition in member.owned[topic]:
                if 0 <= partition < len(holders) and holders[partition] == NOBODY:
                    self.released.setdefault((topic, partition), index)

    def _claim(self, topic: str, partitions: Sequence[int], index: int) -> None:
        holders = self.holders[topic]
        count = len(holders)
        for partition in partitions:
            if 0 <= partition < count and holders[partition] == NOBODY:
                holders[partition] = index
            else:
                self._partly[index] = 1
                if 0 <= partition < count and holders[partition] != index:
                    self._settle(topic, partition, holders[partition], index)

    def _settle(self, topic: str, partition: int, other: int, index: int) -> None:
        mine, theirs = self._generations[index], self._generations[other]
        if mine >= theirs:
            self._partly[other] = 1
        if mine > theirs:
            self.holders[topic][partition] = index
            self.contested.discard((topic, partition))
        elif mine == theirs:
            self.contested.add((topic, partition))

    def release(self, topic: str, partition: int) -> None:
        """Takes the partition from its holder."""
        index = self.holders[topic][partition]
        self.released[topic, partition] = index
        self._partly[index] = 1
        self.holders[topic][partition] = NOBODY

    def kept_by(self, index: int, owned: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """The member's valid claims: topic -> partitions."""
        if not self._partly[index]:
            return {topic: [*partitions] for topic, partitions in owned.items()}
        kept: dict[str, list[int]] = {}
        for topic, partitions in owned.items():
            holders = self.holders.get(topic)
            if holders is not None:
                count = len(holders)
                held = {p for p in partitions if 0 <= p < count and holders[p] == index}
                if held:
                    kept[topic] = sorted(held)
        return kept

    def free(self) -> dict[str, list[int]]:
        """Unowned partitions, by topic."""
        free = {t: [p for p, holder in enumerate(hs) if holder < 0] for t, hs in self.holders.items()}
        return {t: partitions for t, partitions in free.items() if partitions}
