"""The producer: batches per partition, compressed, idempotent, retried in order; transactional where it has an id.

Several batches of a partition may be in flight, and order holds over retries: a retried batch keeps its sequence number, so the
broker drops a repeated one and refuses one that comes too early. Without idempotence one batch of a partition is in flight.

    async with Producer({"transactional.id": "mover"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("out", b"value")
            await producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import ConfigError, KafkaError, SerializationError
from coterie.client.producer.delivery import Delivery, DeliveryCallback
from coterie.client.producer.partitions import CLOSED, PartitionCounts, checked_partition, partition_for_key
from coterie.client.producer.sender import Sender
from coterie.client.producer.transactions import OpenTransaction, State, TransactionManager
from coterie.client.serialization import SerializerLike, serialize_function
from coterie.client.settings.settings import client_settings
from coterie.client.settings.typed import ProducerSettings
from coterie.client.settings.types import Partitioner
from coterie.client.types import ByPartition, ConsumerGroupMetadata, K, OffsetAndMetadata, RecordMetadata, V
from coterie.records.batch import Header
from coterie.wire.errors import ErrorCode

T = TypeVar("T")
logger = logging.getLogger(__name__)

RECORD_OVERHEAD_BYTES = 20
BATCHES_KEPT = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN of every broker
_TOO_LARGE = "a record of {} bytes is larger than max.request.size, {}: raise it, or send less"


class Producer(Generic[K, V]):
    """Settings by Kafka's names: bootstrap.servers, acks, linger.ms, batch.size, compression.type, ... Keys and values are
    what the serializers take (`coterie.client.serialization`), without one bytes. Raises ConfigError.

    >>> async with Producer(settings, value_serializer=StringSerializer()) as writer:
    ...     metadata = await writer.send_and_wait("orders", "4", partition=0)
    >>> print(metadata.topic, metadata.partition, metadata.offset)
    orders 0 3
    """

    def __init__(
        self,
        settings: ProducerSettings | Mapping[str, Any],
        *,
        key_serializer: SerializerLike[K] | None = None,
        value_serializer: SerializerLike[V] | None = None,
    ) -> None:
        self.settings = client_settings(settings)
        self._serialize_key = serialize_function(key_serializer, self.settings.key_serializer, "key_serializer")
        self._serialize_value = serialize_function(value_serializer, self.settings.value_serializer, "value_serializer")
        self._cluster = Cluster(self.settings)
        acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[self.settings.acks]
        if acks != -1 and self.settings.enable_idempotence and _is_given(settings, "enable.idempotence"):
            raise ConfigError(f"enable.idempotence=true needs acks=all, not acks={self.settings.acks}")
        idempotent = self.settings.enable_idempotence and acks == -1
        if idempotent and self.settings.max_in_flight_requests_per_connection > BATCHES_KEPT:
            raise ConfigError(
                f"max.in.flight.requests.per.connection must be at most {BATCHES_KEPT} with enable.idempotence=true, not "
                f"{self.settings.max_in_flight_requests_per_connection}; a broker knows no more batches of a producer again"
            )
        transactional_id: str | None = self.settings.transactional_id
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            if not idempotent:
                raise ConfigError("a transactional.id needs acks=all and enable.idempotence=true")
            self._transactions = TransactionManager(self._cluster, transactional_id)
        self._sender = Sender(self._cluster, acks, idempotent, self._transactions, self._batch_closed)
        self._accumulator, self._ends = self._sender.accumulator, self._sender.ends
        self._buffer_memory: int = self.settings.buffer_memory
        self._partitioner: Partitioner | None = self.settings.partitioner
        self._largest: int = self.settings.max_request_size
        self._sticky: dict[str, int] = {}
        self._partition_counts = PartitionCounts(self._cluster)
        self._counts = self._partition_counts.known
        self._closed = self._is_left_open = False

    async def __aenter__(self) -> Producer[K, V]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Puts a record into its batch, and returns before it is sent; waits only for metadata, or for room in
        buffer.memory, max.block.ms at most. Awaiting the delivery returns a `RecordMetadata` or raises the KafkaError with
        which the record failed; ``on_delivery(metadata, error or None)`` is called with the same, offset and timestamp -1
        after an error. ``partition``: by default that of the key's hash, or of the partitioner; ``timestamp_ms`` since 1970: by
        default now.
        Raises KafkaError; SerializationError; TypeError or ValueError for arguments that no record can have; RuntimeError
        after `close`.

        >>> deliveries = [await producer.send("orders", b"%d" % n, partition=1) for n in range(3)]
        >>> await producer.flush()
        >>> print([(await delivery).offset for delivery in deliveries])
        [0, 1, 2]
        """
        if self._closed:
            raise RuntimeError(CLOSED)
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be a function of (metadata, error), not {on_delivery!r}")
        if self._transactions is not None:
            self._transactions.require(State.IN_TRANSACTION)
        size, key_bytes, value_bytes = RECORD_OVERHEAD_BYTES, None, None
        if key is not None:
            key_bytes = _bytes(self._serialize_key, topic, key, "key")
            size += len(key_bytes or b"")
        if value is not None:
            value_bytes = _bytes(self._serialize_value, topic, value, "value")
            size += len(value_bytes or b"")
        if headers:
            headers, header_bytes = arguments.record_headers(headers)
            size += header_bytes
        if timestamp_ms is not None:
            timestamp_ms = arguments.record_timestamp(timestamp_ms)
        if size > self._largest:
            raise self._too_large(size)
        count = self._counts.get(topic) or await self._count_of(topic)
        if partition is None:
            partition = self._choose(topic, key_bytes, count)
        elif not 0 <= (partition := arguments.integer(partition, "partition")) < count:
            await self._prepared(self._partition_counts.having(partition, topic))
        if self._accumulator.buffered_bytes + size > self._buffer_memory:
            await self._prepared(self._room(size))
        at_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        item = (at_ms, key_bytes, value_bytes, headers)
        now_ms = time.monotonic() * 1000  # as `clock.now_ms`, without a call for each record
        batch, index = self._accumulator.append((topic, partition), item, size, now_ms)
        delivery = Delivery(batch, index, self._ends[batch] if index else self._sender.begun(batch))
        if on_delivery is not None:
            delivery.report_to(on_delivery)
        return delivery

    async def _prepared(self, awaited: Awaitable[T]) -> T:
        """What a record waits for before it is in its batch. Raises KafkaError, and fails the transaction with it."""
        try:
            return await awaited
        except KafkaError as error:
            self._not_sent(error)
            raise

    async def _count_of(self, topic: str) -> int:
        return await self._prepared(self._partition_counts.of(topic))

    async def _room(self, size: int) -> None:
        await self._sender.until_room(size)
        if self._closed:
            raise RuntimeError(CLOSED)

    def _too_large(self, size: int) -> KafkaError:
        return self._not_sent(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, _TOO_LARGE.format(size, self._largest)))

    def _not_sent(self, error: KafkaError) -> KafkaError:
        """A record that is in no batch: a commit would leave it out in silence (KafkaProducer.doSend)."""
        if self._transactions is not None:
            self._transactions.failed(error)
        return error

    async def send_and_wait(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """As `send`, and returns once the broker has acknowledged the record. One after the other is slow: to send many,
        `send` each and `flush`."""
        delivery = await self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        return await delivery

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> int:
        """How many partitions the topic has; waits for one that is being made, and for a broker that is away, ``timeout_ms``
        at most (None: max.block.ms). Raises KafkaError.

        >>> await producer.partitions_for("orders")
        2
        """
        if self._closed:
            raise RuntimeError(CLOSED)
        limit_ms = self.settings.max_block_ms if timeout_ms is None else arguments.milliseconds(timeout_ms)
        return self._counts.get(topic) or await self._partition_counts.of(topic, limit_ms)

    def _choose(self, topic: str, key: bytes | None, count: int) -> int:
        if self._partitioner is not None:
            chosen = arguments.integer(self._partitioner(topic, key, count), "the partitioner's partition")
            return checked_partition(chosen, topic, count)
        if key is None:
            sticky = self._sticky.get(topic)
            if sticky is None:
                sticky = self._sticky[topic] = hash(id(self))
            return sticky % count
        return partition_for_key(key, count)

    def _batch_closed(self, topic: str, partition: int) -> None:
        """No key: the next batch goes to the next partition, so that partitions fill evenly."""
        sticky = self._sticky.get(topic)
        if sticky is not None and sticky % self._counts.get(topic, 1) == partition:
            self._sticky[topic] = sticky + 1
        self._partition_counts.refresh_when_due()

    # -- transactions -------------------------------------------------------------------------------------------------

    def _manager(self) -> TransactionManager:
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._transactions is None:
            raise ConfigError("this producer has no transactional.id")
        return self._transactions

    async def init_transactions(self) -> None:
        """Once, before the first transaction: fences an earlier producer with the same transactional.id and aborts what it left
        open. Raises KafkaError, ConfigError without a transactional.id."""
        async with self._bounded("init_transactions"):
            await self._manager().init()

    def begin_transaction(self) -> None:
        """Every record sent from now on belongs to the transaction. Raises KafkaError INVALID_TXN_STATE when one is open
        already."""
        self._manager().begin()

    async def send_offsets_to_transaction(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """The consumer's offsets are committed with the transaction, or not at all. Raises KafkaError."""
        if not isinstance(group, ConsumerGroupMetadata):
            raise TypeError("the group is named by consumer.group_metadata()")
        if group.generation_id > 0 and not group.member_id:
            raise ValueError(f"generation {group.generation_id} of group {group.group_id} needs the member's id")
        manager, checked = self._manager(), arguments.offsets_to_commit(offsets)
        if checked:
            async with self._bounded("send_offsets_to_transaction"):
                await manager.send_offsets(checked, group)

    async def commit_transaction(self) -> None:
        """Returns once the commit is decided, and everything sent is there for readers of committed records: at once, or a
        moment later where several brokers have the partitions. Raises KafkaError; where the state is then ABORTABLE_ERROR,
        abort. A call that is cancelled goes on; the next one waits for its result."""
        manager = self._manager()
        async with self._bounded("commit_transaction"):
            await manager.end(True, self._sender.flush_then)

    async def abort_transaction(self) -> None:
        """Readers of committed records see nothing of the transaction; records that were not sent yet fail with
        INVALID_TXN_STATE, or with the error for which it is aborted. Raises KafkaError."""
        manager = self._manager()
        manager.require_end(committed=False)
        self._sender.abort_unsent()
        async with self._bounded("abort_transaction"):
            await manager.end(False, self._sender.flush_then)

    @contextlib.asynccontextmanager
    async def _bounded(self, call: str) -> AsyncIterator[None]:
        """Raises KafkaError after max.block.ms; what is under way goes on, and the next such call waits for its result."""
        block_ms = self.settings.max_block_ms
        try:
            async with asyncio.timeout(block_ms / 1000):
                yield
        except TimeoutError:
            reason = None if self._transactions is None else self._transactions.attempt_error
            text = f"{call} had no result within max.block.ms={block_ms}" + (f" ({reason})" if reason else "")
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{text}; call it again") from None

    async def leave_transaction_open(self) -> OpenTransaction:
        """Returns once everything sent is acknowledged; a producer in another process ends the transaction with the result, by
        `resume_transaction`. Raises KafkaError."""
        await self.flush()
        left = self._manager().left_open()
        self._is_left_open = True
        return left

    def resume_transaction(self, left: OpenTransaction) -> None:
        """Continues a transaction that another process left open, only to end it."""
        self._manager().resume(left)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins a transaction; commits it at the end of the block, aborts it when the block raises.

        >>> async with Producer(settings | {"transactional.id": "mover"}) as mover:
        ...     await mover.init_transactions()
        ...     async with mover.transaction():
        ...         delivery = await mover.send("orders", b"4", partition=0)
        ...     print((await delivery).offset)
        3
        """
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
        """Returns once everything sent so far is acknowledged or has failed, which delivery.timeout.ms bounds. Raises
        RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError(CLOSED)
        await self._sender.flush()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Sends what is buffered and waits for its acknowledgement, ``timeout_ms`` at most (None: delivery.timeout.ms and
        request.timeout.ms together). What is left then fails with REQUEST_TIMED_OUT. A transaction that is open is aborted."""
        limit_ms = self.settings.delivery_timeout_ms + self.settings.request_timeout_ms
        limit_s = (limit_ms if timeout_ms is None else arguments.milliseconds(timeout_ms)) / 1000
        if self._closed:
            return
        self._closed = True
        if self._cluster.has_lost_loop:
            logger.warning(
                "the producer's event loop was closed before it; records that were not acknowledged may be lost"
            )
            self._cluster.close()
            return
        self._partition_counts.close()
        ends_s = time.monotonic() + limit_s
        try:
            await self._sender.close(limit_s)
            if self._transactions is not None:
                await self._end_transaction(self._transactions, ends_s - time.monotonic())
        finally:
            self._cluster.close()

    async def _end_transaction(self, manager: TransactionManager, limit_s: float) -> None:
        """Awaits the commit or abort that is under way; aborts what is open, so that readers need not wait for its timeout."""
        if manager.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR) and limit_s > 0 and not self._is_left_open:
            try:
                async with asyncio.timeout(limit_s):
                    await manager.end(False, self._sender.flush_then)
            except (KafkaError, TimeoutError) as error:
                if not manager.is_ended_elsewhere:
                    logger.warning("the open transaction was not aborted; its timeout will end it: %r", error)
        else:
            await manager.finish(limit_s)


def _is_given(settings: Mapping[str, Any], name: str) -> bool:
    return name in settings or name.replace(".", "_") in settings


def _bytes(serialize: Callable[[str, Any], bytes] | None, topic: str, given: object, part: str) -> bytes | None:
    """A key or value as bytes. Raises SerializationError, TypeError."""
    if serialize is not None:
        try:
            given = serialize(topic, given)
        except Exception as error:
            raise SerializationError(topic, part, error) from error
    return given if type(given) is bytes else arguments.binary(given, part)
