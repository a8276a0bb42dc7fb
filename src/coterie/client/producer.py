"""The producer: batches per partition, compressed, idempotent, retried in order; transactional where it has an id.

One batch of a partition is in flight at a time, so order holds over retries; a retried batch keeps its sequence
number, and the broker drops what it has already.

    async with Producer({"transactional.id": "mover"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("out", b"value")
            await producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.errors import ConfigError, KafkaError, check
from coterie.client.listener import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from coterie.client.partitioner import partition_for_key
from coterie.client.sequences import Sequences
from coterie.client.settings import ClientSettings
from coterie.client.transactions import OpenTransaction, State, TransactionManager
from coterie.records.batch import TRANSACTIONAL_BIT, Header, encode_batch
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

RECORD_OVERHEAD_BYTES = 20
NAMES_UP_TO = 11  # v12 means transactions of version 2 (KIP-890), from v13 on topics go by id
Partitioner = Callable[[str, bytes | None, int], int]  # (topic, key, number of partitions) -> partition
ZSTD_FROM = 7


Report = Callable[["KafkaError | None", str, int, int], object]


class Delivery:
    """A record on its way. Awaiting it gives (partition, offset), or raises KafkaError."""

    __slots__ = ("_batch", "_place")

    def __init__(self, batch: _Batch, place: int) -> None:
        self._batch, self._place = batch, place

    def __await__(self) -> Generator[Any, None, tuple[int, int]]:
        base = yield from self._batch.done.__await__()
        return self._batch.partition, base + self._place

    def report_to(self, callback: Report) -> None:
        """``callback(error or None, topic, partition, offset)`` once it is known; the offset is -1 after an error."""

        def told(done: asyncio.Future[int]) -> None:
            error = None if done.cancelled() else done.exception()
            batch = self._batch
            if isinstance(error, KafkaError):
                callback(error, batch.topic, batch.partition, -1)
            elif not done.cancelled():
                callback(None, batch.topic, batch.partition, max(done.result() + self._place, -1))

        self._batch.done.add_done_callback(told)


class _Batch:
    """Records of one partition that travel together."""

    __slots__ = ("created_s", "done", "encoded", "items", "partition", "sequence", "size", "topic")

    def __init__(self, topic: str, partition: int, done: asyncio.Future[int]) -> None:
        self.topic, self.partition, self.done = topic, partition, done
        self.items: list[tuple[int, bytes | None, bytes | None, Sequence[Header]]] = []
        self.size = 0
        self.created_s = time.monotonic()
        self.sequence = -1
        self.encoded = b""


class Producer:
    """Settings by Kafka's names: bootstrap.servers, acks, linger.ms, batch.size, compression.type, ..."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = ClientSettings(settings)
        self._cluster = Cluster(self.settings)
        self._codec = CODEC_BY_NAME[self.settings["compression.type"]]
        self._acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[str(self.settings["acks"])]
        self._idempotent = self.settings["enable.idempotence"] and self._acks == -1
        transactional_id: str | None = self.settings["transactional.id"]
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            if not self._idempotent:
                raise ConfigError("a transactional.id needs acks=all and enable.idempotence=true")
            self._transactions = TransactionManager(self._cluster, transactional_id)
        self._partitioner: Partitioner | None = self.settings["partitioner"]
        self._sequences = Sequences()
        self._open: dict[tuple[str, int], _Batch] = {}
        self._ready: dict[tuple[str, int], deque[_Batch]] = {}
        self._in_flight: set[tuple[str, int]] = set()
        self._buffered = 0
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._sender: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sticky: dict[str, int] = {}
        self._partition_by_key: dict[tuple[bytes, int], int] = {}
        self._counts: dict[str, int] = {}

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: Report | None = None,
    ) -> Delivery:
        """Puts a record into its batch; waits only for metadata, or for room in buffer.memory. The delivery may be awaited,
        and ``on_delivery`` hears of it. Raises KafkaError."""
        if self._transactions is not None:
            self._transactions.require(State.IN_TRANSACTION)
        count = self._counts.get(topic) or await self._partitions(topic)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has partitions 0 to {count - 1}")
        size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
        if size > self.settings["max.request.size"]:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes; max.request.size is less")
        while self._buffered + size > self.settings["buffer.memory"]:
            self._room.clear()
            self._wake.set()
            await self._room.wait()
        where = (topic, partition)
        batch = self._open.get(where)
        if batch is not None and batch.size + size > self.settings["batch.size"] and batch.items:
            self._close_batch(where, batch)
            batch = None
        if batch is None:
            batch = self._open[where] = _Batch(topic, partition, asyncio.get_running_loop().create_future())
            batch.done.add_done_callback(_retrieved)
            self._idle.clear()
            self._start()
            self._wake.set()  # the sender may be asleep, and must begin to count linger.ms
        batch.items.append((int(time.time() * 1000) if timestamp_ms is None else timestamp_ms, key, value, headers))
        batch.size += size
        self._buffered += size
        delivery = Delivery(batch, len(batch.items) - 1)
        if on_delivery is not None:
            delivery.report_to(on_delivery)
        return delivery

    async def _partitions(self, topic: str) -> int:
        """Waits for a topic that is being made, and for a broker that is away. Raises KafkaError."""
        deadline_s = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                return await self._count(topic)
            except KafkaError as error:
                if not error.code.retriable or time.monotonic() > deadline_s:
                    raise
            await asyncio.sleep(self.settings["retry.backoff.ms"] / 1000)

    async def _count(self, topic: str) -> int:
        info = (await self._cluster.topics([topic], create=self.settings["allow.auto.create.topics"])).get(topic)
        if info is None or info.error or not info.leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
            raise KafkaError(code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic}")
        self._counts[topic] = len(info.leaders)
        return len(info.leaders)

    def _choose(self, topic: str, key: bytes | None, count: int) -> int:
        if self._partitioner is not None:
            return self._partitioner(topic, key, count)
        if key is None:
            return self._sticky.setdefault(topic, hash(id(self)) % count) % count
        found = self._partition_by_key.get((key, count))
        if found is None:
            found = partition_for_key(key, count)
            if len(self._partition_by_key) < 100_000:
                self._partition_by_key[key, count] = found
        return found

    def _close_batch(self, where: tuple[str, int], batch: _Batch) -> None:
        del self._open[where]
        self._ready.setdefault(where, deque()).append(batch)
        # No key: the next batch goes to the next partition, so that partitions fill evenly.
        if where[0] in self._sticky:
            self._sticky[where[0]] += 1
        self._wake.set()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._sender is None:
            self._sender = asyncio.create_task(self._run())

    async def _run(self) -> None:
        linger_s = self.settings["linger.ms"] / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(linger_s if self._open else None):
                    await self._wake.wait()
            self._wake.clear()
            now_s = time.monotonic()
            for where, batch in list(self._open.items()):
                if now_s - batch.created_s >= linger_s:
                    self._close_batch(where, batch)
            await self._drain()

    async def _drain(self) -> None:
        """Sends the first ready batch of every partition that has none in flight, one request per leader."""
        by_leader: dict[int, list[_Batch]] = {}
        for where, queue in self._ready.items():
            if queue and where not in self._in_flight:
                leader = self._cluster.leader(*where)
                if leader is None:
                    await self._cluster.topics([where[0]])
                    leader = self._cluster.leader(*where)
                if leader is not None:
                    self._in_flight.add(where)
                    by_leader.setdefault(leader, []).append(queue[0])
        for leader, batches in by_leader.items():
            task = asyncio.create_task(self._send(leader, batches))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, leader: int, batches: list[_Batch]) -> None:
        try:
            if self._transactions is not None:
                await self._transactions.add([(b.topic, b.partition) for b in batches])
            elif self._idempotent and self._sequences.producer_id < 0:
                await self._get_producer_id()
            request = self._request(batches)
            connection = await self._cluster.connection(leader)
            self._check_codec(connection.version_of(ProduceRequest))
            if self._acks == 0:
                connection.tell(request)
                for batch in batches:
                    self._finished(batch, -1)
                return
            response = await connection.request(request, ProduceResponse, self._cluster.timeout_s, highest=NAMES_UP_TO)
            results = {(t.name, p.index): p for t in response.responses for p in t.partition_responses}
            for batch in batches:
                self._settle(batch, results[batch.topic, batch.partition])
        except KafkaError as error:
            await asyncio.sleep(self.settings["retry.backoff.ms"] / 1000)
            for batch in batches:
                self._failed(batch, error)
        finally:
            for batch in batches:
                self._in_flight.discard((batch.topic, batch.partition))
            self._wake.set()

    def _check_codec(self, version: int) -> None:
        """An older broker would store what its consumers cannot read (KIP-110). Raises KafkaError."""
        if self.settings["compression.type"] == "zstd" and version < ZSTD_FROM:
            text = "zstd needs Produce version 7, which Apache Kafka has from 2.1 on"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)

    async def _get_producer_id(self) -> None:
        response = await self._cluster.request(InitProducerIdRequest(None, 0))
        check(response.error_code)
        self._sequences.identify(response.producer_id, response.producer_epoch)

    def _request(self, batches: list[_Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        transactional_id, attributes = None, 0
        if self._transactions is not None:
            self._sequences.identify(self._transactions.producer_id, self._transactions.epoch)
            transactional_id, attributes = self._transactions.transactional_id, TRANSACTIONAL_BIT
        for batch in batches:
            if not batch.encoded:
                where = (batch.topic, batch.partition)
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

    def _settle(self, batch: _Batch, result: PartitionProduceResponse) -> None:
        if result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finished(batch, result.base_offset)
        else:
            code = error_of(result.error_code)
            if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._cluster.forget(batch.topic)
            self._failed(batch, KafkaError(code, result.error_message))

    def _failed(self, batch: _Batch, error: KafkaError) -> None:
        """A retriable error leaves the batch at the head of its queue, until delivery.timeout.ms."""
        late = time.monotonic() - batch.created_s > self.settings["delivery.timeout.ms"] / 1000
        if error.code.retriable and not late:
            return
        self._remove(batch)
        if self._transactions is not None:
            self._transactions.failed(error)
        elif batch.sequence >= 0:
            self._sequences.lost()
        if not batch.done.done():
            batch.done.set_exception(error)

    def _finished(self, batch: _Batch, base_offset: int) -> None:
        self._remove(batch)
        if not batch.done.done():
            batch.done.set_result(base_offset)

    def _remove(self, batch: _Batch) -> None:
        self._ready[batch.topic, batch.partition].popleft()
        self._buffered -= batch.size
        self._room.set()
        if self._buffered == 0:
            self._idle.set()

    # -- transactions -------------------------------------------------------------------------------------------------

    def _manager(self) -> TransactionManager:
        if self._transactions is None:
            raise ConfigError("this producer has no transactional.id")
        return self._transactions

    async def init_transactions(self) -> None:
        """Once, before the first transaction: fences whoever had the transactional id. Raises KafkaError."""
        await self._manager().init()

    def begin_transaction(self) -> None:
        """Raises KafkaError INVALID_TXN_STATE when one is open already."""
        self._manager().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """The consumer's offsets are committed with the transaction, or not at all. Raises KafkaError."""
        await self._manager().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Returns once everything sent is there for readers of committed records. Raises KafkaError; where the state is
        then ABORTABLE_ERROR, abort."""
        manager = self._manager()
        await self.flush()
        manager.require(State.IN_TRANSACTION)
        await manager.end(committed=True)

    async def abort_transaction(self) -> None:
        """Nothing of the transaction will be seen. Raises KafkaError."""
        manager = self._manager()
        manager.require(State.IN_TRANSACTION, State.ABORTABLE_ERROR)
        await self.flush()
        await manager.end(committed=False)

    async def leave_transaction_open(self) -> OpenTransaction:
        """Returns once everything sent is acknowledged; whoever gets the answer ends the transaction. Raises KafkaError."""
        await self.flush()
        return self._manager().left_open()

    def resume_transaction(self, left: OpenTransaction) -> None:
        """Goes on with a transaction that another process left open, only to end it."""
        self._manager().resume(left)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins a transaction; commits it at the end of the block, aborts it when the block raises."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self._manager().state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                await self.abort_transaction()
            raise

    # -- ending -------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Returns once everything sent so far is acknowledged or has failed."""
        for where, batch in list(self._open.items()):
            self._close_batch(where, batch)
        self._wake.set()
        if self._buffered:
            await self._idle.wait()
        await asyncio.sleep(0)  # so that whoever wanted to hear of a delivery has heard

    async def close(self) -> None:
        await self.flush()
        if self._sender is not None:
            self._sender.cancel()
        self._cluster.close()


def _retrieved(future: asyncio.Future[int]) -> None:
    # A caller may not look at every delivery; asyncio must not complain about those.
    if not future.cancelled():
        future.exception()
