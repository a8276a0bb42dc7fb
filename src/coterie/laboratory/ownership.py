"""The readers of partitions over time, as the laboratory's actors report them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coterie.consuming.commits.verdicts import GroupMachine
from coterie.machines.ownership import OwnershipMeter

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
class Ownership(OwnershipMeter):
    """The actors report every change. Times in ms of the world's clock."""

    actors: list[PartitionOwner] = field(default_factory=list)
