"""The offsets of a member's partitions: where reading continues, and what the group has committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class OwnedOffsets:
    """``positions`` and ``committed`` have the partitions whose committed offset was looked up; it is -1 where the group has
    none. ``epochs``: the leader epoch of what is before each position, as looked up (KIP-320); -1 where it is unknown. A driver
    that knows it keeps it as it reads on."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    _owned: dict[TopicPartition, None] = field(default_factory=dict)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """From now on these are owned; those kept keep their positions."""
        self._owned = dict.fromkeys(partitions)
        self._drop([tp for tp in self.positions if tp not in self._owned])

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are owned no more."""
        dropped = list(partitions)
        for tp in dropped:
            self._owned.pop(tp, None)
        self._drop(dropped)

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)
            self.committed.pop(tp, None)
            self.epochs.pop(tp, None)

    def unknown(self) -> list[TopicPartition]:
        """The owned partitions whose committed offset is to be looked up."""
        return [tp for tp in self._owned if tp not in self.positions]

    def looked_up(self, committed: Mapping[Any, tuple[int, int, str]], starting: Mapping[TopicPartition, int]) -> None:
        """Reading begins at the committed offset, or at ``starting`` where that is -1. A partition that has a position by
        now, or is not owned any more, is left alone. ``committed``: the offset with leader epoch and metadata."""
        for tp, (offset, epoch, _) in committed.items():
            if tp in self._owned and tp not in self.positions:
                self.committed[tp] = offset
                self.positions[tp], self.epochs[tp] = (offset, epoch) if offset >= 0 else (starting[tp], -1)

    def cut(self, partition: TopicPartition, offset: int, epoch: int) -> None:
        """The log lost what was at the offset and behind it: reading goes on there, and so may the committed offset."""
        self.positions[partition], self.epochs[partition] = offset, epoch
        self.committed[partition] = min(offset, self.committed[partition])

    def replaced(self, partition: TopicPartition, offset: int) -> None:
        """Another topic has the name now: reading begins at the offset, and the group has committed nothing of it."""
        self.positions[partition], self.epochs[partition], self.committed[partition] = offset, -1, -1

    def advance(self, count: Callable[[], int]) -> None:
        """As many records more were read of each partition with a position."""
        for tp in self.positions:
            self.positions[tp] += count()

    def to_commit(
        self, processed: Mapping[TopicPartition, int], lost: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """Of what was processed, what may be committed: never an offset before the committed one, nor behind a position that
        went back, never a partition that is not owned, or is lost to another member."""
        return {
            tp: offset
            for tp, offset in processed.items()
            if tp in self.positions and tp not in lost and self.committed[tp] < offset <= self.positions[tp]
        }

    def starts(self) -> dict[TopicPartition, int]:
        """The positions of partitions of which the group has committed nothing."""
        return {tp: offset for tp, offset in self.positions.items() if self.committed[tp] < 0}

    def commit_made(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has committed these; of partitions given up meanwhile nothing is kept."""
        self.committed.update({tp: offset for tp, offset in offsets.items() if tp in self.committed})
