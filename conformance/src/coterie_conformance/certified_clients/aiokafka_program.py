"""aiokafka as a consumer that processes, then commits, or as a producer: `consumer|producer`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError


async def consume() -> None:
    """Until SIGTERM."""
    consumer = AIOKafkaConsumer(
        os.environ["COTERIE_TOPIC"],
        bootstrap_servers=os.environ["COTERIE_BOOTSTRAP_SERVERS"],
        group_id=os.environ["COTERIE_GROUP"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    ends = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ends.set)
    await consumer.start()
    while not ends.is_set():
        polled = await consumer.getmany(timeout_ms=200)
        for record in (record for records in polled.values() for record in records):
            print(record.value.decode().strip(), flush=True)
        if polled:
            try:
                await consumer.commit()
            except KafkaError as error:  # the group may have rebalanced: the records are read again
                print(repr(error), file=sys.stderr)
    await consumer.stop()


async def produce() -> None:
    """Until the end of its input."""
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["COTERIE_BOOTSTRAP_SERVERS"], acks="all", enable_idempotence=True
    )
    await producer.start()
    sending: set[asyncio.Task[None]] = set()

    async def report(value: str, delivery: Awaitable[Any]) -> None:
        try:
            await delivery
        except KafkaError as error:
            print(repr(error), file=sys.stderr)
        else:
            print(value, flush=True)

    while line := await asyncio.to_thread(sys.stdin.readline):
        value = line.strip()
        task = asyncio.create_task(report(value, await producer.send(os.environ["COTERIE_TOPIC"], value.encode())))
        sending.add(task)
        task.add_done_callback(sending.discard)
    await asyncio.gather(*sending)
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(consume() if sys.argv[1] == "consumer" else produce())
