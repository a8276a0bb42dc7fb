"""Where reading begins: the committed offset, else what auto.offset.reset says; so too where the offset is gone."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.committer import Committer
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.errors import KafkaError
from coterie.client.offsets.offsets import list_offsets
from coterie.client.pauses.clock import now_ms
from coterie.client.pauses.loop_clock import until_due
from coterie.client.pauses.retrying import Retrying
from coterie.client.types import OffsetAndMetadata, TopicPartition
from coterie.consuming.fetching.position import FetchState, Position
from coterie.wire.errors import ErrorCode

_RESET = {"earliest": -2, "latest": -1}


class StartingPositions:
    """Looks up what the fetcher does not know."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher, committer: Committer, in_group: bool) -> None:
        self._cluster, self._fetcher, self._committer, self._in_group = cluster, fetcher, committer, in_group
        self._policy = cluster.settings.auto_offset_reset
        self._under_way: dict[int, Position] = {}  # by id: of the positions that a lookup is under way for
        self._retrying = Retrying(cluster.settings)
        self._reset_at_ms = float("-inf")  # not before, since the last reset failed

    def due(self) -> bool:
        """Whether a partition has no position, or one that its log does not have, and nothing is under way for it."""
        return bool(self._due())

    def _due(self) -> dict[TopicPartition, Position]:
        machine = self._fetcher.machine
        due = [*machine.initializing(), *machine.resets_due()]
        return {tp: position for tp in due if id(position := machine.positions[tp]) not in self._under_way}

    async def find(self) -> None:
        """Each position is set with the response that has it. Raises KafkaError; then the others are looked up again with the
        next call. An error is none where nothing that was looked up is assigned any more: a member that left is unknown."""
        due = self._due()
        self._under_way |= {id(position): position for position in due.values()}
        try:
            await self._find(due)
        except KafkaError:
            positions = self._fetcher.machine.positions
            if any(positions.get(tp) is position for tp, position in due.items()):
                raise
        finally:
            for position in due.values():
                del self._under_way[id(position)]

    async def _find(self, due: dict[TopicPartition, Position]) -> None:
        new = [tp for tp, position in due.items() if position.state is FetchState.INITIALIZING]
        committed = await self._committer.committed(new) if self._in_group and new else {}
        starts = {tp: at for tp, at in committed.items() if at.offset >= 0}
        self._begin(due, starts)
        await self._reset(due, [tp for tp in due if tp not in starts])

    def _begin(
        self, due: Mapping[TopicPartition, Position], starts: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        for partition, start in starts.items():
            if self._fetcher.machine.positions.get(partition) is due[partition]:  # else sought or revoked meanwhile
                self._fetcher.seek(partition, start.offset, start.leader_epoch)

    async def _reset(self, due: Mapping[TopicPartition, Position], partitions: list[TopicPartition]) -> None:
        positions = self._fetcher.machine.positions
        partitions = [tp for tp in partitions if positions.get(tp) is due[tp]]  # else sought or revoked meanwhile
        if not partitions:
            return
        if self._policy == "none":
            text = f"{_name(partitions[0])} has no offset to start from, and auto.offset.reset is none"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        await until_due(self._reset_at_ms)
        timestamps = dict.fromkeys(partitions, _RESET[self._policy])

        def arrived(offsets: dict[TopicPartition, int]) -> None:
            self._begin(due, {tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()})

        try:
            committed_only = self._cluster.settings.committed_only
            await list_offsets(self._cluster, timestamps, committed=committed_only, arrived=arrived)
        except KafkaError:
            self._reset_at_ms = now_ms() + (self._retrying.next_pause_s() or 0) * 1000
            raise
        self._retrying.succeeded()


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
