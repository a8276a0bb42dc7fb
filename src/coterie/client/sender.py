"""A producer's batches on their way: one of a partition in flight at a time, one request per leader, retried in order until
delivery.timeout.ms. No error ends the task that sends: what goes wrong fails the batches that it is about."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

from coterie.client.batching import Acknowledged, Batch, Delivery, Item
from coterie.client.cluster import Cluster
from coterie.client.errors import KafkaError, check, unexpected
from coterie.client.retrying import Retrying, backoff_of, pause_s
from coterie.client.sequences import Sequences
from coterie.client.transactions import TransactionManager
from coterie.client.types import TopicPartition
from coterie.records.batch import TRANSACTIONAL_BIT, encode_batch
from coterie.records.compression import CODEC_BY_NAME
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

NAMES_UP_TO = 11  # v12 means transactions of version 2 (KIP-890), from v13 on topics go by id
ZSTD_FROM = 7
END_S = 1.0  # in which cancelled tasks must end
_failures = attrgetter("failures")


class Sender:
    """``batch_closed(topic)`` is called when a batch is full or due."""

    def __init__(
        self,
        cluster: Cluster,
        acks: int,
        idempotent: bool,
        transactions: TransactionManager | None,
        batch_closed: Callable[[str], None],
    ) -> None:
        self.buffered_bytes = 0
        self._cluster, self._settings = cluster, cluster.settings
        self._acks, self._idempotent, self._transactions = acks, idempotent, transactions
        self._batch_closed = batch_closed
        self._codec = CODEC_BY_NAME[self._settings.compression_type]
        self._batch_bytes: int = self._settings.batch_size
        self._backoff, self._lookups = backoff_of(self._settings), Retrying(self._settings)
        self._sequences = Sequences()
        self._open: dict[TopicPartition, Batch] = {}
        self._ready: dict[TopicPartition, deque[Batch]] = {}
        self._in_flight: set[TopicPartition] = set()
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._closed = False
        self._sender: asyncio.Task[None] | None = None
        self._lookup: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- batches ------------------------------------------------------------------------------------------------------

    def append(self, topic: str, partition: int, item: Item, size: int) -> Delivery:
        """Puts a record of about ``size`` bytes into the open batch of its partition."""
        where = TopicPartition(topic, partition)
        batch = self._open.get(where)
        if batch is not None and batch.size + size > self._batch_bytes:
            self._close_batch(where, batch)
            batch = None
        if batch is None:
            batch = self._open[where] = Batch(where)
            if self._sender is None:
                self._sender = self._task(self._run())
            self._wake.set()  # the sender may be asleep, and must begin to count linger.ms
        batch.items.append(item)
        batch.size += size
        self.buffered_bytes += size
        return Delivery(batch, len(batch.items) - 1)

    async def until_room(self, size: int) -> None:
        """Waits for room in buffer.memory, max.block.ms at most. Raises KafkaError."""
        most, block_ms = self._settings.buffer_memory, self._settings.max_block_ms
        if size > most:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes; buffer.memory is less")
        try:
            async with asyncio.timeout(block_ms / 1000):
                while self.buffered_bytes + size > most and not self._closed:
                    self._room.clear()
                    self._wake.set()
                    await self._room.wait()
        except TimeoutError:
            text = f"buffer.memory had no room for the record within max.block.ms={block_ms}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def _close_batch(self, where: TopicPartition, batch: Batch) -> None:
        del self._open[where]
        self._ready.setdefault(where, deque()).append(batch)
        self._batch_closed(where[0])
        self._wake.set()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self) -> None:
        linger_s = self._settings.linger_ms / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(linger_s if self._open else None):
                    await self._wake.wait()
            self._wake.clear()
            try:
                now_s = time.monotonic()
                for where, batch in list(self._open.items()):
                    if now_s - batch.created_s >= linger_s:
                        self._close_batch(where, batch)
                self._drain()
            except Exception as error:
                for where, queue in self._ready.items():
                    while queue and where not in self._in_flight and self._failed(queue[0], unexpected(error)):
                        pass

    def _drain(self) -> None:
        """Sends the first ready batch of every partition that has none in flight, one request per leader."""
        by_leader: dict[int, list[Batch]] = {}
        leaderless: set[str] = set()
        for where, queue in self._ready.items():
            if queue and where not in self._in_flight:
                leader = self._cluster.leader(*where)
                if leader is None or leader < 0:
                    leaderless.add(where[0])
                else:
                    by_leader.setdefault(leader, []).append(queue[0])
        for leader, batches in by_leader.items():
            self._in_flight.update(b.topic_partition for b in batches)
            self._task(self._send(leader, batches))
        if leaderless and (self._lookup is None or self._lookup.done()):
            self._lookup = self._task(self._find_leaders(leaderless))

    async def _find_leaders(self, topics: set[str]) -> None:
        """Asks for the leaders of batches that have none; one that stays without is given up after delivery.timeout.ms."""
        errors = {t: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {t}") for t in topics}
        try:
            for name, info in (await self._cluster.refresh(topics)).items():
                errors[name] = KafkaError(info.error or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name}")
        except KafkaError as error:
            errors = dict.fromkeys(topics, error)
        except Exception as error:
            errors = dict.fromkeys(topics, unexpected(error))
        is_waiting = False
        for where, queue in self._ready.items():
            if where[0] in topics and where not in self._in_flight and not self._has_leader(where):
                while queue and self._failed(queue[0], errors[where[0]]):
                    pass
                is_waiting = is_waiting or bool(queue)
        if is_waiting:
            await self._lookups.pause()
        else:
            self._lookups.succeeded()
        self._lookup = None
        self._wake.set()

    def _has_leader(self, where: TopicPartition) -> bool:
        leader = self._cluster.leader(*where)
        return leader is not None and leader >= 0

    async def _send(self, leader: int, batches: list[Batch]) -> None:
        """One try; a batch that may succeed later stays in flight for its pause, so that it is not tried at once."""
        results: dict[Batch, Acknowledged | KafkaError] = {}
        try:
            results = await self._answer(leader, batches)
        except KafkaError as error:
            results = dict.fromkeys(batches, error)
        except Exception as error:
            results = dict.fromkeys(batches, unexpected(error))
        retried = [b for b in batches if not self._settled(b, results[b])]
        self._free(b for b in batches if b not in retried)
        retried.sort(key=_failures)
        for failures, together in groupby(retried, _failures):
            self._task(self._free_later(failures, list(together)))

    async def _free_later(self, failures: int, batches: list[Batch]) -> None:
        """After the pause of batches that failed so often: batches that fail together are sent again together."""
        for batch in batches:
            batch.failures += 1
        await asyncio.sleep(pause_s(self._backoff, failures))
        self._free(batches)

    def _free(self, batches: Iterable[Batch]) -> None:
        self._in_flight.difference_update(b.topic_partition for b in batches)
        self._wake.set()

    async def _answer(self, leader: int, batches: list[Batch]) -> dict[Batch, Acknowledged | KafkaError]:
        """Offset and time, or the error, of each batch. Raises KafkaError where all have the same."""
        if self._transactions is not None:
            await self._transactions.add([b.topic_partition for b in batches])
        elif self._idempotent and self._sequences.producer_id < 0:
            await self._get_producer_id()
        request = self._request(batches)
        connection = await self._cluster.connection(leader)
        self._check_codec(connection.version_of(ProduceRequest))
        if self._acks == 0:
            connection.tell(request)
            return dict.fromkeys(batches, (-1, -1))
        response = await connection.request(request, ProduceResponse, self._cluster.timeout_s, highest=NAMES_UP_TO)
        answered = {(t.name, p.index): p for t in response.responses for p in t.partition_responses}
        return {b: _result(answered.get((b.topic, b.partition))) for b in batches}

    def _check_codec(self, version: int) -> None:
        """An older broker would store what its consumers cannot read (KIP-110). Raises KafkaError."""
        if self._settings.compression_type == "zstd" and version < ZSTD_FROM:
            text = "zstd needs Produce version 7, which Apache Kafka has from 2.1 on"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)

    async def _get_producer_id(self) -> None:
        response = await self._cluster.request(InitProducerIdRequest(None, 0))
        check(response.error_code)
        self._sequences.identify(response.producer_id, response.producer_epoch)

    def _request(self, batches: list[Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        transactional_id, attributes = None, 0
        if self._transactions is not None:
            self._sequences.identify(self._transactions.producer_id, self._transactions.epoch)
            transactional_id, attributes = self._transactions.transactional_id, TRANSACTIONAL_BIT
        for batch in batches:
            if not batch.encoded:
                where = batch.topic_partition
                if self._idempotent:
                    batch.sequence = self._sequences.take(where, len(batch.items))
                batch.encoded = encode_batch(
                    batch.items,
                    codec=self._codec,
                    producer_id=self._sequences.producer_id,
                    producer_epoch=self._sequences.epoch,
                    base_sequence=batch.sequence,
                    attributes=attributes,
                )
            topic = topics.setdefault(batch.topic, TopicProduceData(batch.topic))
            topic.partition_data.append(PartitionProduceData(batch.partition, batch.encoded))
        return ProduceRequest(transactional_id, self._acks, int(self._cluster.timeout_s * 1000), list(topics.values()))

    def _settled(self, batch: Batch, result: Acknowledged | KafkaError) -> bool:
        """Whether the batch is at its end, acknowledged or failed."""
        if isinstance(result, KafkaError):
            if result.retriable:
                self._cluster.forget(batch.topic)  # its leader may have moved
            return self._failed(batch, result)
        self._remove(batch)
        if not batch.done.done():
            batch.done.set_result(result)
        return True

    def _failed(self, batch: Batch, error: KafkaError) -> bool:
        """A retriable error leaves the batch at the head of its queue, until delivery.timeout.ms; then False."""
        late = time.monotonic() - batch.created_s > self._settings.delivery_timeout_ms / 1000
        if error.retriable and not late:
            return False
        self._remove(batch)
        if self._transactions is not None:
            self._transactions.failed(error)
        elif batch.sequence >= 0:
            self._sequences.lost()
        if not batch.done.done():
            batch.done.set_exception(error)
        return True

    def _remove(self, batch: Batch) -> None:
        self._ready[batch.topic_partition].popleft()
        self.buffered_bytes -= batch.size
        self._room.set()

    # -- ending -------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Returns once everything appended so far is acknowledged or has failed."""
        for where, batch in list(self._open.items()):
            self._close_batch(where, batch)
        self._wake.set()
        pending = [batch.done for queue in self._ready.values() for batch in queue]
        if pending:
            await asyncio.wait(pending)
        await asyncio.sleep(0)  # so that callbacks of deliveries have run

    async def close(self, timeout_s: float) -> None:
        """Flushes within that time; what is left then fails with REQUEST_TIMED_OUT."""
        self._closed = True
        self._room.set()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.flush()
        finally:
            for batch in [*self._open.values(), *(b for queue in self._ready.values() for b in queue)]:
                if not batch.done.done():
                    text = "the producer was closed before the record was acknowledged"
                    batch.done.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=END_S)


def _result(answered: PartitionProduceResponse | None) -> Acknowledged | KafkaError:
    if answered is None:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, "the broker's answer does not name the partition")
    if answered.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return answered.base_offset, answered.log_append_time_ms
    return KafkaError(error_of(answered.error_code), answered.error_message)
