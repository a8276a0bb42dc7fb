"""Many records of a topic at once, as columns: what a task of the Spark sink has. They are in the batches in which
`Producer.send` of each in turn would have them, for a third to a fifth of the CPU time."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Any

from coterie.client.errors import KafkaError
from coterie.client.pauses.clock import now_ms
from coterie.client.producer.delivery import report_failure
from coterie.client.producer.partitions import CLOSED, partition_for_key
from coterie.client.producer.producer import RECORD_OVERHEAD_BYTES, Producer
from coterie.client.producer.transactions import State
from coterie.producing.batch import Item, TopicPartition
from coterie.records.batch import Header

_NO_HEADERS: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in order, a column for each field; None: no record has it. ``partitions``: None for that of the key.
    ``header_bytes``: the size of each record's headers, their names in UTF-8."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[int | None] | None = None
    headers: Sequence[tuple[Header, ...]] | None = None
    header_bytes: Sequence[int] | None = None

    def sizes(self) -> list[int]:
        """The bytes of each record, as `Producer.send` counts them."""
        sizes = [RECORD_OVERHEAD_BYTES if v is None else RECORD_OVERHEAD_BYTES + len(v) for v in self.values]
        if self.keys is not None:
            sizes = [size if key is None else size + len(key) for size, key in zip(sizes, self.keys, strict=True)]
        if self.header_bytes is not None:
            sizes = [size + more for size, more in zip(sizes, self.header_bytes, strict=True)]
        return sizes

    def items(self, begin: int, end: int, timestamp_ms: int) -> list[Item]:
        """The records from ``begin`` to ``end`` - 1."""
        keys = repeat(None) if self.keys is None else self.keys[begin:end]
        headers = repeat(_NO_HEADERS) if self.headers is None else self.headers[begin:end]
        return list(zip(repeat(timestamp_ms), keys, self.values[begin:end], headers, strict=False))

    def selected(self, indexes: Sequence[int]) -> RecordColumns:
        """The records at these indexes."""
        columns = (self.values, self.keys, self.partitions, self.headers, self.header_bytes)
        return RecordColumns(*(None if column is None else [column[n] for n in indexes] for column in columns))  # type: ignore[arg-type]


class ColumnSender:
    """Puts columns into the batches of a producer, of whose methods it is one that has a module of its own. ``failed``: called
    with the first error of each batch of which a record fails. The producer has no partitioner but Kafka's."""

    def __init__(self, producer: Producer[Any, Any], failed: Callable[[KafkaError], object]) -> None:
        assert producer.settings.partitioner is None, "columns go by Kafka's partitioner"
        self._producer, self._failed = producer, failed
        self._accumulator, self._sender = producer._accumulator, producer._sender

    async def send(self, topic: str, columns: RecordColumns) -> None:
        """Waits only for metadata, and for room in buffer.memory, max.block.ms at most. Raises KafkaError, before any of the
        records is in a batch where one is too large or names a partition that is not there; RuntimeError after
        `Producer.close`."""
        producer, accumulator = self._producer, self._accumulator
        sizes = columns.sizes()
        ends = [0, *accumulate(sizes)]
        self._check(sizes)
        known = await self._count_with(topic, columns.partitions or ())
        chosen = _chosen(columns, known)
        keyless_ends = _keyless_ends(chosen, sizes) if chosen else ends
        begin = 0
        while begin < len(sizes):
            count = producer._counts.get(topic) or await producer._count_of(topic)
            if count != known:
                known, chosen = count, _chosen(columns, count)
            sticky = topic, producer._choose(topic, None, count)
            end = bisect_right(keyless_ends, keyless_ends[begin] + accumulator.room_in_batch(sticky)) - 1
            end = min(max(end, begin + 1), bisect_right(ends, ends[begin] + accumulator.room) - 1)
            if end == begin:
                await producer._prepared(producer._room(sizes[begin]))
                self._check(sizes)
                continue
            items = columns.items(begin, end, int(time.time() * 1000))
            if chosen is None:
                self._append(sticky, items, sizes[begin:end])
            else:
                partitions = [sticky[1] if partition is None else partition for partition in chosen[begin:end]]
                for partition, of_partition in _grouped(partitions, items, sizes[begin:end]).items():
                    self._append((topic, partition), *of_partition)
            begin = end

    def _check(self, sizes: Sequence[int]) -> None:
        """As `Producer.send` does."""
        producer = self._producer
        if producer._closed:
            raise RuntimeError(CLOSED)
        if producer._transactions is not None:
            producer._transactions.require(State.IN_TRANSACTION)
        if max(sizes, default=0) > producer._largest:
            raise producer._too_large(max(sizes))

    async def _count_with(self, topic: str, partitions: Iterable[int | None]) -> int:
        """How many partitions the topic has, these among them."""
        producer = self._producer
        count = producer._counts.get(topic) or await producer._count_of(topic)
        for partition in {partition for partition in partitions if partition is not None}:
            if not 0 <= partition < count:
                count = await producer._prepared(producer._partition_counts.having(partition, topic))
        return count

    def _append(self, partition: TopicPartition, items: list[Item], sizes: list[int]) -> None:
        for batch in self._accumulator.extend(partition, items, sizes, now_ms()):
            report_failure(batch, self._sender.begun(batch), self._failed)


def _chosen(columns: RecordColumns, count: int) -> list[int | None] | None:
    """The partition of each record of ``count`` ones, None without a key; None: no record has a key or a partition."""
    keys, given = columns.keys, columns.partitions
    if keys is None:
        return None if given is None else list(given)
    of_keys = [None if key is None else partition_for_key(key, count) for key in keys]
    if given is None:
        return of_keys
    return [of_key if partition is None else partition for of_key, partition in zip(of_keys, given, strict=True)]


def _keyless_ends(chosen: list[int | None], sizes: list[int]) -> list[int]:
    """The bytes of the records without a partition before each record, and of all."""
    return [0, *accumulate(0 if p is not None else size for p, size in zip(chosen, sizes, strict=True))]


def _grouped(partitions: list[int], items: list[Item], sizes: list[int]) -> dict[int, tuple[list[Item], list[int]]]:
    """Records and their sizes by partition, in order."""
    groups: defaultdict[int, tuple[list[Item], list[int]]] = defaultdict(lambda: ([], []))
    for partition, item, size in zip(partitions, items, sizes, strict=True):
        of_partition = groups[partition]
        of_partition[0].append(item)
        of_partition[1].append(size)
    return groups
