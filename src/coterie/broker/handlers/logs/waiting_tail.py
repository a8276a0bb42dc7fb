"""What a Fetch that waits can have of a partition, counted while records are appended."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.storage.topic import NO_LEADER_EPOCH, Partition
from coterie.broker.storage.topics import Topics
from coterie.wire.errors import Refusal
from coterie.wire.messages.logs.fetch import FetchPartition, PartitionData


class WaitingTail:
    """What a waiting fetch can have of one partition: ``bytes`` of it, at most partition.max.bytes. To a reader of
    ``committed`` records something is new only when the last stable offset has moved."""

    def __init__(
        self,
        topics: Topics,
        partition: Partition,
        wanted: FetchPartition,
        read: PartitionData,
        appended_bytes: int,
        *,
        committed: bool,
    ) -> None:
        """``read`` when the log had so many ``appended_bytes``."""
        self.partition, self.bytes = partition, len(read.records or b"")
        self.changed: Callable[[WaitingTail, int], None]
        self._topics, self._wanted, self._committed = topics, wanted, committed
        self._before_bytes = self.bytes - appended_bytes
        self._stable_offset = read.last_stable_offset if committed else -1

    def has_changed(self) -> bool:
        """Whether something was appended since it was read."""
        return self._before_bytes + self.partition.log.appended_bytes > self.bytes

    def appended(self) -> None:
        """Something was appended, the topic is gone, or this broker's role has changed."""
        log = self.partition.log
        if self._committed and not self.is_refused():
            stable_offset = log.last_stable_offset
            if stable_offset == self._stable_offset:
                return
            self._stable_offset = stable_offset
        now = min(self._before_bytes + log.appended_bytes, self._wanted.partition_max_bytes)
        by, self.bytes = now - self.bytes, now
        self.changed(self, by)

    def is_refused(self) -> bool:
        """Whether the fetch receives an error: the topic was deleted, or another broker leads, or in another epoch."""
        topic = self._topics.by_name.get(self.partition.topic)
        index = self.partition.index
        if topic is None or index >= len(topic.partitions) or topic.partitions[index] is not self.partition:
            return True
        try:
            check_leader(self.partition, self._wanted)
        except Refusal:
            return True
        return False


def check_leader(partition: Partition, wanted: FetchPartition) -> None:
    """Of a fetch of that partition. Raises Refusal."""
    if wanted.current_leader_epoch >= 0 or partition.in_cluster:
        partition.check_leader(max(wanted.current_leader_epoch, NO_LEADER_EPOCH))
