"""A member of the demo's group `crew`, a process of its own. Writes down every stretch of records it was given, before
it requests more: what a killed member had read is known afterwards."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from pathlib import Path

from coterie.client import Consumer

SESSION_TIMEOUT_MS = 6_000
STATIC_SESSION_TIMEOUT_MS = 45_000  # Kafka's default: a member's process starts again within it on a busy machine too


async def consume(address: str, topic: str, name: str, static: bool, out: Path) -> None:
    """Reads until SIGTERM or SIGINT, then leaves the group (a static member only stops)."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings = {
        "bootstrap.servers": address,
        "group.id": "crew",
        "client.id": name,
        "group.instance.id": name if static else None,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": STATIC_SESSION_TIMEOUT_MS if static else SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 500,
        "auto.commit.interval.ms": 1_000,
    }
    log = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        while not stop.is_set():
            polled = await consumer.poll(200, 5_000)
            lines = [
                json.dumps(
                    {
                        "member": name,
                        "partition": partition,
                        "first": records[0].offset,
                        "last": records[-1].offset,
                        "count": len(records),
                        "time_ms": int(time.time() * 1000),
                    }
                )
                for (_, partition), records in polled.items()
            ]
            if lines:
                os.write(log, ("\n".join(lines) + "\n").encode())
    os.close(log)


def main() -> None:
    """A consumer of the crew, started by the demo as a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    parser.add_argument("--static", action="store_true")
    args = parser.parse_args()
    asyncio.run(consume(args.address, args.topic, args.name, args.static, args.out))


if __name__ == "__main__":
    main()
