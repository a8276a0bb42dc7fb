"""What a group of three lives through on a broker, while records come in: one member is killed; all members are restarted, one
by one, with the consumer protocol (KIP-848), and back.

Asked of each story: no record is lost, and no partition stands still for longer than the protocol needs.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.client import Admin, GroupType
from coterie.client.blocking import BlockingProducer
from coterie.text.addresses import format_address
from coterie_conformance.groups.differential import coterie_broker
from coterie_conformance.members.programs import MEMBER_PROGRAMS, RunningMember
from coterie_conformance.servers.kafka import CannotRun

TOPIC, PARTITIONS, MEMBERS = "fed", 6, 3
FEED_S = 0.05
PATIENCE_S = 120.0
SESSION_S = 6.0
# A handover takes a heartbeat or two of each member (0.5 s), the interval of assignments (1 s) and a fetch; a member that is
# waited for in vain holds the others up for its session or rebalance timeout (45 s and more).
IDLE_S = 15.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
}
SHORT_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
}


class Feed(threading.Thread):
    """A record into each partition every FEED_S until it is stopped; ``sent`` is the number in each partition."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self._address, self._stopped = address, threading.Event()

    def run(self) -> None:
        """Sends a record to each partition every `FEED_S` until it is stopped."""
        with BlockingProducer({"bootstrap.servers": self._address, "linger.ms": 0}) as producer:
            while not self._stopped.wait(FEED_S):
                for future in [producer.send(TOPIC, b"%d" % self.sent, partition=p) for p in range(PARTITIONS)]:
                    future.result()
                self.sent += 1

    def stop(self) -> None:
        """Returns once everything is sent."""
        self._stopped.set()
        self.join()


@dataclass(frozen=True, slots=True)
class StoryFigures:
    """The figures of a story: how long its change took in s (0: not asked for), the longest time in s that a partition was
    not read, the records, and how many of them were read again."""

    change_s: float
    idle_s: float
    records: int
    repeated: int

    def text(self) -> str:
        """One line."""
        change = f"shared again after {self.change_s:.1f} s, " if self.change_s else ""
        return f"{change}a partition idle for {self.idle_s:.1f} s at most, {self.records} records, {self.repeated} read again"


class GroupOnTrial:
    """A client's members in one group, which read what a `Feed` sends."""

    def __init__(self, command: list[str], address: str, group: str, log: Path) -> None:
        self._command, self._address, self._group, self._log = command, address, group, log
        self._feed = Feed(address)
        self._all: list[RunningMember] = []
        self.members: list[RunningMember] = []

    def start(self, protocol: str) -> None:
        """One more member."""
        member = RunningMember.start(self._command, self._address, self._group, TOPIC, protocol, self._log)
        self._all.append(member)
        self.members.append(member)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends the member that was started first, by this signal."""
        self.members.pop(0).end(number)

    def feed(self) -> None:
        """Records come in from now on; returns once every partition is being read: two of its records were."""
        self._feed.start()

        def flows() -> bool:
            reads = Counter(p for m in self.members for _, p, _ in list(m.reads))
            return len(reads) == PARTITIONS and min(reads.values()) > 1

        self.until(flows, "all are read")

    def until(self, done: Callable[[], bool], what: str) -> float:
        """Seconds until it is so. Raises AssertionError after PATIENCE_S, or where a member has ended by itself."""
        started = time.monotonic()
        while not done():
            for member in self.members:
                code = member.process.poll()
                assert code is None, f"a member ended with {code}: {self._log.read_text().strip()[-300:]}"
            held = [f"{m.protocol} {m.owned}" for m in self.members]
            assert time.monotonic() < started + PATIENCE_S, f"not within {PATIENCE_S:g} s: {what}; {', '.join(held)}"
            time.sleep(0.05)
        return time.monotonic() - started

    def until_shared(self) -> float:
        """Until the members have equal parts, all partitions between them."""

        def shared() -> bool:
            sizes = {len(m.owned) for m in self.members}
            return (
                sizes == {PARTITIONS // len(self.members)}
                and len({p for m in self.members for p in m.owned}) == PARTITIONS
            )

        return self.until(shared, f"{len(self.members)} members share {PARTITIONS} partitions")

    def kind(self) -> GroupType:
        """The group's protocol, by its coordinator."""

        async def ask() -> GroupType:
            async with Admin({"bootstrap.servers": self._address}) as admin:
                return (await admin.describe_consumer_group(self._group)).type

        return asyncio.run(ask())

    def finished(self, change_s: float, idle_s: float) -> StoryFigures:
        """Stops the feed and waits for its last record; ``idle_s`` is the longest time allowed. Raises AssertionError."""
        self._feed.stop()
        wanted = {(p, offset) for p in range(PARTITIONS) for offset in range(self._feed.sent)}

        def read() -> set[tuple[int, int]]:
            return {(p, offset) for m in self._all for _, p, offset in list(m.reads)}

        self.until(lambda: read() >= wanted, "every record is read")
        reads = sorted(each for m in self._all for each in m.reads)
        longest = max(self._idle(reads, p) for p in range(PARTITIONS))
        assert longest <= idle_s, f"a partition was not read for {longest:.1f} s, allowed are {idle_s:g} s"
        return StoryFigures(change_s, longest, len(wanted), len(reads) - len(wanted))

    @staticmethod
    def _idle(reads: list[tuple[float, int, int]], partition: int) -> float:
        times = [at for at, p, _ in reads if p == partition]
        return max(after - before for before, after in itertools.pairwise(times))

    def close(self) -> None:
        """Kills what still runs."""
        if self._feed.is_alive():
            self._feed.stop()
        for member in self._all:
            member.end(signal.SIGKILL)


def one_is_killed(group: GroupOnTrial) -> StoryFigures:
    """Three members by the consumer protocol, one killed: the others share its part once its session is over."""
    for _ in range(MEMBERS):
        group.start("consumer")
    group.until_shared()
    group.feed()
    assert group.kind() == GroupType.CONSUMER, group.kind()
    group.end(signal.SIGKILL)
    change_s = group.until_shared()
    return group.finished(change_s, SESSION_S + IDLE_S)


def upgraded_and_back(group: GroupOnTrial) -> StoryFigures:
    """Three members by the classic protocol, each restarted with the consumer protocol, then each with the classic one."""
    for _ in range(MEMBERS):
        group.start("classic")
    group.until_shared()
    group.feed()
    assert group.kind() == GroupType.CLASSIC, group.kind()
    for protocol, kind in (("consumer", GroupType.CONSUMER), ("classic", GroupType.CLASSIC)):
        for _ in range(MEMBERS):
            group.end()
            group.start(protocol)
            group.until_shared()
        assert group.kind() == kind, f"after the last {protocol} member the group is {group.kind()}"
    return group.finished(0, IDLE_S)


STORIES: dict[str, tuple[Callable[[GroupOnTrial], StoryFigures], dict[str, str]]] = {
    "one of three is killed": (one_is_killed, SHORT_SESSIONS),
    "three from classic to consumer and back": (upgraded_and_back, {}),
}


@contextmanager
def on_trial(command: list[str], address: str, group: str, folder: Path) -> Iterator[GroupOnTrial]:
    """A group whose members are ended with the block; their standard error is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    trial = GroupOnTrial(command, address, group, folder / f"{group}.log")
    try:
        yield trial
    finally:
        trial.close()


def make_topic(address: str) -> None:
    """The topic that the feed fills."""

    async def make() -> None:
        async with Admin({"bootstrap.servers": address}) as admin:
            await admin.create_topic(TOPIC, PARTITIONS)

    asyncio.run(make())


def run_members(folder: Path, report: Callable[[str, str], None], brokers: int = 1) -> dict[str, str]:
    """Every story with every client on coterie: by name what it gave, "" where it failed. ``report(name, problem)`` is
    called as each ends. Raises CannotRun where no client can be run."""
    results: dict[str, str] = {}
    missing = []
    for program in MEMBER_PROGRAMS:
        try:
            command = program.prepare(folder / program.name.replace(" ", "-"))
        except CannotRun as reason:
            missing.append(str(reason))
            report(f"{program.name} is SKIPPED", str(reason))
            continue
        for number, (what, (story, settings)) in enumerate(STORIES.items()):
            name = f"{program.name}, {what}"
            with coterie_broker(SETTINGS | settings, brokers=brokers) as at:
                address = format_address(*at)
                make_topic(address)
                try:
                    with on_trial(command, address, f"members-{number}", folder / "logs") as group:
                        results[name] = story(group).text()
                    report(f"{name}: {results[name]}", "")
                except AssertionError as problem:
                    results[name] = ""
                    report(name, str(problem))
    if not results:
        raise CannotRun("; ".join(missing))
    return results
