"""Part `histories`: clients write down what they observe while a broker is killed again and again, and the history is
searched for anomalies. The same is done with coterie and with Apache Kafka, which shows what the search is worth. Any broker
or cluster of Kafka's protocol can be judged by the workload: producers, transactions and readers of our client."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from coterie.client import Admin, Consumer, Producer
from coterie.client.errors import KafkaError
from coterie.text.addresses import format_address
from coterie_conformance.histories.operation_history import (
    Anomaly,
    ClientOperation,
    OperationOutcome,
    PollStep,
    SendStep,
    TopicPartition,
    anomalies,
)
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker

Strike = Callable[[], Awaitable[None]]
RETRIED_AFTER_S = 0.3
READ_TO_END_S = 60.0
TOPIC, PARTITIONS = "histories", 4
KILLS, KILLED_EVERY_S = 5, 6.0
ABORT_INTERVAL = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """``topic`` exists. ``settings``: of every client. Rates are bounded by pauses of up to ``pause_s``. A transaction that its
    writer left open ends by ``transaction_timeout_ms``."""

    bootstrap: str
    topic: str
    partitions: int
    transactional_writers: int = 2
    plain_writers: int = 2
    readers: int = 2
    pause_s: float = 0.02
    transaction_timeout_ms: int = 10_000
    settings: dict[str, Any] = field(default_factory=dict)


class HistoryWorkload:
    """``operations``: the history so far, each process's in its own order."""

    def __init__(self, config: WorkloadConfig, seed: int) -> None:
        self.config, self._rng = config, random.Random(seed)
        self.operations: list[ClientOperation] = []
        self._count = 0
        self._stopped = False

    async def run(self, strike: Strike, strikes: int, every_s: float) -> list[ClientOperation]:
        """The history: ``strike`` is called so often, then writers end and a last reader reads to the end. Raises TimeoutError
        where that end is not reached in `READ_TO_END_S`, and what ``strike`` raises."""
        config = self.config
        work: list[Coroutine[Any, Any, None]] = []
        work += [self._write_transactions(f"t{n}") for n in range(config.transactional_writers)]
        work += [self._write(f"p{n}") for n in range(config.plain_writers)]
        work += [self._read(f"r{n}") for n in range(config.readers)]
        async with asyncio.TaskGroup() as tasks:
            for each in work:
                tasks.create_task(each)
            for _ in range(strikes):
                await asyncio.sleep(every_s)
                await strike()
            await asyncio.sleep(every_s)
            self._stopped = True
        await self._read_to_end()
        return self.operations

    def _settings(self, **more: Any) -> dict[str, Any]:
        own = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self.config.bootstrap, **self.config.settings, **own}

    def _new_value(self, process: str) -> str:
        self._count += 1
        return f"{process}-{self._count}"

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.random() * self.config.pause_s)

    # -- writers --------------------------------------------------------------------------------------------------------

    async def _write(self, process: str) -> None:
        """An idempotent producer, one record after the other."""
        while not self._stopped:
            async with Producer(self._settings(delivery_timeout_ms=30_000, request_timeout_ms=5_000)) as producer:
                while not self._stopped and await self._write_one(process, producer):
                    await self._pause()

    async def _write_one(self, process: str, producer: Producer[Any, Any]) -> bool:
        """Whether the producer may be used for another."""
        partition, value = self._rng.randrange(self.config.partitions), self._new_value(process)
        offset, outcome = -1, OperationOutcome.COMMITTED
        try:
            offset = (await producer.send_and_wait(self.config.topic, value.encode(), partition=partition)).offset
        except KafkaError:
            outcome = OperationOutcome.UNKNOWN
        send = SendStep((self.config.topic, partition), value, offset)
        self.operations.append(ClientOperation(process, (send,), outcome))
        return outcome is OperationOutcome.COMMITTED

    async def _write_transactions(self, process: str) -> None:
        settings = self._settings(
            transactional_id=f"{self.config.topic}-{process}",
            transaction_timeout_ms=self.config.transaction_timeout_ms,
            delivery_timeout_ms=self.config.transaction_timeout_ms,
            request_timeout_ms=5_000,
        )
        while not self._stopped:
            try:
                async with Producer(settings) as producer:
                    await producer.init_transactions()
                    while not self._stopped:
                        if await self._write_transaction(process, producer) is OperationOutcome.UNKNOWN:
                            break  # the next producer's epoch ends it, one way or the other
                        await self._pause()
            except KafkaError:
                await asyncio.sleep(RETRIED_AFTER_S)

    async def _write_transaction(self, process: str, producer: Producer[Any, Any]) -> OperationOutcome:
        """One transaction. Raises KafkaError where it cannot begin, or cannot be aborted: nothing committed it then."""
        config, rng, sends = self.config, self._rng, list[SendStep]()
        producer.begin_transaction()
        outcome = OperationOutcome.ABORTED
        try:
            for partition in rng.choices(range(config.partitions), k=rng.randint(1, 4)):
                sends.append(SendStep((config.topic, partition), self._new_value(process)))
                await producer.send(config.topic, sends[-1].value.encode(), partition=partition)
            await producer.flush()
            if rng.random() < 0.8:
                outcome = OperationOutcome.UNKNOWN
                await producer.commit_transaction()
                outcome = OperationOutcome.COMMITTED
        except KafkaError:
            pass
        finally:
            self.operations.append(ClientOperation(process, tuple(sends), outcome))
        if outcome is OperationOutcome.ABORTED:
            await producer.abort_transaction()
        return outcome

    # -- readers --------------------------------------------------------------------------------------------------------

    def _partitions(self) -> list[TopicPartition]:
        return [(self.config.topic, number) for number in range(self.config.partitions)]

    def _polled(self, process: str, polled: Any, *, reassigned: bool) -> None:
        records = {
            (topic, partition): tuple((record.offset, record.value.decode()) for record in batch)
            for (topic, partition), batch in polled.items()
        }
        if records or reassigned:
            self.operations.append(ClientOperation(process, (PollStep(records),), reassigned=reassigned))

    async def _read(self, process: str) -> None:
        """Reads what is committed from the beginning, again and again."""
        settings = self._settings(isolation_level="read_committed", auto_offset_reset="earliest")
        while not self._stopped:
            try:
                async with Consumer(settings) as consumer:
                    await consumer.assign(self._partitions())
                    await self._poll_often(process, consumer)
            except KafkaError:
                await asyncio.sleep(RETRIED_AFTER_S)

    async def _poll_often(self, process: str, consumer: Consumer[Any, Any]) -> None:
        """Raises KafkaError; the positions are those of before then, and another consumer begins again."""
        for number in range(self._rng.randint(20, 200)):
            if not self._stopped:
                self._polled(process, await consumer.poll(200), reassigned=number == 0)

    async def _read_to_end(self) -> None:
        """One reader from the first offsets to the ends, which open transactions hold back at first."""
        ends_s = time.monotonic() + READ_TO_END_S
        behind = set(self._partitions())
        settings = self._settings(isolation_level="read_committed", auto_offset_reset="earliest")
        async with Consumer(settings) as consumer, Consumer(self._settings()) as onlooker:
            while behind:
                if time.monotonic() > ends_s:
                    raise TimeoutError(f"the ends of {sorted(behind)} were not reached in {READ_TO_END_S:g} s")
                try:
                    if not consumer.assignment():
                        await consumer.assign(self._partitions())
                    self._polled("last", await consumer.poll(200), reassigned=False)
                    # Ends without regard to transactions: all of them are over when the reader is there.
                    ends = await onlooker.end_offsets(self._partitions())
                    behind = {(p[0], p[1]) for p, end in ends.items() if consumer.position(p) < end}
                except KafkaError:
                    await asyncio.sleep(RETRIED_AFTER_S)


class KillableBroker(Protocol):
    """A broker that keeps its data and its address when it is killed and started again."""

    address: tuple[str, int]

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


def coterie_broker(folder: Path, settings: Mapping[str, str] | None = None) -> CoterieBroker:
    """A broker of ours on that folder."""
    return CoterieBroker(folder, {**ABORT_INTERVAL, **(settings or {})})


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """``sent`` and ``read`` count records."""

    kills: int
    operations: int
    sent: int
    read: int
    anomalies: tuple[Anomaly, ...]


def kafka_broker(version: str, folder: Path, settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """Raises CannotRun."""
    return KafkaBroker(version, folder, {**ABORT_INTERVAL, **(settings or {})})


def judge(broker: KillableBroker, seed: int) -> JudgedHistory:
    """Runs the workload on ``broker``, which is started here and stopped. Raises CannotRun, TimeoutError."""
    try:
        broker.start()
        history = asyncio.run(_history(broker, seed))
    finally:
        broker.stop()
    steps = [step for operation in history for step in operation.steps]
    read = sum(len(records) for step in steps if isinstance(step, PollStep) for records in step.records.values())
    sent = sum(isinstance(step, SendStep) for step in steps)
    return JudgedHistory(KILLS, len(history), sent, read, tuple(anomalies(history, read_to_end=True)))


async def _history(broker: KillableBroker, seed: int) -> list[ClientOperation]:
    address = format_address(*broker.address)

    async def strike() -> None:
        broker.kill()
        await asyncio.to_thread(broker.start)

    async with Admin({"bootstrap.servers": address}) as admin:
        await admin.create_topic(TOPIC, PARTITIONS)
    return await HistoryWorkload(WorkloadConfig(address, TOPIC, PARTITIONS), seed).run(strike, KILLS, KILLED_EVERY_S)
