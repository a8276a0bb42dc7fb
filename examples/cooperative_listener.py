"""A second member joins a cooperative group: the first gives up only what moves, and keeps reading the rest.

.venv/bin/python examples/cooperative_listener.py [HOST:PORT]
"""

import asyncio
import sys

from coterie.client import Admin, Consumer, RebalanceListener, TopicPartition

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}
SETTINGS = ADDRESS | {
    "group.id": "crew",
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 100,  # so that the members learn of the rebalance soon
}


class Printing(RebalanceListener):
    """Revoked partitions are still owned during the call: the last chance to commit. Lost ones are not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            print(f"{self.name}: {len(partitions)} assigned")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            print(f"{self.name}: {len(partitions)} revoked")

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        print(f"{self.name}: {len(partitions)} lost")


async def poll_until_owned(count: int, *consumers: Consumer) -> None:
    while any(len(consumer.assignment()) != count for consumer in consumers):
        await asyncio.gather(*(consumer.poll(100) for consumer in consumers))


async def main() -> None:
    async with Admin(ADDRESS) as admin:
        if "flights" not in await admin.describe_topics():
            await admin.create_topic("flights", 6)
    async with Consumer(SETTINGS) as anna, Consumer(SETTINGS) as ben:
        anna.subscribe(["flights"], Printing("anna"))
        await poll_until_owned(6, anna)
        ben.subscribe(["flights"], Printing("ben"))
        await poll_until_owned(3, anna, ben)
        print("3 partitions each")


asyncio.run(main())
