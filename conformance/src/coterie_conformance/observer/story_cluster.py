"""Two brokers of Apache Kafka, `coterie proxy` before them and `coterie observe` beside it, and the stories on them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client import Admin, KafkaError, Producer
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import UNKNOWN
from coterie.coordinator.partitioning import partition_for
from coterie.observer.internal_topics import OFFSETS_TOPIC
from coterie.observer.journal_folders import read_folder
from coterie.testing import LocalProxy
from coterie.text.addresses import format_address
from coterie_conformance.observer.programs import CLIENTS
from coterie_conformance.observer.stories import CauseStory
from coterie_conformance.observer.story_group import StoryGroup
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker, end

AT_ONCE, STARTS_AT_ONCE = 8, 2  # on two cores
CONCLUDED_WITHIN_S, CONSUMERS_WITHIN_S = 45.0, 75.0  # a session of the consumer protocol lasts 45 s
SETTLED_S = 3.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "1000",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "2",
    "auto.leader.rebalance.enable": "false",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
KINDS = {"classic": "", "consumer": ", KIP-848", "share": ", share group", "streams": ", streams group"}


@dataclass(slots=True)
class StoryVerdict:
    """Of a story: whether the observer alone named its cause, and the proxy alone; the causes that were not true, as WHO: KIND
    CLIENT (EVIDENCE); ``seen``: all lines. An observer that also concludes what is not true has not named the cause."""

    story: CauseStory
    by_observer: bool = False
    by_proxy: bool = False
    wrong: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def name(self) -> str:
        """With the client."""
        return f"{self.story.name}, {self.story.client}{KINDS[self.story.protocol]}"

    @property
    def by_both(self) -> bool:
        """By the observer and the proxy together."""
        return self.by_observer or self.by_proxy

    @property
    def is_observed_wrongly(self) -> bool:
        """Whether a cause that is not true is marked as observed."""
        return any("(observed" in cause for cause in self.wrong)


class Journal:
    """Of a command that writes one into a folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, log = folder, folder.with_suffix(".log").open("ab")
        command = [sys.executable, "-m", "coterie", *words, "--journal", str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def lines(self, group: str) -> list[JournalLine]:
        """So far."""
        with contextlib.suppress(OSError):
            return [line for text in read_folder(self.folder) if (line := JournalLine.from_json(text)).group == group]
        return []


class StoryCluster:
    """``address`` is the proxy's, ``faulty`` a proxy with fault hooks before it. ``ours``: a broker of coterie in the place of
    Apache Kafka's two. Use `running`."""

    def __init__(self, version: str, folder: Path, ours: CoterieBroker | None = None) -> None:
        self.version, self.folder, self._ours = version, folder, ours
        self.starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self.fed: dict[str, int] = {}
        self.commands: dict[str, list[str]] = {}
        self._first = ours or KafkaBroker(version, folder / "broker", SETTINGS, heap="512m")
        self._second: KafkaBroker | None = None
        self._leaders: dict[int, int] = {}  # of the partitions of the offsets' topic

    @contextlib.asynccontextmanager
    async def running(self, stories: Sequence[CauseStory]) -> AsyncIterator[StoryCluster]:
        """With the clients of these stories. Raises CannotRun, KafkaError."""
        for name in sorted({story.client for story in stories}):
            classes = self.folder / f"client-{name}"
            classes.mkdir(parents=True)
            self.commands[name] = await asyncio.to_thread(CLIENTS[name], self.version, classes)
        with self._brokers() as upstream, self._journals(upstream):
            async with Admin({"bootstrap.servers": upstream}) as self.admin:
                await self._note_leaders()
                feeding = asyncio.create_task(self._feed(upstream))
                with LocalProxy(self.address) as self.faulty:
                    yield self
                feeding.cancel()

    @contextlib.contextmanager
    def _brokers(self) -> Iterator[str]:
        try:
            self._first.start()
            if isinstance(self._first, KafkaBroker):
                self._second = self._first.another(2, SETTINGS)
                self._second.start()
            yield format_address(*self._first.address)
        finally:
            if self._second is not None:
                self._second.stop()
            self._first.stop()

    @contextlib.contextmanager
    def _journals(self, upstream: str) -> Iterator[None]:
        self.proxied = Journal(self.folder / "proxy", "proxy", "--upstream", upstream)
        assert self.proxied.process.stdout is not None
        self.address = self.proxied.process.stdout.readline().split()[-1]
        self.observed = Journal(self.folder / "observer", "observe", "--bootstrap-server", upstream, "--from-beginning")
        try:
            yield
        finally:
            end([self.proxied.process, self.observed.process])  # type: ignore[list-item]  # of text, not of bytes

    async def _note_leaders(self) -> None:
        nodes = {1} if self._second is None else {1, 2}
        while {*self._leaders.values()} != nodes:
            with contextlib.suppress(KafkaError):
                await self.admin.list_consumer_group_offsets("makes-the-topic")
            described = (await self.admin.describe_topics([OFFSETS_TOPIC]))[OFFSETS_TOPIC]
            self._leaders = {p.partition: -1 if p.leader is None else p.leader.id for p in described.partitions}
            await asyncio.sleep(0.5)

    async def _feed(self, upstream: str) -> None:
        """Records in each partition twice a second, so that members commit."""
        async with Producer({"bootstrap.servers": upstream}) as producer:
            while True:
                for topic, partitions in list(self.fed.items()):
                    for partition in range(partitions):
                        with contextlib.suppress(KafkaError):
                            await producer.send(topic, b"x", partition=partition)
                await asyncio.sleep(0.5)

    def assignor(self, name: str) -> str:
        """Java's class."""
        return f"org.apache.kafka.clients.consumer.{name}Assignor"

    async def stop_second(self) -> None:
        """The second broker stops in order: its groups go to the first."""
        assert self._second is not None
        await asyncio.to_thread(self._second.stop)

    # -- stories -----------------------------------------------------------------------------------------------------------

    async def verdicts(
        self, stories: Sequence[CauseStory], report: Callable[[StoryVerdict], None]
    ) -> list[StoryVerdict]:
        """The stories, some at once."""
        free = asyncio.Semaphore(AT_ONCE)

        async def judged(number: int, story: CauseStory) -> StoryVerdict:
            async with free:
                verdict = await self._played(number, story)
            report(verdict)
            return verdict

        return await asyncio.gather(*(judged(number, story) for number, story in enumerate(stories, 1)))

    async def _played(self, number: int, story: CauseStory) -> StoryVerdict:
        name = "-".join((f"{number:02}", *story.name.split(), story.client)).lower()
        group = self._group_of(2 if story.name == "coordinator moved" else 1, name)
        played, verdict = StoryGroup(self, group, f"{name}-topic", story.client, story.protocol), StoryVerdict(story)
        try:
            await story.script(played)
            within_s = CONCLUDED_WITHIN_S if story.protocol == "classic" else CONSUMERS_WITHIN_S
            end_s = time.monotonic() + within_s
            while not self._is_concluded(verdict, group) and time.monotonic() < end_s:
                await asyncio.sleep(0.5)
            await asyncio.sleep(SETTLED_S)
        except (AssertionError, KafkaError) as error:
            verdict.failure = str(error)
        self._judge(verdict, played)
        played.end()
        return verdict

    def _group_of(self, leader: int, name: str) -> str:
        """A group id that the broker coordinates."""
        names = (f"{name}-{number}" for number in range(1000))
        return next(n for n in names if self._leaders[partition_for(n, len(self._leaders))] == leader)

    def _is_concluded(self, verdict: StoryVerdict, group: str) -> bool:
        verdict.by_observer = is_named(verdict.story, self.observed.lines(group))
        verdict.by_proxy = is_named(verdict.story._replace(rule=""), self.proxied.lines(group))
        return verdict.by_observer or (verdict.story.is_hidden and verdict.by_proxy)

    def _judge(self, verdict: StoryVerdict, played: StoryGroup) -> None:
        self._is_concluded(verdict, played.group)
        for who, lines in (
            ("observer", self.observed.lines(played.group)),
            ("proxy", self.proxied.lines(played.group)),
        ):
            wrong = [f"{who}: {cause_text(cause)}" for cause in played.wrong(lines)]
            verdict.wrong += wrong
            if wrong and who == "observer":
                verdict.by_observer = False
            elif wrong:
                verdict.by_proxy = False
            verdict.seen += [
                f"{who}: {line.event} {line.generation} {'; '.join(map(cause_text, line.causes))}" for line in lines
            ]


def is_named(story: CauseStory, lines: list[JournalLine]) -> bool:
    """Whether a line has the story's cause."""
    played = [line for line in lines if line.event in story.events]
    if not story.kind:
        return bool(played)
    return any(
        cause["kind"] == story.kind
        and story.who in ("", cause.get("client_id"))
        and story.rule in ("", cause.get("rule"))
        and cause["evidence"] != UNKNOWN
        for line in played
        for cause in line.causes
    )


def cause_text(cause: dict[str, str]) -> str:
    """KIND CLIENT (EVIDENCE RULE)."""
    evidence = " ".join(filter(None, (cause["evidence"], cause.get("rule"))))
    return " ".join(filter(None, (cause["kind"], cause.get("client_id"), f"({evidence})")))
