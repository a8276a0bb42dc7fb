"""Lag of the observed groups: commits as the records bring them, and ends of logs as the brokers report them, so that a lag is
never negative, and a partition that was committed is never without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.client import Admin, KafkaError, TopicPartition
from coterie.coordinator import events as e
from coterie.observer.machine.sights import RecordRead, Sight

REFRESH_EVERY_S = 10.0


class GroupLag(NamedTuple):
    """Of a partition with a committed offset; ``lag`` in records."""

    group: str
    topic: str
    partition: int
    lag: int
    committed: int
    end: int


class GroupLags:
    """Of every group that is seen; the offsets that a group had before are asked for once."""

    def __init__(self, client: dict[str, Any]) -> None:
        self._admin = Admin(client)
        self._committed: dict[str, dict[TopicPartition, int]] = {}
        self._unread: set[str] = set()
        self._ends: dict[TopicPartition, int] = {}

    def close(self) -> None:
        self._admin.close()

    def see(self, sight: Sight) -> None:
        """A sight of the observer; commits of transactions that are aborted count until the next one."""
        group = getattr(sight, "group", None)
        if group is None:
            return
        if group not in self._committed:
            self._committed[group] = {}
            self._unread.add(group)
        if not isinstance(sight, RecordRead):
            return
        match sight.event:
            case e.OffsetStored(topic, partition, committed):
                self._committed[group][TopicPartition(topic, partition)] = committed.offset
            case e.OffsetRemoved(topic, partition):
                self._committed[group].pop(TopicPartition(topic, partition), None)

    @property
    def is_complete(self) -> bool:
        """Whether each committed partition that is known has a lag."""
        return not self._unread and all(tp in self._ends for offsets in self._committed.values() for tp in offsets)

    async def refresh(self) -> None:
        """The ends of all committed partitions, and the offsets of groups that are new. What fails keeps its last value."""
        for group in sorted(self._unread):
            try:
                offsets = await self._admin.list_consumer_group_offsets(group)
            except KafkaError:
                continue
            self._unread.discard(group)
            self._committed[group] = offsets | self._committed[group]
        partitions = {tp for offsets in self._committed.values() for tp in offsets}
        if partitions:
            self._ends |= await self._admin.list_offsets(dict.fromkeys(partitions, -1), errors={})

    def __iter__(self) -> Iterator[GroupLag]:
        for group in self._committed:
            yield from self.of(group)

    def of(self, group: str) -> Iterator[GroupLag]:
        """Of one group. A commit may be newer than the end that was asked for: then there is no lag."""
        for (topic, partition), offset in self._committed.get(group, {}).items():
            end = self._ends.get(TopicPartition(topic, partition))
            if end is not None:
                yield GroupLag(group, topic, partition, max(end - offset, 0), offset, end)
