"""coterie's client as a consumer that processes, then commits, or as a producer: `consumer|producer [KEY=VALUE...]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from typing import Any

from coterie.client import Consumer, Producer
from coterie.client.errors import KafkaError, RejoinNeededError


async def consume(settings: dict[str, Any]) -> None:
    """Until SIGTERM."""
    group = {"group.id": os.environ["COTERIE_GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}
    ends = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ends.set)
    async with Consumer({**settings, **group}) as consumer:
        consumer.subscribe([os.environ["COTERIE_TOPIC"]])
        while not ends.is_set():
            try:
                polled = await consumer.poll(200)
            except RejoinNeededError as error:  # the next poll joins the group
                print(error, file=sys.stderr)
                continue
            for record in (record for records in polled.values() for record in records):
                print((record.value or b"").decode().strip(), flush=True)
            if polled:
                try:
                    await consumer.commit()
                except KafkaError as error:  # the group may have rebalanced: the records are read again
                    print(error, file=sys.stderr)


async def produce(settings: dict[str, Any]) -> None:
    """Until the end of its input."""
    async with Producer(settings) as producer:
        sending: set[asyncio.Task[None]] = set()

        async def report(value: str, delivery: Awaitable[Any]) -> None:
            try:
                await delivery
            except KafkaError as error:
                print(error, file=sys.stderr)
            else:
                print(value, flush=True)

        while line := await asyncio.to_thread(sys.stdin.readline):
            value = line.strip()
            task = asyncio.create_task(report(value, await producer.send(os.environ["COTERIE_TOPIC"], value.encode())))
            sending.add(task)
            task.add_done_callback(sending.discard)
        await asyncio.gather(*sending)


def main(role: str, *words: str) -> None:
    """Settings by Java's names."""
    settings: dict[str, Any] = dict(word.split("=", 1) for word in words)
    settings["bootstrap.servers"] = os.environ["COTERIE_BOOTSTRAP_SERVERS"]
    asyncio.run(consume(settings) if role == "consumer" else produce(settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
