"""Thousands of seeded steps on coterie and on one Apache Kafka, many stories at a time."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coterie.certify.settling import wait_for_coordinator
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.text.addresses import parse_address
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie_conformance.groups.questions import METADATA_MAX_BYTES, OTHER_TOPIC, PARTITIONS, TOPIC
from coterie_conformance.groups.story import GroupStory, StoryResult
from coterie_conformance.servers.kafka import running

STEPS_PER_STORY = 120
AT_ONCE = 12
FAILURES_SHOWN = 10  # then it stops: the rest would show the same
# The same on both; short sessions are allowed so that expiry can be waited for.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "5",
    "offsets.topic.num.partitions": "1",
    "offset.metadata.max.bytes": str(METADATA_MAX_BYTES),
    "auto.create.topics.enable": "false",
}


@dataclass(slots=True)
class DifferentialReport:
    """The result of a run against one version."""

    version: str
    steps: int = 0
    stories: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    failed: list[StoryResult] = field(default_factory=list)


@contextmanager
def coterie_broker(
    settings: Mapping[str, str], data: Path | None = None, brokers: int = 1
) -> Iterator[tuple[str, int]]:
    """Our broker in a process of its own, in memory or on that folder. With more ``brokers``, the address of the one that
    leads, coordinates and controls a cluster in memory (`leading_broker`)."""
    where = ["--memory"] if data is None else ["--data", str(data)]
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", *where]
    if brokers > 1:
        command = [sys.executable, "-m", "coterie_conformance.servers.leading_broker", str(brokers)]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = parse_address(process.stdout.readline().removeprefix("listening on "))
        yield address
    finally:
        process.terminate()
        process.wait(20)


def run_differential(
    version: str,
    steps: int,
    first_seed: int,
    folder: Path,
    on_result: Callable[[StoryResult], None],
    *,
    brokers: int = 1,
) -> DifferentialReport:
    """Starts both sides and runs stories until so many steps are done; ``brokers`` on ours. Raises CannotRun."""
    theirs = dict(SETTINGS)
    ours = dict(SETTINGS)
    if version.startswith("2."):
        ours["coterie.group.sync.timeout.enable"] = "false"  # KIP-752 came later
    if version.startswith("4."):
        theirs["group.coordinator.append.linger.ms"] = "0"
    else:
        ours["coterie.group.pending.leave.rebalance.enable"] = "false"
    with running(version, folder, theirs) as kafka, coterie_broker(ours, brokers=brokers) as address:
        for side in (kafka, address):
            make_topics(side)
            wait_for_coordinator(side)
        return asyncio.run(_stories(DifferentialReport(version), steps, first_seed, address, kafka, on_result))


def make_topics(address: tuple[str, int]) -> None:
    """Creates the two topics of the stories. Raises KafkaError."""
    connection = BrokerSocket(*address)
    wanted = [CreatableTopic(name, PARTITIONS, 1) for name in (TOPIC, OTHER_TOPIC)]
    for result in connection.request(CreateTopicsRequest(wanted)).topics:
        check(result.error_code, result.error_message)
    connection.close()


async def _stories(
    report: DifferentialReport,
    steps: int,
    first_seed: int,
    ours: tuple[str, int],
    theirs: tuple[str, int],
    on_result: Callable[[StoryResult], None],
) -> DifferentialReport:
    seeds, kinds = itertools.count(first_seed), ("calm", "calm", "rebalance", "session")

    async def worker() -> None:
        while report.steps < steps and len(report.failed) < FAILURES_SHOWN:
            seed = next(seeds)
            result = await GroupStory(seed, kinds[seed % len(kinds)], report.version, ours, theirs).run(STEPS_PER_STORY)
            report.steps, report.stories = report.steps + result.steps, report.stories + 1
            if result.accepted:
                report.accepted[result.accepted] += 1
            if result.difference:
                report.failed.append(result)
            on_result(result)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return report
