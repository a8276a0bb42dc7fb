"""One group's scripted life on a cluster, with our consumers as processes, and what an observer concludes of each step."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client import Admin, KafkaError, Producer
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.observation import ClusterObservation

GROUP, TOPIC, PARTITIONS, MORE_PARTITIONS = "crew", "orders", 6, 9
WAIT_S = 90.0  # for a line: a session of the consumer protocol lasts 45 s
COMMITS_S = 6.0  # for a cadence of commits, once a second
CLASSIC = ("session.timeout.ms=8000", "heartbeat.interval.ms=1000")


@dataclass(frozen=True, slots=True)
class StoryStep:
    """``kind`` and ``evidence``: of the cause that a line of one of the ``events`` has after the step."""

    name: str
    events: tuple[str, ...]
    kind: str
    evidence: str


ENDS = ("stable", "empty", "epoch_raised")
STEPS = (
    StoryStep("three members join", ENDS, "member_joined", "observed"),
    StoryStep("a member is killed", ENDS, "session_timeout", "inferred"),
    StoryStep("it is started again", ENDS, "member_joined", "observed"),
    StoryStep("a member leaves", ENDS, "member_left", "inferred"),
    StoryStep("partitions are added", ENDS, "topic_metadata_changed", ""),
    StoryStep("all members leave", ENDS, "member_left", "inferred"),
    StoryStep("an administrator commits", ("pattern_seen",), "commit_by_stranger", "inferred"),
    StoryStep("the group is deleted", ("group_removed",), "tombstone", "observed"),
)


@dataclass(slots=True)
class ObservedStep:
    """A step with the causes that were concluded of it, as KIND (EVIDENCE)."""

    step: StoryStep
    causes: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        wanted = f"{self.step.kind} ({self.step.evidence}"
        return any(cause.startswith(wanted) for cause in self.causes)


class ObservedLife:
    """The group on the cluster of an address. ``protocol``: classic or consumer."""

    def __init__(self, address: str, protocol: str) -> None:
        self._client = {"bootstrap.servers": address}
        self._settings = ("group.protocol=consumer",) if protocol == "consumer" else CLASSIC
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._lines: list[JournalLine] = []
        self._read = 0

    async def run(self) -> list[ObservedStep]:
        """The steps, in order. Raises KafkaError."""
        stop = asyncio.Event()
        observation = ClusterObservation(self._client, self._lines.append, lambda _: None)
        async with Admin(self._client) as admin:
            await admin.create_topic(TOPIC, PARTITIONS, replication_factor=1)
            works = [asyncio.create_task(observation.run(stop)), asyncio.create_task(self._produce())]
            try:
                return [await self._observed(step, admin) for step in STEPS]
            finally:
                stop.set()
                works[1].cancel()
                await asyncio.gather(*works, return_exceptions=True)
                for member in self._members.values():
                    member.kill()
                    member.wait()

    async def _observed(self, step: StoryStep, admin: Admin) -> ObservedStep:
        """Takes the step, and waits for a line that the step calls for, then for commits."""
        self._read = len(self._lines)
        await self._take(step.name, admin)
        seen, deadline_s = ObservedStep(step), time.monotonic() + WAIT_S
        while not seen.is_right and time.monotonic() < deadline_s:
            await asyncio.sleep(0.1)
            seen.causes = list(self._causes(step))
        await asyncio.sleep(COMMITS_S)
        seen.causes = list(self._causes(step))
        return seen

    def _causes(self, step: StoryStep) -> Iterator[str]:
        for line in self._lines[self._read :]:
            if line.group == GROUP and line.event in step.events:
                yield from (f"{cause['kind']} ({cause['evidence']})" for cause in line.causes)

    async def _take(self, name: str, admin: Admin) -> None:
        match name:
            case "three members join":
                for member in ("anna", "ben", "cleo"):
                    self._start(member)
            case "a member is killed":
                self._members["ben"].kill()
                self._members["ben"].wait()
            case "it is started again":
                self._start("ben")
            case "a member leaves":
                self._members["cleo"].send_signal(signal.SIGTERM)
            case "partitions are added":
                await admin.create_partitions(TOPIC, MORE_PARTITIONS)
            case "all members leave":
                for process in self._members.values():
                    process.send_signal(signal.SIGTERM)
            case "an administrator commits":
                await admin.alter_consumer_group_offsets(GROUP, {(TOPIC, 0): 1})
            case "the group is deleted":
                await admin.delete_consumer_group(GROUP)

    def _start(self, member: str) -> None:
        settings = (f"client.id={member}", "auto.commit.interval.ms=1000", "metadata.max.age.ms=5000", *self._settings)
        command = [sys.executable, "-m", "coterie", "consume", TOPIC, "--group", GROUP, "--from-beginning"]
        command += ["--bootstrap-server", self._client["bootstrap.servers"]]
        command += [word for setting in settings for word in ("--set", setting)]
        quiet = subprocess.DEVNULL
        self._members[member] = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)

    async def _produce(self) -> None:
        """A record a second in each partition, so that members commit."""
        async with Producer(self._client) as producer:
            while True:
                for partition in range(PARTITIONS):
                    with contextlib.suppress(KafkaError):
                        await producer.send(TOPIC, b"x", partition=partition)
                await asyncio.sleep(0.5)


def observe_kafka(
    version: str, folder: Path, protocols: tuple[str, ...], progress: Callable[[str, ObservedStep], None]
) -> dict[str, list[ObservedStep]]:
    """The steps beside a real broker of that version, for each protocol. Raises CannotRun, KafkaError."""
    from coterie_conformance.servers.kafka import running

    lives = {}
    for protocol in protocols:
        settings = {"group.initial.rebalance.delay.ms": "1000", "offsets.topic.num.partitions": "4"}
        with running(version, folder / protocol, settings) as (host, port):
            lives[protocol] = asyncio.run(ObservedLife(f"{host}:{port}", protocol).run())
        for seen in lives[protocol]:
            progress(protocol, seen)
    return lives
