"""A shard of the group coordinator on the partition of `__consumer_offsets` that hosts it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from coterie.broker.topic import OFFSETS_TOPIC, Partition
from coterie.coordinator.offsets_log import OffsetsLog
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.write_queue import WriteQueue
from coterie.wire.errors import ErrorCode, Refusal

logger = logging.getLogger(__name__)


class HostedShard:
    """A shard with its partition of `__consumer_offsets`, the log of it, and the decisions that wait to be written there."""

    def __init__(
        self, shard: Shard, partition: Partition, kept: Callable[[HostedShard, Decision, list[Step]], None]
    ) -> None:
        self.partition = partition
        self.log = OffsetsLog(partition.log)
        self._kept = kept
        self.host(shard)
        self.loaded = False
        self.deleted_topics: set[str] = set()  # during the load; their offsets are removed after it
        self.resigned = False
        self.epoch = 0  # of the partition's leadership; an older load or unload is ignored

    def host(self, shard: Shard) -> None:
        """Takes the shard in, in the place of the one before."""
        self.shard = shard
        self.queue = WriteQueue(shard, self._append, self._keep, self.log.batch_bytes)

    def _keep(self, decision: Decision, steps: list[Step]) -> None:
        self._kept(self, decision, steps)

    def _append(self, decisions: list[Decision]) -> None:
        try:
            self.log.append(decisions)
        except OSError as error:
            logger.error("%s-%d cannot be written: %s", OFFSETS_TOPIC, self.partition.index, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self.partition.appended()
