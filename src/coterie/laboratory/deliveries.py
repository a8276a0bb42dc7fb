"""Records delivered by a group's readers at a steady rate, computed on request, with the duplicates among them; and the readers
of partitions over time, as the laboratory's actors report them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coterie.consuming.commits.verdicts import GroupMachine
from coterie.laboratory.world import World
from coterie.machines.ownership import OwnershipMeter

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class Delivered:
    """What the whole group delivered: the highest offset delivered of each partition, and the number of duplicates."""

    upto: dict[TopicPartition, int] = field(default_factory=dict)
    duplicates: int = 0

    def delivered(self, partition: TopicPartition, begin: int, end: int) -> None:
        """The records from ``begin`` up to ``end``, not included."""
        upto = self.upto.get(partition, 0)
        self.duplicates += max(min(end, upto) - begin, 0)
        self.upto[partition] = max(end, upto)


class Reader:
    """One consumer's reading. There is always more to read, at ``records_per_s`` of each partition."""

    def __init__(self, world: World, records_per_s: int, delivered: Delivered) -> None:
        self._world, self._records_per_s, self._delivered = world, records_per_s, delivered
        self.positions: dict[TopicPartition, int] = {}
        self._since_ms: dict[TopicPartition, int] = {}

    def begin(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset
        self._since_ms[partition] = self._world.now_ms

    def read(self) -> None:
        """Up to now."""
        now_ms = self._world.now_ms
        for partition, since_ms in self._since_ms.items():
            count = (now_ms - since_ms) * self._records_per_s // 1000
            if count:
                begin = self.positions[partition]
                self.positions[partition] = begin + count
                self._delivered.delivered(partition, begin, begin + count)
                self._since_ms[partition] = now_ms

    def skip(self) -> None:
        """Skips the time since the last call without reading: the process was stalled."""
        self._since_ms = dict.fromkeys(self._since_ms, self._world.now_ms)

    def skip_one(self, partition: TopicPartition) -> None:
        self._since_ms[partition] = self._world.now_ms

    def stop(self, partition: TopicPartition) -> None:
        """To be called after `read`: no more of the partition is delivered."""
        self.positions.pop(partition, None)
        self._since_ms.pop(partition, None)

    def stop_all(self) -> dict[TopicPartition, int]:
        """The positions reached."""
        self.read()
        reached = dict(self.positions)
        self.positions.clear()
        self._since_ms.clear()
        return reached

    def pause(self) -> None:
        """After `read`: the positions stay, and nothing more is read."""
        self._since_ms.clear()


class _PartitionOwner(Protocol):
    """A consumer as the others' checks see it: what it owns, and its machine."""

    name: str
    alive: bool
    owned: set[TopicPartition]

    @property
    def machine(self) -> GroupMachine:
        """The machine of the member's newest process."""


@dataclass(slots=True)
class Ownership(OwnershipMeter):
    """The actors report every change. Times in ms of the world's clock."""

    actors: list[_PartitionOwner] = field(default_factory=list)
