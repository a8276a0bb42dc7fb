"""Our client as a member of a group until SIGTERM: `our_crew.py HOST:PORT GROUP TOPICS KEY=VALUE...`."""

from __future__ import annotations

import asyncio
import re
import signal
import sys

from coterie.client import Consumer, RebalanceListener, TopicPartition
from coterie_conformance.observer.commands import Commands


class SlowListener(RebalanceListener):
    """Its callback takes as long as commanded."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """While the next rebalance waits."""
        await asyncio.sleep(self._commands.called_s())


async def main(address: str, group: str, topics: str, *words: str) -> None:
    """Reads until SIGTERM, and leaves the group."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    commands, subscribed = Commands(topics), ""
    settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    async with Consumer(settings | dict(word.split("=", 1) for word in words)) as consumer:
        while not ended.is_set():
            if subscribed != commands.topics:
                subscribed = commands.topics
                wanted = re.compile(subscribed) if subscribed.startswith("^") else subscribed.split(",")
                consumer.subscribe(wanted, SlowListener(commands))
            await consumer.poll(100)
            await asyncio.sleep(commands.slept_s())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
