"""Produce ten records and consume them as a member of a group, with asyncio.

.venv/bin/python examples/produce_and_consume.py [HOST:PORT]
"""

import asyncio
import sys

from coterie.client import Consumer, Producer

BOOTSTRAP_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


async def produce(count: int) -> None:
    async with Producer({"bootstrap.servers": BOOTSTRAP_SERVERS}) as producer:
        deliveries = [
            await producer.send("orders", b"order %d" % n, key=b"customer %d" % (n % 3)) for n in range(count)
        ]
        for delivery in deliveries:
            await delivery  # a RecordMetadata, once the broker has acknowledged the record


async def consume(count: int) -> list[str]:
    settings = {"bootstrap.servers": BOOTSTRAP_SERVERS, "group.id": "billing", "auto.offset.reset": "earliest"}
    values: list[str] = []
    async with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        while len(values) < count:
            for records in (await consumer.poll(1000)).values():
                values += [(record.value or b"").decode() for record in records]
    return values  # closing the consumer has committed its positions and left the group


async def main() -> None:
    await produce(10)
    print(", ".join(sorted(await consume(10))))


asyncio.run(main())
