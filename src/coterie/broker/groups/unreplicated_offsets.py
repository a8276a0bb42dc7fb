"""Committed offsets until all replicas in sync have them: readers get those before (Kafka's pendingOffsetCommits)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator import events as e
from coterie.coordinator.shard import Decision
from coterie.coordinator.state import CommittedOffset, TopicPartition

Before = dict[TopicPartition, CommittedOffset | None]


class UnreplicatedOffsets:
    """The unreplicated offsets of one shard. An append is any object that stands for one."""

    def __init__(self) -> None:
        self._appends: dict[object, dict[str, Before]] = {}  # in their order; by group

    def began(self, append: object, decisions: Iterable[Decision]) -> None:
        """The decisions are written, and not in force yet."""
        of_groups: dict[str, Before] = {}
        for decision in decisions:
            for event in decision.outcome.events:
                if isinstance(event, e.OffsetStored | e.OffsetRemoved):
                    partition = event.topic, event.partition
                    before = of_groups.setdefault(decision.group.group_id, {})
                    before.setdefault(partition, decision.group.offsets.get(partition))
        if of_groups:
            self._appends[append] = of_groups

    def ended(self, append: object) -> None:
        """The append is decided."""
        self._appends.pop(append, None)

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset | None]:
        """The partitions whose committed offset not all replicas in sync have, with the one that they all have."""
        before: Before = {}
        for of_groups in self._appends.values():
            for partition, committed in of_groups.get(group_id, {}).items():
                before.setdefault(partition, committed)
        return before
