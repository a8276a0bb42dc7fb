"""BlockingProducer: written by tests/client/blocking_source.py from `coterie.client.Producer`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic

from coterie.client.blocking.thread import BlockingClient
from coterie.client.producer.delivery import DeliveryCallback
from coterie.client.producer.producer import Producer
from coterie.client.producer.transactions import OpenTransaction
from coterie.client.serialization import SerializerLike
from coterie.client.settings.typed import ProducerSettings
from coterie.client.types import ByPartition, ConsumerGroupMetadata, K, OffsetAndMetadata, RecordMetadata, V
from coterie.records.batch import Header


class BlockingProducer(BlockingClient[Producer[K, V]], Generic[K, V]):
    """`coterie.client.Producer` for programs without asyncio.

    >>> with BlockingProducer(settings) as writer:
    ...     futures = [writer.send("orders", b"%d" % n, partition=1) for n in range(3)]
    >>> print([future.result().offset for future in futures])
    [0, 1, 2]
    """

    def __init__(
        self,
        settings: ProducerSettings | Mapping[str, Any],
        *,
        key_serializer: SerializerLike[K] | None = None,
        value_serializer: SerializerLike[V] | None = None,
    ) -> None:
        super().__init__(lambda: Producer(settings, key_serializer=key_serializer, value_serializer=value_serializer))

    def send(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> Future[RecordMetadata]:
        """As `coterie.client.Producer.send`; returns once the record is in its batch. The future's result is known when
        the broker has acknowledged the record; `flush` waits for all of them."""
        delivery = self._await(
            self._client.send,
            topic,
            value,
            key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            on_delivery=on_delivery,
        )
        return self._call(delivery.to_future)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begins a transaction; commits it at the end of the block, aborts it when the block raises."""
        transaction = self._client.transaction()
        self._await(transaction.__aenter__)
        try:
            yield
        except BaseException as error:
            self._await(transaction.__aexit__, type(error), error, error.__traceback__)
            raise
        self._await(transaction.__aexit__, None, None, None)

    def send_and_wait(
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
        return self._await(
            self._client.send_and_wait,
            topic,
            value,
            key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
        )

    def partitions_for(self, topic: str, timeout_ms: float | None = None) -> int:
        """How many partitions the topic has; waits for one that is being made, and for a broker that is away, ``timeout_ms``
        at most (None: max.block.ms). Raises KafkaError."""
        return self._await(self._client.partitions_for, topic, timeout_ms)

    def init_transactions(self) -> None:
        """Once, before the first transaction: fences an earlier producer with the same transactional.id and aborts what it left
        open. Raises KafkaError, ConfigError without a transactional.id."""
        self._await(self._client.init_transactions)

    def begin_transaction(self) -> None:
        """Every record sent from now on belongs to the transaction. Raises KafkaError INVALID_TXN_STATE when one is open
        already."""
        self._call(self._client.begin_transaction)

    def send_offsets_to_transaction(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """The consumer's offsets are committed with the transaction, or not at all. Raises KafkaError."""
        self._await(self._client.send_offsets_to_transaction, offsets, group)

    def commit_transaction(self) -> None:
        """Returns once the commit is decided, and everything sent is there for readers of committed records: at once, or a
        moment later where several brokers have the partitions. Raises KafkaError; where the state is then ABORTABLE_ERROR,
        abort. A call that is cancelled goes on; the next one waits for its result."""
        self._await(self._client.commit_transaction)

    def abort_transaction(self) -> None:
        """Readers of committed records see nothing of the transaction; records that were not sent yet fail with
        INVALID_TXN_STATE, or with the error for which it is aborted. Raises KafkaError."""
        self._await(self._client.abort_transaction)

    def leave_transaction_open(self) -> OpenTransaction:
        """Returns once everything sent is acknowledged; a producer in another process ends the transaction with the result, by
        `resume_transaction`. Raises KafkaError."""
        return self._await(self._client.leave_transaction_open)

    def resume_transaction(self, left: OpenTransaction) -> None:
        """Continues a transaction that another process left open, only to end it."""
        self._call(self._client.resume_transaction, left)

    def flush(self) -> None:
        """Returns once everything sent so far is acknowledged or has failed, which delivery.timeout.ms bounds. Raises
        RuntimeError after `close`."""
        self._await(self._client.flush)

    def close(self, timeout_ms: float | None = None) -> None:
        """Sends what is buffered and waits for its acknowledgement, ``timeout_ms`` at most (None: delivery.timeout.ms and
        request.timeout.ms together). What is left then fails with REQUEST_TIMED_OUT. A transaction that is open is aborted."""
        self._close(self._client.close, timeout_ms)
