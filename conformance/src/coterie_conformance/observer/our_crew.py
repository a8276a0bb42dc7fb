"""Our client as a member of a group until SIGTERM: `our_crew.py HOST:PORT GROUP TOPICS KEY=VALUE...`. With ``group.protocol``
share or streams of a share group, or a thread of a streams application."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading

from coterie.client import Consumer, RebalanceListener, ShareConsumer, TopicPartition
from coterie_conformance.share_stories.streams_program import StreamsProgram

PAUSE_S = 0.1


class Commands:
    """``sleep S``: the next poll is S seconds late; ``callback S``: the next callback takes S seconds; ``subscribe TOPICS``."""

    def __init__(self, topics: str) -> None:
        self.topics, self.sleep_s, self.callback_s = topics, 0.0, 0.0
        threading.Thread(target=self._obey, daemon=True).start()

    def _obey(self) -> None:
        for line in sys.stdin:
            verb, word = line.split()
            if verb == "sleep":
                self.sleep_s = float(word)
            elif verb == "callback":
                self.callback_s = float(word)
            else:
                self.topics = word

    def slept_s(self) -> float:
        """How long the poll is late; counts once."""
        seconds, self.sleep_s = self.sleep_s, 0.0
        return seconds

    def called_s(self) -> float:
        """How long the callback takes; counts once."""
        seconds, self.callback_s = self.callback_s, 0.0
        return seconds


class SlowListener(RebalanceListener):
    """Its callback takes as long as commanded."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """While the next rebalance waits."""
        await asyncio.sleep(self._commands.called_s())


async def consume(settings: dict[str, str], commands: Commands, ended: asyncio.Event) -> None:
    """Reads, and leaves the group."""
    subscribed = ""
    async with Consumer({"auto.offset.reset": "earliest"} | settings) as consumer:
        while not ended.is_set():
            if subscribed != commands.topics:
                subscribed = commands.topics
                wanted = re.compile(subscribed) if subscribed.startswith("^") else subscribed.split(",")
                consumer.subscribe(wanted, SlowListener(commands))
            await consumer.poll(100)
            await asyncio.sleep(commands.slept_s())


async def share(settings: dict[str, str], topics: str, ended: asyncio.Event) -> None:
    """Reads with the others, and leaves the group."""
    async with ShareConsumer(settings) as consumer:
        consumer.subscribe(topics.split(","))
        while not ended.is_set():
            await consumer.poll(100)


async def stream(settings: dict[str, str], topic: str, ended: asyncio.Event) -> None:
    """Works on its tasks, and leaves the group."""
    program = StreamsProgram(settings["bootstrap.servers"], settings["group.id"], settings["client.id"], topic)
    running = asyncio.create_task(program.run(lambda *_: None, lambda: PAUSE_S))
    await asyncio.wait([running, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.wait([running])
    await program.leave()


async def main(address: str, group: str, topics: str, *words: str) -> None:
    """Until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    settings = {"bootstrap.servers": address, "group.id": group} | dict(word.split("=", 1) for word in words)
    if settings.get("group.protocol") == "share":
        del settings["group.protocol"]
        await share(settings, topics, ended)
    elif settings.get("group.protocol") == "streams":
        await stream(settings, topics, ended)
    else:
        await consume(settings, Commands(topics), ended)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
