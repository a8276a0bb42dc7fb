"""A static member restarts without a rebalance: the same group.instance.id, the same partitions, the same generation.

.venv/bin/python examples/static_member.py [HOST:PORT]
"""

import asyncio
import sys

from coterie.client import Admin, Consumer

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}


async def run_once(name: str) -> tuple[int, int]:
    """Joins, and closes again. Returns the generation and the number of partitions.

    Closing a static member sends no LeaveGroup: the group waits session.timeout.ms for its return.
    """
    settings = ADDRESS | {"group.id": "warehouse", "group.instance.id": name, "session.timeout.ms": 30_000}
    async with Consumer(settings) as consumer:
        consumer.subscribe(["parcels"])
        while not consumer.assignment():
            await consumer.poll(100)
        return consumer.generation, len(consumer.assignment())


async def main() -> None:
    async with Admin(ADDRESS) as admin:
        if "parcels" not in await admin.describe_topics():
            await admin.create_topic("parcels", 4)
    for attempt in ("first start", "restart"):
        generation, partitions = await run_once("worker-1")
        print(f"{attempt}: generation {generation}, {partitions} partitions")


asyncio.run(main())
