"""The applications of part `applications`, and the brokers on which each runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coterie.coordinator.partitioning import partition_for
from coterie_conformance.applications import connect, streams
from coterie_conformance.applications.streams import APPLICATION
from coterie_conformance.applications.strikes import ApplicationVerdict
from coterie_conformance.cluster.command_cluster import HOST, CommandCluster, command_cluster
from coterie_conformance.cluster.strikes import OFFSETS_TOPIC
from coterie_conformance.histories.workload import ABORT_INTERVAL, KillableBroker, coterie_broker, kafka_broker
from coterie_conformance.servers.kafka import CannotRun

BROKERS = 3
LIMIT_S, LOOK_EVERY_S = 60.0, 0.1
# A killed instance is missed as soon as one of the classic protocol is (`WordCounts.java`).
STREAMS_GROUPS = {
    "group.streams.num.standby.replicas": "1",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}
_OF_CLUSTER = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}


class CoordinatingCluster:
    """A `KillableBroker` on that folder. ``settings`` are those of each broker."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._settings = folder, settings
        self._running = ExitStack()
        self._cluster: CommandCluster | None = None
        self._killed: int | None = None
        self.address = HOST, 0

    def start(self) -> None:
        """All brokers at first, and then the one that was killed. Raises CannotRun."""
        if self._cluster is None:
            self._cluster = self._running.enter_context(command_cluster(self._folder, BROKERS, self._settings))
            host, _, port = self._cluster.bootstrap.split(",")[0].rpartition(":")
            self.address = host, int(port)
        elif self._killed is not None:
            self._cluster.start(self._killed)
            self._until(self._cluster.is_whole, "its replicas are not in sync")

    def kill(self) -> None:
        """SIGKILL for the coordinator. Another one is elected before this returns. Raises CannotRun."""
        assert self._cluster is not None
        cluster, partition = self._cluster, partition_for(APPLICATION, len(self._cluster.assignment(OFFSETS_TOPIC)))
        killed = cluster.leader((OFFSETS_TOPIC, partition))
        self._killed = cluster.ids()[0] if killed is None else killed
        cluster.kill(self._killed)
        self._until(lambda: cluster.leader((OFFSETS_TOPIC, partition)) not in (killed, None), "no other coordinates")

    def stop(self) -> None:
        """All of them."""
        self._running.close()

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        ends_s = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > ends_s:
                raise CannotRun(f"{LIMIT_S:g} s after a kill {otherwise}")
            time.sleep(LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class JudgedApplication:
    """``since`` and ``until`` are the first and the last version of Kafka that has it; ``settings`` are the brokers'."""

    name: str
    folder: str
    judge: Callable[[KillableBroker, str, Path, int], ApplicationVerdict]
    since: tuple[int, int] = (0, 0)
    settings: Mapping[str, str] = field(default_factory=dict)
    on_cluster: bool = False
    until: tuple[int, int] | None = None

    def runs_with(self, version: str) -> bool:
        """Whether this version has it."""
        major_and_minor = tuple(map(int, version.split(".")[:2]))
        return self.since <= major_and_minor and (self.until is None or major_and_minor <= self.until)

    def brokers(self, version: str, folder: Path) -> dict[str, KillableBroker]:
        """By what a report calls them."""
        brokers: dict[str, KillableBroker] = {"coterie": coterie_broker(folder / "coterie", self.settings)}
        if self.on_cluster:
            settings = {**ABORT_INTERVAL, **self.settings, **_OF_CLUSTER}
            brokers["three of coterie"] = CoordinatingCluster(folder / "cluster", settings)
        return brokers | {"kafka": kafka_broker(version, folder / "kafka", self.settings)}


APPLICATIONS = (
    JudgedApplication("Kafka Streams", "streams", streams.judge),
    JudgedApplication(
        "Kafka Streams by the streams protocol",
        "streams-groups",
        partial(streams.judge, protocol="streams"),
        (4, 2),
        STREAMS_GROUPS,
        on_cluster=True,
    ),
    # Maven Central has no file connectors of 4.4, and a worker of 4.4 does not run those of 4.3.
    JudgedApplication("Kafka Connect", "connect", connect.judge, until=(4, 3)),
)
