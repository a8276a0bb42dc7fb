"""What `__share_group_state` holds of the share groups of a cluster: from where on a partition's records are not done with, and
how many of them wait for another delivery."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from coterie.client import TopicPartition
from coterie.coordinator.share_state.share_shard import ShareShard
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, SharePartitionKey, ShareState, from_bytes
from coterie.observer.machine.sights import ShareStateRead
from coterie.observer.offsets_tail import topic_tail
from coterie.share.states import RecordState
from coterie.wire.primitives import WireError

UPDATES_PER_SNAPSHOT = 500  # of writes alone, which an observer has none of


class ShareStates:
    """The states so far; ``positions``: what is read of the topic."""

    def __init__(self) -> None:
        self._shard = ShareShard(UPDATES_PER_SNAPSHOT)
        self.positions: dict[TopicPartition, int] = {}

    async def tail(self, client: dict[str, Any]) -> AsyncIterator[list[ShareStateRead]]:
        """The whole log, which has a snapshot of each state, and on: what each poll brings. Raises ReadRefused, KafkaError."""
        async for records in topic_tail(client, SHARE_STATE_TOPIC, self.positions, from_beginning=True):
            changed: dict[SharePartitionKey, int] = {}
            for record in records:
                try:
                    read = None if record.key is None else from_bytes(record.key, record.value)
                except WireError:
                    continue  # as a broker steps over it
                if read is not None:
                    self._shard.replay(*read, record.offset)
                    changed[read[0]] = record.timestamp_ms
            yield [self._sight(key, time_ms) for key, time_ms in changed.items()]

    def _sight(self, key: SharePartitionKey, time_ms: int) -> ShareStateRead:
        state = self._shard.state(key)
        start = None if state is None or state.start_offset < 0 else state.start_offset
        done = 0 if state is None else max(state.delivery_complete_count, 0)
        return ShareStateRead(time_ms, *key, start, done, 0 if state is None else redelivered(state))


def redelivered(state: ShareState) -> int:
    """Records that wait for another delivery."""
    again = [b for b in state.batches if b.delivery_state == RecordState.AVAILABLE and b.delivery_count]
    return sum(batch.last_offset - batch.first_offset + 1 for batch in again)
