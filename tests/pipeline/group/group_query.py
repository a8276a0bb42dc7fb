"""A query in group mode as Spark drives it, without Spark; its broker, and what befalls that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.client import Admin, Producer
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading.fetching import read_range
from coterie.pipeline.streaming.admission import Limits
from coterie.pipeline.streaming.group_stream import NOTHING, GroupStream
from tests.broker_process import BrokerProcess

Range = tuple[int, int]


# Of members of each protocol, classic and consumer (KIP-848): what makes them quick.
MEMBER: dict[str, dict[str, str]] = {
    "classic": {"kafka.heartbeat.interval.ms": "50", "kafka.session.timeout.ms": "10000"},
    "consumer": {"kafka.group.protocol": "consumer"},
}
QUICK = (
    *("--set", "group.consumer.min.heartbeat.interval.ms=50", "--set", "group.consumer.heartbeat.interval.ms=50"),
    *("--set", "group.consumer.assignment.interval.ms=0"),
)


@contextmanager
def broker_of_600(data: Path) -> Iterator[BrokerProcess]:
    """A broker with 100 records in each of the six partitions of t."""
    process = BrokerProcess(data, *QUICK)
    try:
        produce(process, 600)
        yield process
    finally:
        process.stop()


def produce(broker: BrokerProcess, count: int, topic: str = "t", partitions: int = 6) -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": broker.address}) as producer:
            for n in range(count):
                await producer.send(topic, b"%d" % n, partition=n % partitions)

    asyncio.run(send())


def committed(broker: BrokerProcess) -> dict[int, int]:
    async def ask() -> dict[int, int]:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            return {p: offset for (_, p), offset in (await admin.list_consumer_group_offsets("g")).items()}

    return asyncio.run(ask())


class Query:
    """What Spark does with a reader: its checkpoint, and what its sink has received, outlive the reader."""

    member_options: Mapping[str, str] = MEMBER["classic"]

    def __init__(self, broker: BrokerProcess, **options: str) -> None:
        given = {
            "kafka.bootstrap.servers": broker.address,
            "kafka.group.id": "g",
            "subscribe": "t",
            "mode": "group",
            "startingOffsets": "earliest",
            **self.member_options,
            **options,
        }
        self.options = source_options(given, streaming=True)
        self.done: dict[str, Any] = NOTHING  # the last batch in the commit log
        self.planned: dict[str, Any] | None = None  # one that is in the offset log only
        self.sink: Counter[Range] = Counter()
        self.start()

    def start(self) -> None:
        self.stream = GroupStream(self.options)
        self.replays = self.planned is not None

    def plan(self, rows: int | None = None) -> bool:
        """Asks for a batch; True when there is one."""
        if not self.replays:
            newest = self.stream.latest(self.done, Limits(rows))
            if newest == self.done:
                return False
            self.planned = newest
        self.replays = False
        assert self.planned is not None
        self.tasks = self.stream.plan(self.done, self.planned)
        return True

    def run(self) -> int:
        """The tasks, the sink, and the commit log."""
        places = [
            (r.partition, int(offset))
            for r in self.tasks
            for columns in read_range(r, self.options.settings(), with_headers=False, fail_on_data_loss=True)
            for offset in columns.offsets
        ]
        self.sink.update(places)
        assert self.planned is not None
        self.done, self.planned = self.planned, None
        return len(places)

    def drain(self) -> int:
        self.stream.until_now()
        count = 0
        while self.plan():
            count += self.run()
        return count

    def owned(self) -> set[int]:
        return {p for _, p in self.stream.member.positions}


def forget_offsets(broker: BrokerProcess) -> None:
    """As when they expire."""

    async def delete() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.delete_consumer_group_offsets("g", [("t", p) for p in range(6)])

    asyncio.run(delete())


def tear_the_end(broker: BrokerProcess, partition: int, topic: str = "t") -> None:
    """The machine goes down, and the log's first batch is torn, and so the rest is lost."""
    broker.kill()
    log = broker.data / f"{topic}-{partition}" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:200])
    broker.start()


def lose_the_end(broker: BrokerProcess, partition: int, count: int = 600) -> None:
    """The log's records are lost; afterwards as many are appended as there were."""
    tear_the_end(broker, partition)
    produce(broker, count)
