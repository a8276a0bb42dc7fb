"""Clients that copy a topic exactly once: each batch that is read, its copies and its offsets are one transaction."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from coterie.client import Consumer, Producer
from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie_conformance.cluster_clients.aiokafka_work import EventLoopThread

INPUT, OUTPUT, GROUP, TRANSACTIONAL_ID = "input", "output", "copiers", "copier"
DROPPED = 0.3
BATCH, POLL_MS, TRANSACTION_MS, RESULT_S = 10, 100, 30_000, 60.0
Batch = Mapping[int, Sequence[tuple[int, bytes]]]  # by partition: offsets and values


class Copier(Protocol):
    """A consumer and a transactional producer of one client. Each method raises errors of its client."""

    def open_producer(self) -> None:
        """In place of the one before, which ends its transaction."""

    def open_consumer(self) -> None: ...

    def poll(self) -> Batch: ...

    def send(self, batch: Batch) -> None:
        """Begins a transaction with the copies of the batch and the offsets after it."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def rewind(self) -> None:
        """To the committed offsets."""

    def close(self) -> None: ...


def positions(batch: Batch) -> dict[int, int]:
    """The offsets after a batch, by partition."""
    return {partition: records[-1][0] + 1 for partition, records in batch.items()}


class Dropped(Exception):
    """A transaction that the program aborts without an error."""


def copy_all(copier: Copier, stopped: threading.Event, rng: random.Random) -> None:
    """As Kafka's documentation has it: after an error the transaction is aborted, or the producer replaced where that fails,
    and the batch is read again from the committed offsets. `DROPPED` of the transactions are aborted without an error."""
    _repeat(copier.open_producer, stopped)
    _repeat(copier.open_consumer, stopped)
    while not stopped.is_set():
        try:
            batch = copier.poll()
            if batch:
                copier.send(batch)
                if rng.random() < DROPPED:
                    raise Dropped
                copier.commit()
        except Exception as error:
            _complain(error)
            try:
                copier.abort()
            except Exception as failure:
                _complain(failure)
                _repeat(copier.open_producer, stopped)
            _repeat(copier.rewind, stopped)
    with contextlib.suppress(Exception):
        copier.close()


def _repeat(work: Callable[[], None], stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            work()
            return
        except Exception as error:
            _complain(error)
            stopped.wait(0.1)


def _complain(error: Exception) -> None:
    print(f"the copier: {error!r}", file=sys.stderr)


def _settings(address: str) -> dict[str, str]:
    return {"bootstrap.servers": address}


def _of_consumer(address: str) -> dict[str, Any]:
    return {
        **_settings(address),
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "max.poll.records": BATCH,
    }


def _of_producer(address: str) -> dict[str, Any]:
    return {**_settings(address), "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": TRANSACTION_MS}


class BlockingCopier:
    """A `Copier` with coterie's blocking client."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._producer: BlockingProducer | None = None

    def open_producer(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
        self._producer = BlockingProducer(_of_producer(self._address))
        self._producer.init_transactions()

    def open_consumer(self) -> None:
        self._consumer = BlockingConsumer(_of_consumer(self._address))
        self._consumer.subscribe([INPUT])

    def poll(self) -> Batch:
        polled = self._consumer.poll(POLL_MS)
        return {tp.partition: [(r.offset, r.value or b"") for r in records] for tp, records in polled.items()}

    def send(self, batch: Batch) -> None:
        assert self._producer is not None
        self._producer.begin_transaction()
        for partition, records in batch.items():
            for _, value in records:
                self._producer.send(OUTPUT, value, partition=partition)
        offsets = {(INPUT, partition): offset for partition, offset in positions(batch).items()}
        self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def commit(self) -> None:
        assert self._producer is not None
        self._producer.commit_transaction()

    def abort(self) -> None:
        assert self._producer is not None
        self._producer.abort_transaction()

    def rewind(self) -> None:
        assigned = self._consumer.assignment()
        committed = self._consumer.committed(assigned)
        for partition in assigned:
            self._consumer.seek(partition, max(committed[partition], 0))

    def close(self) -> None:
        self._consumer.close()
        if self._producer is not None:
            self._producer.close(0)


class _EventLoopCopier:
    """What `Copier`s with a client of asyncio share: their work runs on an event loop in a thread of its own."""

    def __init__(self, address: str) -> None:
        self._address, self._loop = address, EventLoopThread()

    def _result(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.result(work, RESULT_S)

    async def _producer_opened(self) -> None:
        raise NotImplementedError

    async def _consumer_opened(self) -> None:
        raise NotImplementedError

    async def _sent(self, batch: Batch) -> None:
        raise NotImplementedError

    async def _rewound(self) -> None:
        raise NotImplementedError

    async def _closed(self) -> None:
        raise NotImplementedError

    def open_producer(self) -> None:
        self._result(self._producer_opened())

    def open_consumer(self) -> None:
        self._result(self._consumer_opened())

    def send(self, batch: Batch) -> None:
        self._result(self._sent(batch))

    def rewind(self) -> None:
        self._result(self._rewound())

    def close(self) -> None:
        self._result(self._closed())


class AsyncioCopier(_EventLoopCopier):
    """A `Copier` with coterie's asyncio client."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._producer: Producer[Any, Any] | None = None

    async def _producer_opened(self) -> None:
        if self._producer is not None:
            await self._producer.close(0)
        self._producer = Producer(_of_producer(self._address))
        await self._producer.init_transactions()

    async def _consumer_opened(self) -> None:
        self._consumer: Consumer[Any, Any] = Consumer(_of_consumer(self._address))
        self._consumer.subscribe([INPUT])

    def poll(self) -> Batch:
        polled = self._result(self._consumer.poll(POLL_MS))
        return {tp.partition: [(r.offset, r.value) for r in records] for tp, records in polled.items()}

    async def _sent(self, batch: Batch) -> None:
        assert self._producer is not None
        self._producer.begin_transaction()
        for partition, records in batch.items():
            for _, value in records:
                await self._producer.send(OUTPUT, value, partition=partition)
        offsets = {(INPUT, partition): offset for partition, offset in positions(batch).items()}
        await self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def commit(self) -> None:
        assert self._producer is not None
        self._result(self._producer.commit_transaction())

    def abort(self) -> None:
        assert self._producer is not None
        self._result(self._producer.abort_transaction())

    async def _rewound(self) -> None:
        assigned = self._consumer.assignment()
        committed = await self._consumer.committed(assigned)
        for partition in assigned:
            self._consumer.seek(partition, max(committed[partition], 0))

    async def _closed(self) -> None:
        await self._consumer.close()
        if self._producer is not None:
            await self._producer.close(0)


class AiokafkaCopier(_EventLoopCopier):
    """A `Copier` with aiokafka. Its transactions do not carry the member of the group: there is one copier."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._producer: Any = None

    async def _producer_opened(self) -> None:
        from aiokafka import AIOKafkaProducer

        if self._producer is not None:
            await self._producer.stop()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._address,
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=TRANSACTION_MS,
        )
        await self._producer.start()

    async def _consumer_opened(self) -> None:
        from aiokafka import AIOKafkaConsumer

        self._consumer = AIOKafkaConsumer(
            INPUT,
            bootstrap_servers=self._address,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=TRANSACTION_MS,  # a rebalance during a transaction reads the offsets of before it
        )
        await self._consumer.start()

    def poll(self) -> Batch:
        polled = self._result(self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH))
        return {tp.partition: [(r.offset, r.value) for r in records] for tp, records in polled.items()}

    async def _sent(self, batch: Batch) -> None:
        from aiokafka import TopicPartition

        await self._producer.begin_transaction()
        for partition, records in batch.items():
            for _, value in records:
                await self._producer.send(OUTPUT, value, partition=partition)
        offsets = {TopicPartition(INPUT, partition): offset for partition, offset in positions(batch).items()}
        await self._producer.send_offsets_to_transaction(offsets, GROUP)

    def commit(self) -> None:
        self._result(self._producer.commit_transaction())

    def abort(self) -> None:
        self._result(self._producer.abort_transaction())

    async def _rewound(self) -> None:
        for partition in self._consumer.assignment():
            self._consumer.seek(partition, await self._consumer.committed(partition) or 0)

    async def _closed(self) -> None:
        await self._consumer.stop()
        await self._producer.stop()


COPIERS: Mapping[str, Callable[[str], Copier]] = {
    "blocking": BlockingCopier,
    "asyncio": AsyncioCopier,
    "aiokafka": AiokafkaCopier,
}
