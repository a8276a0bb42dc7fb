"""The applications of part `applications`, and the brokers on which each runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coterie_conformance.applications import connect, streams
from coterie_conformance.applications.cluster import CoordinatingCluster
from coterie_conformance.applications.verdict import ApplicationVerdict
from coterie_conformance.histories.run import ABORT_INTERVAL, KillableBroker, coterie_broker, kafka_broker

# A killed instance is missed as soon as one of the classic protocol is (`WordCounts.java`).
STREAMS_GROUPS = {
    "group.streams.num.standby.replicas": "1",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}
_OF_CLUSTER = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}


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
