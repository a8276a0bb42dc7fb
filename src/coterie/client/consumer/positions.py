"""The part of `coterie.client.Consumer` about positions: where it reads, what is left to read, and offsets by time."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.poll_loop import PollLoop
from coterie.client.offsets.offsets import list_offsets
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.consuming.fetching.position import UNKNOWN


class ConsumerPositions:
    """A base of `Consumer` alone, which sets these."""

    settings: ClientSettings
    _cluster: Cluster
    _fetcher: Fetcher
    _loop: PollLoop

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that poll returns; -1 while it is not known yet. Raises KeyError for a partition
        that is not assigned."""
        return self._fetcher.positions[TopicPartition(*partition)].offset

    def lag(self) -> dict[TopicPartition, int]:
        """Records not read yet, by partition, as of the last fetch or `end_offsets`; never negative. With read_committed up to
        the first open transaction."""
        stable = self.settings.committed_only
        known = {tp: p for tp, p in self._fetcher.positions.items() if p.offset != UNKNOWN}
        ends = {tp: p.last_stable_offset if stable else p.high_watermark for tp, p in known.items()}
        return {tp: max(end - self.position(tp), 0) for tp, end in ends.items() if end >= 0}

    def seek(self, partition: PartitionLike, offset: int | OffsetAndMetadata) -> None:
        """The next poll reads there. With a leader epoch, as of `committed_metadata`, the leader's log is first checked for the
        position (KIP-320). Raises TypeError, ValueError for a negative offset or a partition not assigned.

        >>> await consumer.assign([("orders", 0)])
        >>> consumer.seek(("orders", 0), 1)
        >>> [record.value for records in (await consumer.poll(5_000)).values() for record in records]
        [b'2', b'3']
        """
        self._loop.require_usable()
        start = arguments.offset_and_metadata(offset)
        self._fetcher.seek(self._owned([partition])[0], start.offset, start.leader_epoch)
        self._loop.drop_ended_lookups()

    def _owned(self, partitions: Iterable[PartitionLike]) -> list[TopicPartition]:
        wanted = arguments.partitions(partitions)
        for partition in wanted:
            if partition not in self._fetcher.positions:
                raise ValueError(f"{partition.topic}-{partition.partition} is not assigned to this consumer")
        return wanted

    async def seek_to_beginning(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        """The next poll reads these partitions (None: all that are assigned) from the start of their logs. Raises KafkaError,
        ValueError for a partition that is not assigned."""
        await self._seek_to(partitions, -2)

    async def seek_to_end(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        """As `seek_to_beginning`, to the end: with read_committed to the first open transaction."""
        await self._seek_to(partitions, -1)

    async def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[PartitionLike] | None = None) -> None:
        """The next poll reads these partitions (None: all that are assigned) from the first record whose timestamp is at least
        so many ms since 1970, or from the end where there is none. Raises KafkaError, ValueError."""
        await self._seek_to(partitions, timestamp_ms)

    async def _seek_to(self, partitions: Iterable[PartitionLike] | None, timestamp_ms: int) -> None:
        wanted = self._owned(self._fetcher.positions if partitions is None else partitions)
        offsets = await self._offsets(dict.fromkeys(wanted, timestamp_ms))
        late = [tp for tp, offset in offsets.items() if offset < 0]
        offsets.update(await self._offsets(dict.fromkeys(late, -1)) if late else {})
        for partition, offset in offsets.items():
            if partition in self._fetcher.positions:  # else revoked meanwhile
                self._fetcher.seek(partition, offset)
        self._loop.drop_ended_lookups()

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """`poll` returns no records of these partitions until `resume`; the member keeps them. Raises ValueError for a
        partition that is not assigned.

        >>> await consumer.assign([("orders", 0)])
        >>> consumer.pause([("orders", 0)])
        >>> consumer.paused()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._loop.require_usable()
        for partition in self._owned(partitions):
            self._fetcher.positions[partition].paused = True

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Ends what `pause` began. Raises ValueError for a partition that is not assigned."""
        self._loop.require_usable()
        for partition in self._owned(partitions):
            self._fetcher.positions[partition].paused = False
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return {tp for tp, p in self._fetcher.positions.items() if p.paused}

    async def _offsets(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        self._loop.require_usable()
        wanted = arguments.timestamps(timestamps)
        return await list_offsets(self._cluster, wanted, committed=self.settings.committed_only)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition, with read_committed that of the first open transaction. Raises
        KafkaError.

        >>> print((await consumer.end_offsets([("orders", 0)]))[TopicPartition("orders", 0)])
        3
        """
        ends = await self._offsets(dict.fromkeys(arguments.partitions(partitions), -1))
        self._fetcher.machine.ends_seen(ends, committed_only=self.settings.committed_only)
        return ends

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset of the first record that each partition still has. Raises KafkaError."""
        return await self._offsets(dict.fromkeys(arguments.partitions(partitions), -2))

    async def offsets_for_times(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        """By partition the offset of the first record whose timestamp is at least so many ms since 1970; -1 where there is
        none. Raises KafkaError."""
        return await self._offsets(timestamps)
