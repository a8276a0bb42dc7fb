"""Where reading begins: the committed offset, else what auto.offset.reset says; so too where the offset is gone."""

from __future__ import annotations

import asyncio

from coterie.client.cluster import Cluster
from coterie.client.committer import Committer
from coterie.client.errors import KafkaError
from coterie.client.fetcher import Fetcher
from coterie.client.offsets import list_offsets
from coterie.client.types import OffsetAndMetadata, TopicPartition
from coterie.wire.errors import ErrorCode

_RESET = {"earliest": -2, "latest": -1}


class StartingPositions:
    """Looks up what the fetcher does not know."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher, committer: Committer, in_group: bool) -> None:
        self._cluster, self._fetcher, self._committer, self._in_group = cluster, fetcher, committer, in_group
        self._policy = cluster.settings.auto_offset_reset
        self._reset_at_s = float("-inf")  # by the loop's clock: not before, since the last reset failed

    async def find_within(self, timeout_s: float) -> None:
        """As `find`. Raises KafkaError REQUEST_TIMED_OUT when it takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.find()
        except TimeoutError:
            unknown = ", ".join(map(_name, self._fetcher.machine.initializing()))
            text = f"no offset to begin at was available for {unknown} within {timeout_s:g} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def due(self) -> bool:
        """Whether a partition has no position, or one that its log does not have."""
        return bool(self._fetcher.machine.initializing() or self._fetcher.machine.resets_due())

    async def find(self) -> None:
        """Raises KafkaError; then everything is looked up again with the next call."""
        machine = self._fetcher.machine
        new = machine.initializing()
        committed = await self._committer.committed(new) if self._in_group and new else {}
        starts = {tp: at for tp, at in committed.items() if at.offset >= 0}
        lost = machine.resets_due()
        reset = await self._reset([tp for tp in new if tp not in starts] + lost)
        starts.update({tp: OffsetAndMetadata(offset) for tp, offset in reset.items()})
        still_due = {*machine.initializing(), *machine.resets_due()}
        for partition, start in starts.items():
            if partition in still_due:  # else sought or revoked meanwhile: then that counts
                self._fetcher.seek(partition, start.offset, start.leader_epoch)

    async def _reset(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        if self._policy == "none":
            text = f"{_name(partitions[0])} has no offset to start from, and auto.offset.reset is none"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        loop, settings = asyncio.get_running_loop(), self._cluster.settings
        await asyncio.sleep(max(self._reset_at_s - loop.time(), 0))
        timestamps = dict.fromkeys(partitions, _RESET[self._policy])
        try:
            return await list_offsets(self._cluster, timestamps, committed=settings.committed_only)
        except KafkaError:
            self._reset_at_s = loop.time() + settings.retry_backoff_ms / 1000
            raise


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
