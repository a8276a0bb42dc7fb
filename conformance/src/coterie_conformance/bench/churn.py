"""The churn: clients of every kind that come and go, round after round, on one broker in this process, and the levels of
memory, descriptors, tasks and threads when all of them are gone.

A level that rises from round to round is a leak. Topics, groups and transactional ids are the same ones throughout, and
records, producer ids and offsets expire within seconds, so that what the broker keeps by design is level as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer, Producer
from coterie.client.errors import KafkaError
from coterie_conformance.bench.measurement import Measurement, resident_mb

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "4",
    "num.partitions": "4",
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "2097152",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "producer.id.expiration.ms": "10000",
    "transactional.id.expiration.ms": "600000",
    "connections.max.idle.ms": "10000",
}
TOPICS, GROUPS, TRANSACTIONAL_IDS = 5, 20, 5
GUESTS = 8  # at a time
VISIT_S = 30.0  # no visit lasts longer
SETTLE_S = 2.0  # for what ends some time after its client
ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What the process holds when no client is there."""

    memory_mb: float
    descriptors: int
    tasks: int
    threads: int
    log_mb: float

    @staticmethod
    def of(folder: Path) -> ResourceUse:
        """Those of this process now; ``folder`` is the broker's data folder."""
        gc.collect()
        open_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        log_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return ResourceUse(
            round(resident_mb(os.getpid()), 1),
            open_files,
            len(asyncio.all_tasks()),
            threading.active_count(),
            round(log_bytes / 1e6, 1),
        )


class ClientVisits:
    """The visits that clients make: each opens what it needs, works for a second or so, and closes it, or does not."""

    def __init__(self, address: str, rng: random.Random) -> None:
        self._address = address
        self._rng = rng
        self.visits = self.refused = 0
        kinds = (self._produces, self._consumes, self._transacts, self._administrates, self._hangs_up)
        self._kinds: tuple[Callable[[], Awaitable[None]], ...] = kinds

    async def come_and_go(self, until_s: float) -> None:
        """One visit after the other. A visit that the broker refuses (a fenced producer, a lost group) is counted."""
        while time.monotonic() < until_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(VISIT_S):
                    try:
                        await self._rng.choice(self._kinds)()
                    except KafkaError:
                        self.refused += 1
            self.visits += 1

    def _topic(self) -> str:
        return f"churn-{self._rng.randrange(TOPICS)}"

    async def _produces(self) -> None:
        settings = {"bootstrap.servers": self._address, "enable.idempotence": self._rng.choice(["true", "false"])}
        async with Producer(settings) as producer:
            topic = self._topic()
            for n in range(self._rng.randrange(1, 500)):
                await producer.send(topic, self._rng.randbytes(200), b"%d" % (n % 50))

    async def _consumes(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "group.id": f"churn-{self._rng.randrange(GROUPS)}",
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": self._rng.choice(["range", "cooperative-sticky"]),
            "isolation.level": self._rng.choice(["read_committed", "read_uncommitted"]),
        }
        async with Consumer(settings) as consumer:
            consumer.subscribe([self._topic(), self._topic()])
            for _ in range(self._rng.randrange(1, 10)):
                await consumer.poll(200)

    async def _transacts(self) -> None:
        name = f"churn-{self._rng.randrange(TRANSACTIONAL_IDS)}"
        async with Producer({"bootstrap.servers": self._address, "transactional.id": name}) as producer:
            await producer.init_transactions()
            for _ in range(self._rng.randrange(1, 5)):
                with contextlib.suppress(_Abort):
                    async with producer.transaction():
                        await producer.send(self._topic(), b"in a transaction")
                        if self._rng.random() < 0.3:
                            raise _Abort

    async def _administrates(self) -> None:
        async with Admin({"bootstrap.servers": self._address}) as admin:
            await admin.describe_topics()
            await admin.list_groups()
            name = f"short-{self._rng.randrange(3)}"
            with contextlib.suppress(KafkaError):
                await admin.create_topic(name, 2)
            with contextlib.suppress(KafkaError):
                await admin.delete_topic(name)

    async def _hangs_up(self) -> None:
        """A connection that sends part of a request, or none, and ends in one of two ways."""
        host, _, port = self._address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\0\0\1\0" + self._rng.randbytes(self._rng.randrange(20)))
        await asyncio.sleep(self._rng.random())
        if self._rng.random() < 0.5:
            writer.transport.abort()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class _Abort(Exception):
    """The visit aborts its transaction."""


async def churn(
    folder: Path, rounds: int, seed: int, report: Callable[[ResourceUse, int], None], round_s: float = ROUND_S
) -> list[ResourceUse]:
    """So many rounds of ``round_s``; ``report`` gets the levels after each and the visits until then."""
    broker = Broker(BrokerSettings(SETTINGS), folder)
    host, port = await broker.start("127.0.0.1", 0)
    levels: list[ResourceUse] = []
    try:
        async with Admin({"bootstrap.servers": f"{host}:{port}"}) as admin:
            for n in range(TOPICS):
                await admin.create_topic(f"churn-{n}", 4)
        guests = ClientVisits(f"{host}:{port}", random.Random(seed))
        for _round in range(rounds):
            until_s = time.monotonic() + round_s
            await asyncio.gather(*(guests.come_and_go(until_s) for _ in range(GUESTS)))
            await asyncio.sleep(SETTLE_S)
            levels.append(ResourceUse.of(folder))
            report(levels[-1], guests.visits)
    finally:
        await broker.stop()
    return levels


def churn_rows(folder: Path, rounds: int = 5) -> Iterator[Measurement]:
    """The levels of the last round beside those of the first."""
    levels = asyncio.run(churn(folder, rounds, 0, lambda *_: None))
    for name, unit in (("memory_mb", "MB"), ("descriptors", ""), ("tasks", ""), ("threads", "")):
        first, last = float(getattr(levels[0], name)), float(getattr(levels[-1], name))
        yield Measurement(
            f"churn, {len(levels)} rounds, {name.removesuffix('_mb')}", last, unit, first, True, "the first round"
        )
