"""Our consumer as members of groups, each in a task: as `Members.java`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import Any

from coterie.client import Consumer, RebalanceListener
from coterie.laboratory.study.assignors import ASSIGNOR_OF_PROTOCOL


class OwnershipPrinter(RebalanceListener):
    """Prints what one life of a member owns."""

    def __init__(self, name: str) -> None:
        self._name, self._owned = name, set[int]()

    async def on_partitions_assigned(self, partitions: Any) -> None:
        self._owned |= {tp.partition for tp in partitions}
        self.print()

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self._owned -= {tp.partition for tp in partitions}
        self.print()

    on_partitions_lost = on_partitions_revoked

    def close(self) -> None:
        """It owns nothing any more."""
        self._owned.clear()
        self.print()

    def read(self, read: dict[int, list[int]]) -> None:
        """Prints the first and the last offset of each partition that a poll returned."""
        if read:
            print(json.dumps({"name": self._name, "read": read}), flush=True)

    def print(self) -> None:
        """One line."""
        line = {"name": self._name, "ms": int(time.time() * 1000), "owned": sorted(self._owned)}
        print(json.dumps(line), flush=True)


async def live(address: str, ends: asyncio.Event, name: str, words: list[str]) -> None:
    """One life of a member."""
    group, topic, protocol, instance, session, poll_ms = words
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": group,
        "client.id": name,
        "auto.offset.reset": "earliest",
    }
    if protocol == "consumer":
        settings["group.protocol"] = protocol
    else:
        settings |= {"session.timeout.ms": session, "partition.assignment.strategy": ASSIGNOR_OF_PROTOCOL[protocol]}
    if instance != "-":
        settings["group.instance.id"] = instance
    listener = OwnershipPrinter(name)
    async with Consumer(settings) as consumer:
        consumer.subscribe([topic], listener=listener)
        while not ends.is_set():
            polled = await consumer.poll(100)
            listener.read({tp.partition: [r[0].offset, r[-1].offset] for tp, r in polled.items() if r})
            if polled and poll_ms != "0":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(int(poll_ms) / 1000):
                        await ends.wait()
        listener.close()


async def main(address: str) -> None:
    """Obeys standard input until it ends."""
    ends: dict[str, asyncio.Event] = {}
    lives: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["open", name, *words]:
                ends[name] = asyncio.Event()
                lives.add(asyncio.create_task(live(address, ends[name], name, words)))
            case ["close", name]:
                ends[name].set()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
