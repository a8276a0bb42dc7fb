"""Rounds of one operation of our client, in a process of its own: for each line of the standard input one round, and the
microseconds of CPU that one operation of it took. Run as a file, with the sources of any checkout on the path: nothing of
coterie is used but the client that users see.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

VALUE = b"x" * 100
AT_ONCE = 20  # asynchronous commits
TOPIC, PARTITIONS = "bench", 6
SMALL_TOPIC = "bench-one"  # of one partition

Round = Callable[[], Awaitable[int]]  # returns the number of its operations


@asynccontextmanager
async def _member(address: str) -> AsyncIterator[Any]:
    """A consumer that its group assigned one partition, and that has a position there."""
    from coterie.client import Consumer

    async with Consumer({"bootstrap.servers": address, "group.id": f"rounds-{time.time_ns()}"}) as consumer:
        consumer.subscribe([SMALL_TOPIC])
        while not consumer.assignment():
            await consumer.poll(100)
        consumer.seek(next(iter(consumer.assignment())), 0)
        yield consumer


@asynccontextmanager
async def commits(address: str) -> AsyncIterator[Round]:
    """Synchronous ones of a member's positions, one after the other."""
    async with _member(address) as consumer:

        async def run() -> int:
            for _ in range(200):
                await consumer.commit()
            return 200

        yield run


@asynccontextmanager
async def async_commits(address: str) -> AsyncIterator[Round]:
    """AT_ONCE at a time."""
    async with _member(address) as consumer:

        async def run() -> int:
            for _ in range(10):
                await asyncio.wait([consumer.commit_async() for _ in range(AT_ONCE)])
            return 10 * AT_ONCE

        yield run


@asynccontextmanager
async def _producer(address: str, settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    from coterie.client import Producer

    async with Producer({"bootstrap.servers": address, **settings}) as producer:
        yield producer


@asynccontextmanager
async def produced(address: str) -> AsyncIterator[Round]:
    """Records of 100 bytes, in large batches."""
    async with _producer(address, {"linger.ms": 5, "batch.size": 131_072}) as producer:

        async def run() -> int:
            for _ in range(5_000):
                await producer.send(TOPIC, VALUE)
            await producer.flush()
            return 5_000

        yield run


@asynccontextmanager
async def single_records(address: str) -> AsyncIterator[Round]:
    """Each is acknowledged before the next one is sent."""
    async with _producer(address, {"linger.ms": 0}) as producer:

        async def run() -> int:
            for _ in range(100):
                await (await producer.send(SMALL_TOPIC, VALUE, partition=0))
            return 100

        yield run


@asynccontextmanager
async def transactions(address: str) -> AsyncIterator[Round]:
    """Transactions of one record each."""
    async with _producer(address, {"transactional.id": f"rounds-{time.time_ns()}"}) as producer:
        await producer.init_transactions()

        async def run() -> int:
            for _ in range(50):
                producer.begin_transaction()
                await producer.send(SMALL_TOPIC, VALUE, partition=0)
                await producer.commit_transaction()
            return 50

        yield run


@asynccontextmanager
async def _reader(address: str) -> AsyncIterator[Any]:
    from coterie.client import Consumer

    async with Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest"}) as consumer:
        await consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])
        yield consumer


@asynccontextmanager
async def consumed(address: str) -> AsyncIterator[Round]:
    """The same records again, from the start of each log."""
    async with _reader(address) as consumer:

        async def run() -> int:
            count = 0
            await consumer.seek_to_beginning()
            while count < 20_000:
                count += sum(map(len, (await consumer.poll(1_000)).values()))
            return count

        yield run


@asynccontextmanager
async def consumed_arrow(address: str) -> AsyncIterator[Round]:
    """As `consumed`, as Arrow tables."""
    async with _reader(address) as consumer:

        async def run() -> int:
            count = 0
            await consumer.seek_to_beginning()
            while count < 60_000:
                count += (await consumer.poll_arrow(1_000)).num_rows
            return count

        yield run


OPERATIONS = {
    "commits": commits,
    "asynchronous commits": async_commits,
    "produced records": produced,
    "single records": single_records,
    "transactions": transactions,
    "consumed records": consumed,
    "consumed records, as Arrow tables": consumed_arrow,
}


async def serve(operation: str, address: str) -> None:
    """Until the input ends."""
    async with OPERATIONS[operation](address) as run:
        await run()
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            gc.collect()
            started_s = time.process_time()
            count = await run()
            print((time.process_time() - started_s) * 1e6 / count, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
