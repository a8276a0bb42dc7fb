"""The soak's producers and plain consumers, each a process that may be killed at any time.

    python -m coterie_conformance.soak.workers producer ADDRESS TOPIC LOG
    python -m coterie_conformance.soak.workers consumer ADDRESS TOPIC LOG GROUP

Each appends to its log, a line written before it counts: a consumer's before the commit, so that what it delivered is known.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from coterie.client import Consumer, Producer
from coterie.client.errors import KafkaError

RATE = 1_000  # records a second and producer
BURST_S = 0.05
MEMBER = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}  # of consumers and Spark applications


async def produce(address: str, topic: str, log: Path) -> None:
    """Logs `acknowledged PARTITION OFFSET` of the last record of each burst."""
    settings = {"bootstrap.servers": address, "delivery.timeout.ms": 600_000, "linger.ms": 20}
    async with Producer(settings) as producer:
        with log.open("a", buffering=1) as out:
            number = 0
            while not _stopped:
                deliveries = []
                for _ in range(int(RATE * BURST_S)):
                    number += 1
                    deliveries.append(await producer.send(topic, b"%d" % number * 10, b"%d" % (number % 997)))
                await asyncio.sleep(BURST_S)
                for delivery in deliveries:
                    record = await delivery
                    out.write(f"{record.partition} {record.offset}\n")


async def consume(address: str, topic: str, log: Path, group: str) -> None:
    """Logs `MS PARTITION FIRST LAST` for what each poll gave, then commits it."""
    settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, **MEMBER}
    settings["auto.offset.reset"] = "earliest"
    async with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        with log.open("a", buffering=1) as out:
            while not _stopped:
                polled = await consumer.poll(200)
                for (_, partition), records in polled.items():
                    out.write(f"{time.time() * 1000:.0f} {partition} {records[0].offset} {records[-1].offset}\n")
                if polled:
                    await _commit(consumer)


async def _commit(consumer: Consumer) -> None:
    """Until it is made, or a rebalance has to come first: then polling goes on, and commits again what is still ours."""
    try:
        await consumer.commit()
    except KafkaError as error:
        print(f"{time.time() * 1000:.0f} commit: {error}", file=sys.stderr, flush=True)


_stopped: list[int] = []


def main(kind: str, address: str, topic: str, log: str, group: str = "") -> None:
    """One process of a soak: a ``producer``, or a consumer of ``group``; writes its records to the file ``log`` until
    SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, _: _stopped.append(number))
    work = produce(address, topic, Path(log)) if kind == "producer" else consume(address, topic, Path(log), group)
    asyncio.run(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
