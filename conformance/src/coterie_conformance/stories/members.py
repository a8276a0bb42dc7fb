"""The programs of a story that are members of groups: readers, and read-process-write loops; and the reader of all at the end.

A program whose client fails for good begins again with another, as a supervised process would.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.client import (
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
)
from coterie.client import (
    TopicPartition as Partition,
)
from coterie_conformance.stories.history import History, PolledRecord, TopicPartition
from coterie_conformance.stories.plan import COPIERS, INPUT, OUTPUT, PARTITIONS, StoryPlan
from coterie_conformance.stories.programs import PAUSES_S, RETRY_S, StoryWork, end, new_transaction

COPY = b"copy of "


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
        """Notes what is read again, and what is not owned."""
        if partition not in self.lowest:
            self._history.strays.append(f"{name} polls {partition} {offsets[0]}, which it does not own")
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


class CommitNotes(ConsumerInterceptor):
    """Notes the commits that were acknowledged, automatic ones as well."""

    def __init__(self, history: History, group: str) -> None:
        self._history, self._group = history, group

    def on_commit(self, offsets: Mapping[Partition, int]) -> None:
        self._history.commit_acknowledged(self._group, {(tp.topic, tp.partition): o for tp, o in offsets.items()})


async def read(work: StoryWork, name: str, group: str, settings: dict[str, object]) -> None:
    """A member of the group that notes each record, and commits what it has noted."""
    rng = work.begin(name)
    settings = {"bootstrap.servers": work.servers, "group.id": group, "auto.offset.reset": "earliest"} | settings
    settings["enable.auto.commit"] = by_itself = rng.random() < 0.5
    settings["auto.commit.interval.ms"] = 500
    settings["interceptor.classes"] = [CommitNotes(work.history, group)]
    settings["max.partition.fetch.bytes"] = rng.choice((200, 2_000, 1_000_000))
    settings["max.poll.records"] = rng.choice((3, 500, 500))
    polled = work.history.polled.setdefault(group, [])
    while True:
        try:
            async with Consumer(settings) as consumer:
                consumer.subscribe([INPUT], listener := ReadingListener(work.history, group))
                work.consumers[name] = consumer
                try:
                    while True:
                        for partition, records in (await consumer.poll(500)).items():
                            tp = partition.topic, partition.partition
                            polled += [PolledRecord(name, tp, record.offset, record.value or b"") for record in records]
                            listener.polled(name, tp, [record.offset for record in records])
                        work.polled(name)
                        if not work.finishing:
                            await asyncio.sleep(rng.choice(PAUSES_S[:4]))
                        if not by_itself:
                            await _commit(work, name, consumer)
                finally:
                    work.consumers.pop(name, None)
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)


async def _commit(work: StoryWork, name: str, consumer: Consumer[Any, Any]) -> None:
    """A commit that is refused is one of the next round."""
    try:
        await consumer.commit()
    except KafkaError as error:
        if error.fatal:
            raise
        work.history.errors.append((name, error.code.name))


class TransactionAborted(Exception):
    """The consumer is past the records of a transaction that was aborted: reading begins again at the committed offsets."""


async def copy(work: StoryWork, name: str, plan: StoryPlan, settings: dict[str, object]) -> None:
    """Reads, processes and writes in transactions that commit the group's offsets (KIP-98, KIP-447)."""
    rng = work.begin(name)
    shared = {"bootstrap.servers": work.servers, "request.timeout.ms": 3_000}
    reading = shared | {"group.id": COPIERS, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    reading |= settings | {"enable.auto.commit": False}
    writing = shared | {"transactional.id": name, "delivery.timeout.ms": 8_000}
    writing |= {"transaction.timeout.ms": plan.transaction_timeout_ms}
    writing |= {"batch.size": 1_000}  # a batch must fit into a segment
    while True:
        try:
            async with Consumer(reading) as consumer, Producer(writing) as producer:
                await producer.init_transactions()
                consumer.subscribe([INPUT])
                while True:
                    polled = await consumer.poll(500)
                    if polled:
                        await _copy_batch(work, name, producer, consumer, polled, rng, plan.copying_s)
                    elif work.finishing and not plan.synced:
                        # A power cut may have lost the commit of a transaction whose records were copied: no other
                        # record need follow that would take the group to the position of its member.
                        await consumer.commit()
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
    pauses_s: Sequence[float],
) -> None:
    """After an abort the client is replaced, so that reading begins again at the committed offsets."""
    _, outcome = new_transaction(work, name)
    producer.begin_transaction()
    for records in polled.values():
        for record in records:
            value = COPY + record.value
            outcome.values.append(value)
            await producer.send(OUTPUT, value, partition=rng.randrange(PARTITIONS[OUTPUT]))
    last = {partition: records[-1] for partition, records in polled.items()}
    offsets = {p: OffsetAndMetadata(record.offset + 1, record.leader_epoch) for p, record in last.items()}
    if not work.finishing:
        await asyncio.sleep(rng.choice(pauses_s))
    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    aborts = not work.finishing and rng.random() < 0.2
    await end(producer, outcome, commits=not aborts)
    if not outcome.committed:
        _read_again()


def _read_again() -> None:
    """By another client, from the committed offsets on."""
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
