"""Move records from one topic to another exactly once: each batch's results and its offsets are one transaction.

    .venv/bin/python examples/move_in_transactions.py [HOST:PORT]

A process that dies in the middle leaves nothing behind: its transaction is aborted, and the next one reads again from
the committed offsets.
"""

import asyncio
import sys

from coterie.client import Consumer, OffsetAndMetadata, Producer

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}
READ = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}


async def fill(count: int) -> None:
    async with Producer(ADDRESS) as producer:
        for n in range(count):
            await producer.send("payments", b"%d" % n)


async def move(count: int) -> None:
    settings = ADDRESS | READ | {"group.id": "mover", "enable.auto.commit": False}
    async with Consumer(settings) as consumer, Producer(ADDRESS | {"transactional.id": "mover-1"}) as producer:
        await producer.init_transactions()  # ends what an earlier process with this id has left open
        consumer.subscribe(["payments"])
        moved = 0
        while moved < count:
            polled = await consumer.poll(1000)
            if not polled:
                continue
            async with producer.transaction():  # aborted when the block raises
                for records in polled.values():
                    for record in records:
                        await producer.send("receipts", b"receipt " + (record.value or b""), key=record.key)
                last = {partition: records[-1] for partition, records in polled.items()}
                offsets = {p: OffsetAndMetadata(record.offset + 1, record.leader_epoch) for p, record in last.items()}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            moved += sum(len(records) for records in polled.values())


async def count_receipts(count: int) -> set[bytes | None]:
    values: set[bytes | None] = set()
    async with Consumer(ADDRESS | READ | {"group.id": "auditor"}) as consumer:
        consumer.subscribe(["receipts"])
        while len(values) < count:
            for records in (await consumer.poll(1000)).values():
                values |= {record.value for record in records}
    return values


async def main() -> None:
    await fill(100)
    await move(100)
    print(f"{len(await count_receipts(100))} receipts, each once")


asyncio.run(main())
