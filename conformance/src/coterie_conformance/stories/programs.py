"""The programs of a story: a user's producers, consumers and read-process-write loops, on the production clients.

Each notes in the history what it asked for before it asks, and what it learned. A program whose client fails for good begins
again with another, as a supervised process would; it ends once `StoryWork.finishing` is set and its work is done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.client import Consumer, KafkaError, OffsetAndMetadata, Producer, RebalanceListener
from coterie_conformance.stories.history import History, PolledRecord, SentRecord, TopicPartition, TransactionOutcome
from coterie_conformance.stories.plan import INPUT, OUTPUT, PARTITIONS

PAUSES_S = (0.0, 0.01, 0.1, 0.5, 2.0)
RETRY_S = 0.5
COPY = b"copy of "


@dataclass(slots=True)
class StoryWork:
    """What the programs of a story share. ``lives`` counts the processes of each name, ``numbers`` their records."""

    servers: str
    history: History
    finishing: bool = False
    lives: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    seed: int = 0

    def begin(self, name: str) -> random.Random:
        """A new life of the process; its randomness."""
        life = self.lives[name] = self.lives.get(name, 0) + 1
        return random.Random(f"{self.seed} {name} {life}")

    def new_record(self, name: str, partition: TopicPartition, transaction: str | None = None) -> bytes:
        """A value that no other record has; it counts as sent from now on."""
        number = self.numbers[name] = self.numbers.get(name, 0) + 1
        value = b"%s %d" % (name.encode(), number)
        self.history.sent[value] = SentRecord(name, number, partition, transaction)
        return value


async def produce(work: StoryWork, name: str, *, idempotent: bool) -> None:
    """Sends records one after the other, some without waiting for the one before."""
    rng = work.begin(name)
    settings = {
        "bootstrap.servers": work.servers,
        "enable.idempotence": idempotent,
        "acks": "all",
        "delivery.timeout.ms": rng.choice((20_000, 120_000)),
        "request.timeout.ms": rng.choice((3_000, 10_000)),
        "linger.ms": rng.choice((0, 5, 50)),
    }
    while not work.finishing:
        try:
            async with Producer(settings) as producer:
                while not work.finishing:
                    partition = rng.randrange(PARTITIONS[INPUT])
                    value = work.new_record(name, (INPUT, partition))
                    await producer.send(INPUT, value, partition=partition, on_delivery=_noting(work, value))
                    await asyncio.sleep(rng.choice(PAUSES_S))
                await producer.flush()
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


def _noting(work: StoryWork, value: bytes) -> Any:
    def delivered(metadata: Any, error: KafkaError | None) -> None:
        record = work.history.sent[value]
        if error is None:
            assert metadata.partition == record.partition[1], f"{value!r} is in another partition"
            record.offset = metadata.offset
        else:
            record.failed = True

    return delivered


async def transact(work: StoryWork, name: str) -> None:
    """Transactions of a few records each; a fifth are aborted without an error."""
    rng = work.begin(name)
    settings = {
        "bootstrap.servers": work.servers,
        "transactional.id": name,
        "transaction.timeout.ms": rng.choice((10_000, 30_000)),
        "delivery.timeout.ms": 8_000,
        "request.timeout.ms": 3_000,
    }
    while not work.finishing:
        try:
            async with Producer(settings) as producer:
                await producer.init_transactions()
                while not work.finishing:
                    await _one_transaction(work, name, producer, rng)
                    await asyncio.sleep(rng.choice(PAUSES_S))
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _one_transaction(work: StoryWork, name: str, producer: Producer[Any, Any], rng: random.Random) -> None:
    outcome = _new_transaction(work, name)
    transaction = outcome[0]
    producer.begin_transaction()
    for _ in range(rng.randint(1, 4)):
        partition = rng.randrange(PARTITIONS[INPUT])
        value = work.new_record(name, (INPUT, partition), transaction)
        outcome[1].values.append(value)
        await producer.send(INPUT, value, partition=partition, on_delivery=_noting(work, value))
        await asyncio.sleep(rng.choice(PAUSES_S[:4]))
    await _end(producer, outcome[1], commits=rng.random() < 0.8)


def _new_transaction(work: StoryWork, name: str) -> tuple[str, TransactionOutcome]:
    transaction = f"{name}/{len(work.history.transactions)}"
    outcome = work.history.transactions[transaction] = TransactionOutcome()
    return transaction, outcome


async def _end(producer: Producer[Any, Any], outcome: TransactionOutcome, *, commits: bool) -> None:
    """Commits, or aborts; a commit that is refused is aborted where the producer can."""
    if not commits:
        await producer.abort_transaction()
        outcome.committed = False
        return
    outcome.asked_to_commit = True
    try:
        await producer.commit_transaction()
        outcome.committed = True
    except KafkaError as error:
        if error.fatal or error.retriable:
            raise
        await producer.abort_transaction()
        outcome.committed = False


class ReadingListener(RebalanceListener):
    """Keeps from where each owned partition may be read: from the highest offset that had been committed before, then from the
    offset behind the last record."""

    def __init__(self, history: History, group: str) -> None:
        self._history, self._group = history, group
        self.lowest: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, partitions: Sequence[Any]) -> None:
        committed = self._history.committed.get(self._group, {})
        self.lowest |= {tp: committed.get(tp, 0) for tp in ((p.topic, p.partition) for p in partitions)}

    def polled(self, name: str, partition: TopicPartition, offsets: Sequence[int]) -> None:
        """Notes what is read again."""
        lowest = self.lowest.get(partition, 0)
        for offset in offsets:
            if offset < lowest:
                text = f"{name} read {partition} {offset} again, behind {lowest}"
                self._history.repeated.append(text)
            lowest = offset + 1
        if partition in self.lowest:
            self.lowest[partition] = lowest

    def on_partitions_revoked(self, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            self.lowest.pop((partition.topic, partition.partition), None)

    def on_partitions_lost(self, partitions: Sequence[Any]) -> None:
        self.on_partitions_revoked(partitions)


async def read(work: StoryWork, name: str, group: str, settings: dict[str, object]) -> None:
    """A member of the group that notes each record, and commits what it has noted."""
    rng = work.begin(name)
    settings = {"bootstrap.servers": work.servers, "group.id": group, "auto.offset.reset": "earliest"} | settings
    settings["enable.auto.commit"] = by_itself = rng.random() < 0.5
    settings["auto.commit.interval.ms"] = 500
    polled = work.history.polled.setdefault(group, [])
    while True:
        try:
            async with Consumer(settings) as consumer:
                consumer.subscribe([INPUT], listener := ReadingListener(work.history, group))
                while True:
                    for partition, records in (await consumer.poll(500)).items():
                        tp = partition.topic, partition.partition
                        polled += [PolledRecord(name, tp, record.offset, record.value or b"") for record in records]
                        listener.polled(name, tp, [record.offset for record in records])
                    if not work.finishing:
                        await asyncio.sleep(rng.choice(PAUSES_S[:4]))
                    if not by_itself:
                        await _commit(work, name, group, consumer)
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _commit(work: StoryWork, name: str, group: str, consumer: Consumer[Any, Any]) -> None:
    """A commit that is refused is one of the next round."""
    try:
        offsets = {(tp.topic, tp.partition): consumer.position(tp) for tp in consumer.assignment()}
        await consumer.commit()
        work.history.commit_acknowledged(group, offsets)
    except KafkaError as error:
        if error.fatal:
            raise
        work.history.errors.append((name, error.code.name))


class TransactionAborted(Exception):
    """The consumer is past the records of a transaction that was aborted: reading begins again at the committed offsets."""


async def copy(work: StoryWork, name: str, group: str, settings: dict[str, object]) -> None:
    """Reads, processes and writes in transactions that commit the group's offsets (KIP-98, KIP-447)."""
    rng = work.begin(name)
    shared = {"bootstrap.servers": work.servers, "request.timeout.ms": 3_000}
    reading = shared | {"group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    reading |= settings | {"enable.auto.commit": False}
    writing = shared | {"transactional.id": name, "transaction.timeout.ms": 10_000, "delivery.timeout.ms": 8_000}
    while True:
        try:
            async with Consumer(reading) as consumer, Producer(writing) as producer:
                await producer.init_transactions()
                consumer.subscribe([INPUT])
                while True:
                    polled = await consumer.poll(500)
                    if polled:
                        await _copy_batch(work, name, producer, consumer, polled, rng)
        except TransactionAborted:
            continue
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _copy_batch(
    work: StoryWork,
    name: str,
    producer: Producer[Any, Any],
    consumer: Consumer[Any, Any],
    polled: Any,
    rng: random.Random,
) -> None:
    """After an abort the client is replaced, so that reading begins again at the committed offsets."""
    _, outcome = _new_transaction(work, name)
    producer.begin_transaction()
    for records in polled.values():
        for record in records:
            value = COPY + record.value
            outcome.values.append(value)
            await producer.send(OUTPUT, value, partition=rng.randrange(PARTITIONS[OUTPUT]))
    last = {partition: records[-1] for partition, records in polled.items()}
    offsets = {p: OffsetAndMetadata(record.offset + 1, record.leader_epoch) for p, record in last.items()}
    if not work.finishing:
        await asyncio.sleep(rng.choice(PAUSES_S[:4]))
    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    aborts = not work.finishing and rng.random() < 0.2
    await _end(producer, outcome, commits=not aborts)
    if not outcome.committed:
        raise TransactionAborted


async def read_all(servers: str, *, committed: bool) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    """Every partition from its beginning to its end."""
    settings = {
        "bootstrap.servers": servers,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    every = [(topic, partition) for topic, count in PARTITIONS.items() for partition in range(count)]
    values: dict[TopicPartition, list[tuple[int, bytes]]] = {tp: [] for tp in every}
    async with Consumer(settings) as consumer:
        await consumer.assign(every)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(every)
        while any(consumer.position(tp) < ends[tp] for tp in consumer.assignment()):
            for tp, records in (await consumer.poll(1_000)).items():
                values[tp.topic, tp.partition] += [(record.offset, record.value or b"") for record in records]
    return values
