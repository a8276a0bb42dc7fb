"""The writing programs of a story, on the production clients; those of groups are `members`.

Each notes in the history what it asked for before it asks, and what it learned. A program whose client fails for good begins
again with another, as a supervised process would; it ends once `StoryWork.finishing` is set and its work is done.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.client import Consumer, ConsumerGroupMetadata, KafkaError, Producer
from coterie.simulation.process import CURRENT
from coterie_conformance.stories.history import History, SentRecord, TopicPartition, TransactionOutcome
from coterie_conformance.stories.plan import INPUT, LEDGER, PARTITIONS

PAUSES_S = (0.0, 0.01, 0.1, 0.5, 2.0)
RETRY_S = 0.5
LATE_S = 0.1  # a record may have its end so long after delivery.timeout.ms
LAST_ATTEMPTS = 10


@dataclass(slots=True)
class StoryWork:
    """What the programs of a story share. ``lives`` counts the processes of each name, ``numbers`` their records;
    ``consumers``: that of each member that runs; ``polled`` is called with the name of a member after each of its polls."""

    servers: str
    history: History
    finishing: bool = False
    lives: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    consumers: dict[str, Consumer[Any, Any]] = field(default_factory=dict)
    polled: Callable[[str], None] = lambda name: None

    def begin(self, name: str) -> random.Random:
        """A new life of the process; its randomness."""
        life = self.lives[name] = self.lives.get(name, 0) + 1
        self.consumers.pop(name, None)
        return random.Random(f"{self.seed} {name} {life}")

    def new_record(
        self, name: str, partition: TopicPartition, transaction: str | None = None, padding: int = 0
    ) -> bytes:
        """A value that no other record has; it counts as sent from now on."""
        number = self.numbers[name] = self.numbers.get(name, 0) + 1
        value = b"%s %d" % (name.encode(), number) + b" " * padding
        self.history.sent[value] = SentRecord(name, number, partition, transaction)
        return value


async def produce(work: StoryWork, name: str, *, idempotent: bool) -> None:
    """Sends records one after the other, or several at once, some without waiting for those before. Of the producer that it has
    at the end every record has its result, and one more is taken."""
    rng = work.begin(name)
    settings = {
        "bootstrap.servers": work.servers,
        "enable.idempotence": idempotent,
        "acks": "all",
        "delivery.timeout.ms": rng.choice((5_000, 20_000, 120_000)),
        "request.timeout.ms": rng.choice((1_000, 3_000)),
        "linger.ms": rng.choice((0, 5, 50)),
        "batch.size": rng.choice((200, 500, 2_000)),  # it must fit into a segment
        "buffer.memory": rng.choice((4_000, 1_000_000)),
        "max.block.ms": 20_000,
        "max.in.flight.requests.per.connection": rng.choice((1, 2, 5)),
    }
    while not work.finishing:
        try:
            async with Producer(settings) as producer:
                while not work.finishing:
                    for _ in range(rng.choice((1, 1, 1, 8))):
                        await _send(work, name, producer, rng)
                    await asyncio.sleep(rng.choice(PAUSES_S))
                await producer.flush()
                used = producer._accumulator.buffered_bytes
                assert not used, f"{name} has {used} bytes of its buffer in use, and nothing to send"
                await _send_one_more(work, name, producer, rng)
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _send(work: StoryWork, name: str, producer: Producer[Any, Any], rng: random.Random) -> Any:
    partition = rng.randrange(PARTITIONS[INPUT])
    value = work.new_record(name, (INPUT, partition), padding=rng.choice((0, 0, 0, 100)))
    delivery = await producer.send(INPUT, value, partition=partition, on_delivery=_noting(work, value))
    work.history.sent[value].due_s = time.monotonic() + producer.settings.delivery_timeout_ms / 1000
    return delivery


async def _send_one_more(work: StoryWork, name: str, producer: Producer[Any, Any], rng: random.Random) -> None:
    """Without faults whatever is sent is acknowledged: no producer is left with numbers that its broker refuses."""
    for _ in range(LAST_ATTEMPTS):
        delivery = await _send(work, name, producer, rng)
        try:
            await delivery
        except KafkaError:
            await asyncio.sleep(RETRY_S)
        else:
            return
    raise AssertionError(f"{name} cannot send any more")


def _noting(work: StoryWork, value: bytes) -> Any:
    def delivered(metadata: Any, error: KafkaError | None) -> None:
        record = work.history.sent[value]
        if record.due_s is not None:
            process = CURRENT.get()
            late_s = time.monotonic() - max(record.due_s, 0.0 if process is None else process.resumed_s)
            if late_s > LATE_S:
                work.history.misreported.append(f"{value!r} has its end {late_s:.3f} s after its delivery timeout")
        if error is None:
            if metadata.partition != record.partition[1]:
                work.history.misreported.append(f"{value!r} is in another partition")
            record.offset = metadata.offset
        else:
            record.failed = True

    return delivered


async def transact(work: StoryWork, name: str, transactional_id: str, *, ledger: bool) -> None:
    """Transactions of a few records each; a fifth are aborted without an error. ``ledger``: they also commit offsets, each
    higher than the one before, without being a member."""
    rng = work.begin(name)
    settings = {
        "bootstrap.servers": work.servers,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": rng.choice((5_000, 10_000, 30_000)),
        "delivery.timeout.ms": 8_000,
        "request.timeout.ms": 3_000,
    }
    while not work.finishing:
        try:
            async with Producer(settings) as producer:
                await producer.init_transactions()
                while not work.finishing:
                    await _one_transaction(work, name, producer, rng, ledger=ledger)
                    await asyncio.sleep(rng.choice(PAUSES_S))
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _one_transaction(
    work: StoryWork, name: str, producer: Producer[Any, Any], rng: random.Random, *, ledger: bool
) -> None:
    transaction, outcome = new_transaction(work, name)
    producer.begin_transaction()
    for _ in range(rng.randint(1, 4)):
        partition = rng.randrange(PARTITIONS[INPUT])
        value = work.new_record(name, (INPUT, partition), transaction)
        outcome.values.append(value)
        await producer.send(INPUT, value, partition=partition, on_delivery=_noting(work, value))
        await asyncio.sleep(rng.choice(PAUSES_S[:4]))
        if ledger and rng.random() < 0.5:
            outcome.superseded += outcome.offsets.values()
            outcome.offsets[INPUT, int(name[-1])] = work.numbers[name]
            await producer.send_offsets_to_transaction(outcome.offsets, ConsumerGroupMetadata(LEDGER))
    await end(producer, outcome, commits=rng.random() < 0.8)


def new_transaction(work: StoryWork, name: str) -> tuple[str, TransactionOutcome]:
    """Its name, and what is known of it from now on."""
    transaction = f"{name}/{len(work.history.transactions)}"
    outcome = work.history.transactions[transaction] = TransactionOutcome()
    return transaction, outcome


async def end(producer: Producer[Any, Any], outcome: TransactionOutcome, *, commits: bool) -> None:
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
