"""The readers of partitions over time: how long each was without a reader, and the members that paused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coterie.consuming.commit_verdicts import GroupMachine

TopicPartition = tuple[str, int]


class PartitionOwner(Protocol):
    """A consumer as the others' checks see it: what it owns, and its machine."""

    name: str
    alive: bool
    owned: set[TopicPartition]

    @property
    def machine(self) -> GroupMachine:
        """The machine of the member's newest process."""


@dataclass(slots=True)
class Ownership:
    """The actors report every change. Times in ms of the world's clock."""

    actors: list[PartitionOwner] = field(default_factory=list)
    unowned_since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    unowned_ms: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    moves: int = 0
    _last_owner: dict[TopicPartition, str] = field(default_factory=dict)

    def changed(self, name: str, before: set[TopicPartition], after: set[TopicPartition], now_ms: int) -> None:
        """A member's partitions have changed at ``now_ms``."""
        for partition in before - after:
            self.unowned_since_ms.setdefault(partition, now_ms)
            self.paused.add(name)
        for partition in after - before:
            since_ms = self.unowned_since_ms.pop(partition, None)
            if since_ms is not None:
                self.unowned_ms[partition] = self.unowned_ms.get(partition, 0) + now_ms - since_ms
            self.moves += self._last_owner.get(partition, name) != name
            self._last_owner[partition] = name

    def measure(self) -> None:
        """From here on: what was counted so far is forgotten."""
        self.unowned_ms.clear()
        self.paused.clear()
        self.moves = 0
