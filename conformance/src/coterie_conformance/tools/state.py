"""The state of a broker before part `tools`' first command: topics with records, groups and transactions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie_conformance.client.checks import PATIENCE_S, read, until
from coterie_conformance.share_stories.streams_program import StreamsProgram

TOPICS = {"records": 3, "empty": 1, "ledger": 1}
RECORDS_PER_PARTITION = 10
FIRST_TIMESTAMP_MS = 1_700_000_000_000
LATEST = -1  # the end of the log, to ListOffsets
TRANSACTION_TIMEOUT_MS = 900_000  # none may end by itself


async def _make_topics(server: str) -> None:
    async with Admin({"bootstrap.servers": server}) as admin:
        for name, partitions in TOPICS.items():
            await admin.create_topic(name, partitions, {"retention.ms": "-1"})  # its records are from 2023

        async def led() -> bool:
            topics = await admin.describe_topics(TOPICS)
            return all(name in topics and all(p.leader for p in topics[name].partitions) for name in TOPICS)

        await until(led, "the topics have leaders")


async def _fill_topics(server: str) -> None:
    async with Producer({"bootstrap.servers": server, "linger.ms": 5}) as producer:
        for partition in range(TOPICS["records"]):
            for n in range(RECORDS_PER_PARTITION):
                timestamp_ms = FIRST_TIMESTAMP_MS + 1_000 * n + partition
                value, key = b"value-%d-%d" % (partition, n), b"key-%d" % n
                await producer.send("records", value, key, partition=partition, timestamp_ms=timestamp_ms)
            await producer.flush()


async def _run_transactions(server: str) -> None:
    """One record in each of two transactions: `done` commits, `open` stays open."""
    for name in ("done", "open"):
        settings = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        async with Producer({"bootstrap.servers": server} | settings) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            sent = await producer.send("ledger", name.encode(), partition=0)
            await producer.flush()
            await sent
            if name == "done":
                await producer.commit_transaction()
                await _marker_written(server)
            else:
                await producer.leave_transaction_open()


async def _marker_written(server: str) -> None:
    """Apache Kafka answers EndTxn before the marker is written; `open` begins after it on both sides."""
    async with Admin({"bootstrap.servers": server}) as admin:

        async def written() -> bool:
            return list((await admin.list_offsets({("ledger", 0): LATEST})).values()) == [2]

        await until(written, "the marker of `done` is written")


def _member(server: str, group: str) -> Consumer:
    settings = {"bootstrap.servers": server, "group.id": group, "client.id": "tools", "auto.offset.reset": "earliest"}
    return Consumer(settings | {"enable.auto.commit": False})


async def _consume(server: str, ready: threading.Event, stop: threading.Event) -> None:
    """A member of `former` reads, commits and leaves; one of `active` reads, commits and stays until ``stop``."""
    count = TOPICS["records"] * RECORDS_PER_PARTITION
    async with _member(server, "former") as consumer:
        consumer.subscribe(["records"])
        await read(consumer, count)
        await consumer.commit()
    async with _member(server, "active") as consumer:
        consumer.subscribe(["records"])
        await read(consumer, count)
        await consumer.commit()
        ready.set()
        while not stop.is_set():
            await consumer.poll(200)


async def _stream(server: str, member: str, lives: Callable[[int], bool]) -> None:
    """A thread of the streams application `app`, or `former-app`, that reads and commits as long as ``lives`` of the records
    that it had; then it leaves."""
    had: set[tuple[int, int]] = set()
    group = member.rpartition("-")[0]
    program = StreamsProgram(server, group, member, "records")

    async def run() -> None:
        while True:
            try:
                await program.run(lambda *at: had.add(at), lambda: 0.0)
            except KafkaError as error:
                if not error.code.retriable:  # else there is no coordinator yet
                    raise
                await asyncio.sleep(0.1)

    task = asyncio.create_task(run())
    while lives(len(had)):
        await asyncio.sleep(0.1)
        if task.done():
            await task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await program.leave()


@contextlib.contextmanager
def prepared(server: str, *, streams: bool) -> Iterator[None]:
    """The state exists, and the members of `active` and, with ``streams``, of `app` live, for the length of a with-block."""
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        await _make_topics(server)
        await _fill_topics(server)
        await _run_transactions(server)
        app = []
        if streams:
            count, all_read = TOPICS["records"] * RECORDS_PER_PARTITION, asyncio.Event()
            await _stream(server, "former-app-1", lambda had: had < count)

            def lives(had: int) -> bool:
                if had == count:
                    all_read.set()
                return not stop.is_set()

            app = [asyncio.create_task(_stream(server, "app-1", lives))]
            await all_read.wait()
        await _consume(server, ready, stop)
        await asyncio.gather(*app)

    thread = threading.Thread(target=asyncio.run, args=(live(),), name=f"tools at {server}")
    thread.start()
    try:
        assert ready.wait(PATIENCE_S), f"{server}: no state after {PATIENCE_S:g} s"
        yield
    finally:
        stop.set()
        thread.join()
