"""Records by partition until they are acknowledged or fail (Kafka's RecordAccumulator), and the settings of a producer's
machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from coterie.machines.backoff import Backoff
from coterie.producing.batch import Item, ProducerBatch, TopicPartition
from coterie.producing.partition_queue import PartitionQueue
from coterie.records import compression

BatchClosed = Callable[[str, int], None]
FOREVER_MS = float("inf")


@dataclass(frozen=True, slots=True)
class ProducingConfig:
    """Times in ms, sizes in bytes, by the names of Kafka's ProducerConfig. ``codec`` is that of record batches;
    ``request_timeout_ms`` goes into every request. ``acks``: -1 (all), 0 or 1; ``is_idempotent`` only with -1."""

    acks: int = -1
    is_idempotent: bool = True
    batch_size: int = 16_384
    linger_ms: float = 5
    buffer_memory: int = 33_554_432
    delivery_timeout_ms: float = 120_000
    request_timeout_ms: int = 30_000
    max_request_size: int = 1_048_576
    max_in_flight: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    codec: int = compression.NONE


class Accumulator:
    """``queues`` are those of partitions that have had a record. ``batch_closed(topic, partition)`` is called when a batch
    takes no more records: the next record without key may go to another partition (KIP-480). ``busy`` are the partitions with
    something to send or in flight, the longest unserved first; ``buffered_bytes`` counts against buffer.memory. ``due_ms``:
    when a batch is due, may be retried, or expires, as far as known; ``is_changed``: something may be due already."""

    def __init__(self, config: ProducingConfig, batch_closed: BatchClosed) -> None:
        self.buffered_bytes = 0
        self.busy: dict[TopicPartition, PartitionQueue] = {}
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self._config, self._batch_closed = config, batch_closed
        self.due_ms = FOREVER_MS
        self.is_changed = False
        self._first_due_ms = min(config.linger_ms, config.delivery_timeout_ms)
        self._batch_size, self._buffer_memory = config.batch_size, config.buffer_memory

    def append(self, partition: TopicPartition, item: Item, size: int, now_ms: float) -> tuple[ProducerBatch, int]:
        """Puts a record of about ``size`` bytes into the open batch of its partition. Returns the batch and the number of the
        record in it; 0 says that the batch is new."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        batch = queue.open
        if batch is not None and batch.size + size > self._batch_size:
            self.close(queue)
            batch = None
        if batch is None:
            batch = queue.open = ProducerBatch(partition, now_ms)
            queue.batches.append(batch)
            self.busy[partition] = queue
            if not self._first_due_ms:
                self.is_changed = True
            elif now_ms + self._first_due_ms < self.due_ms:
                self.due_ms = now_ms + self._first_due_ms
            if size >= self._batch_size:
                self.close(queue)
        items = batch.items
        items.append(item)
        batch.size += size
        self.buffered_bytes += size
        return batch, len(items) - 1

    def extend(
        self, partition: TopicPartition, items: Sequence[Item], sizes: Sequence[int], now_ms: float
    ) -> list[ProducerBatch]:
        """As `append` of each record in turn. Returns the batches that are new."""
        begun: list[ProducerBatch] = []
        ends = [0, *accumulate(sizes)]  # the bytes of the first n records
        at = 0
        while at < len(items):
            batch, index = self.append(partition, items[at], sizes[at], now_ms)
            if not index:
                begun.append(batch)
            at += 1
            fitting = bisect_right(ends, ends[at] + self._batch_size - batch.size) - 1
            if fitting > at:
                size = ends[fitting] - ends[at]
                batch.items += items[at:fitting]
                batch.size += size
                self.buffered_bytes += size
                at = fitting
        return begun

    def room_in_batch(self, partition: TopicPartition) -> int:
        """The bytes that the batch takes to which the partition's next record would go."""
        queue = self.queues.get(partition)
        return self._batch_size - (0 if queue is None or queue.open is None else queue.open.size)

    @property
    def room(self) -> int:
        """The bytes that buffer.memory has room for."""
        return self._buffer_memory - self.buffered_bytes

    def has_room(self, size: int) -> bool:
        """Whether buffer.memory has room for a record of ``size`` bytes."""
        return self.buffered_bytes + size <= self._buffer_memory

    def close(self, queue: PartitionQueue) -> None:
        """The open batch takes no more records."""
        if queue.open is not None:
            queue.open, queue.is_ready = None, False
            self.is_changed = True
            self._batch_closed(*queue.partition)

    def flush(self) -> None:
        """Makes every open batch ready, without linger.ms."""
        self.is_changed = True
        for queue in self.busy.values():
            queue.is_ready = queue.open is not None

    def remove(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch at its end."""
        queue.remove(batch)
        self.buffered_bytes -= batch.size
        assert self.buffered_bytes >= 0, "a batch gives its bytes back once"
        self.settled(queue)

    def settled(self, queue: PartitionQueue) -> None:
        """Something of the partition has ended."""
        if queue.is_idle:
            self.busy.pop(queue.partition, None)

    def served(self, queue: PartitionQueue) -> None:
        """A batch of the partition was sent: the others come first next time."""
        self.busy[queue.partition] = self.busy.pop(queue.partition)

    def expired(self, now_ms: float) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches whose delivery.timeout.ms is over."""
        return [
            (queue, batch)
            for queue in self.busy.values()
            if queue.batches and now_ms >= self._deadline_ms(queue.batches[0])
            for batch in queue.batches
            if now_ms >= self._deadline_ms(batch)
        ]

    def next_deadline_ms(self, now_ms: float) -> float:
        """When a batch is due, may be retried, or expires. A batch that is due already waits for something else."""
        deadline_ms = FOREVER_MS
        for queue in self.busy.values():
            if not queue.batches:
                continue
            expires_ms = self._deadline_ms(queue.batches[0])
            if expires_ms < deadline_ms:
                deadline_ms = expires_ms
            batch = queue.candidate()
            if batch is not None:
                if now_ms < batch.retry_at_ms:
                    deadline_ms = min(deadline_ms, batch.retry_at_ms)
                if not queue.is_due(batch, now_ms, self._config.linger_ms):
                    deadline_ms = min(deadline_ms, batch.created_ms + self._config.linger_ms)
        return deadline_ms

    def _deadline_ms(self, batch: ProducerBatch) -> float:
        return batch.created_ms + self._config.delivery_timeout_ms
