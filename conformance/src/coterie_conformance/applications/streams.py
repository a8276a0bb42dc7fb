"""Lines are written, instances and a broker are killed, and the counts are read: each word's are 1, 2, 3, ... once each.

With the protocol "streams" the broker assigns the tasks (KIP-1071), a standby for each task that has state among them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie.wire.errors import ErrorCode
from coterie_conformance.applications.strikes import STRIKE_EVERY_S, ApplicationStrikes, ApplicationVerdict
from coterie_conformance.histories.workload import KillableBroker
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, maven_jars
from coterie_conformance.servers.programs import JavaProcess, java_program

APPLICATION = "word-counts"
_SOURCE = Path(__file__).with_name("WordCounts.java")
EXACTLY_ONCE = "exactly_once_v2"
_INPUT, _OUTPUT, _PARTITIONS = "lines", "counts", 4
_INSTANCES = 2
_WORDS, _SENT_EVERY_S = 40, 0.01
_QUIET_MS, _SETTLED_S = 5_000, 120.0


def built(version: str, folder: Path) -> list[str]:
    """The command of the program for that version of Kafka Streams, without its arguments. Raises CannotRun."""
    wanted = [("org.apache.kafka", "kafka-streams", version), SIMPLE_LOGGER]
    lib = maven_jars(f"kafka-streams-{version}", wanted)
    return java_program(_SOURCE, lib, folder)


def instance(command: list[str], server: str, folder: Path, guarantee: str, protocol: str = "classic") -> JavaProcess:
    """A process of the application, which keeps its state in ``folder``. ``protocol`` is that of its group."""
    arguments = [server, APPLICATION, str(folder), guarantee, protocol]
    return JavaProcess([*command, *arguments], folder.with_name(f"{folder.name}.log"))


def judge(
    broker: KillableBroker,
    version: str,
    folder: Path,
    seed: int,
    guarantee: str = EXACTLY_ONCE,
    protocol: str = "classic",
) -> ApplicationVerdict:
    """Runs that version of Kafka Streams on ``broker``, which is started here and stopped. ``guarantee`` as
    processing.guarantee, ``protocol`` as group.protocol. Raises CannotRun."""
    command = built(version, folder / "classes")
    rng = random.Random(seed)
    with ApplicationStrikes(broker, rng) as strikes:
        for n in range(_INSTANCES):
            state = folder / f"instance-{n}"
            strikes.processes[f"instance {n}"] = instance(command, strikes.server, state, guarantee, protocol)
        return asyncio.run(_StreamsStory(strikes, rng, protocol).run())


def wrong_counts(lines: Mapping[str, int], counts: Mapping[str, Sequence[int]]) -> list[str]:
    """A line for each word whose ``counts``, in the order in which they were read, are not 1, 2, ... to its number of lines."""
    wrong = []
    for word, total in sorted(lines.items()):
        got = [*counts.get(word, ()), "no further one"]
        due = [*range(1, total + 1), "no further one"]
        index = next((n for n, (one, other) in enumerate(zip(got, due, strict=False)) if one != other), None)
        if index is not None:
            wrong.append(f"{word}: {got[index]} where {due[index]} is due, of {total} lines and {len(got) - 1} counts")
    return wrong


async def standbys(server: str) -> set[str]:
    """The tasks that have a standby now; none before an instance has joined, which may be later than the first strike."""
    async with Admin({"bootstrap.servers": server}) as admin:
        try:
            group = await admin.describe_consumer_group(APPLICATION)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return set()
            raise
    return {task for m in group.members if m.tasks is not None for task in m.tasks.standby}


@dataclass(slots=True)
class _StreamsStory:
    strikes: ApplicationStrikes
    rng: random.Random
    protocol: str
    lines: Counter[str] = field(default_factory=Counter)
    standbys: set[str] = field(default_factory=set)

    async def run(self) -> ApplicationVerdict:
        async with Admin({"bootstrap.servers": self.strikes.server}) as admin:
            for topic in (_INPUT, _OUTPUT):
                await admin.create_topic(topic, _PARTITIONS)
        self.strikes.start()
        order = self.strikes.order()
        over = asyncio.Event()
        writing = asyncio.create_task(self._write(over))
        for name in order:
            await asyncio.sleep(STRIKE_EVERY_S)
            await self._note_standbys()
            await asyncio.to_thread(self.strikes.strike, name)
        await asyncio.sleep(STRIKE_EVERY_S)
        over.set()
        await writing
        wrong = wrong_counts(self.lines, await self._counts())
        if self.protocol == "streams" and len(self.standbys) < _PARTITIONS:
            wrong.append(f"of {_PARTITIONS} tasks with state only {sorted(self.standbys)} ever had a standby")
        return ApplicationVerdict(order, self.lines.total(), tuple(wrong))

    async def _note_standbys(self) -> None:
        if self.protocol == "streams":
            self.standbys |= await standbys(self.strikes.server)

    async def _write(self, over: asyncio.Event) -> None:
        """Lines until it is ``over``; all are acknowledged then."""
        words = random.Random(self.rng.random())
        async with Producer({"bootstrap.servers": self.strikes.server, "acks": "all"}) as producer:
            while not over.is_set():
                word = f"word-{int(words.paretovariate(0.5)) % _WORDS}"
                self.lines[word] += 1
                await producer.send(_INPUT, f"{word} {self.lines[word]}".encode())
                await asyncio.sleep(_SENT_EVERY_S)
            await producer.flush()

    async def _counts(self) -> dict[str, list[int]]:
        """Each word's, once they are all there and no other comes; after `_SETTLED_S` what there is."""
        counts: dict[str, list[int]] = {word: [] for word in self.lines}
        settings = {
            "bootstrap.servers": self.strikes.server,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _SETTLED_S
        async with Consumer(settings) as consumer:
            await consumer.assign([(_OUTPUT, partition) for partition in range(_PARTITIONS)])
            while loop.time() < deadline_s:
                polled = await consumer.poll(_QUIET_MS)
                for record in (record for records in polled.values() for record in records):
                    assert record.key is not None
                    assert record.value is not None
                    counts[record.key.decode()].append(int(record.value))
                if not polled and sum(map(len, counts.values())) >= self.lines.total():
                    break
        return counts
