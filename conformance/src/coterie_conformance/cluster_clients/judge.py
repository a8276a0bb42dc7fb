"""The same kills on three brokers of coterie and on three of Apache Kafka, with the same settings, and who is slower."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.client.errors import KafkaError
from coterie_conformance.cluster.command_cluster import command_cluster
from coterie_conformance.cluster.mixed import SETTINGS, BrokerKind, NotInTime, mixed_cluster
from coterie_conformance.cluster_clients.kills import BROKERS, GROUP_PROGRAMS, GroupKills, KillableCluster, KillsReport
from coterie_conformance.cluster_clients.outages import OutageFigure, figure, is_slower, slowest_by_kill
from coterie_conformance.servers.kafka import CannotRun

# Of both sides. What `coterie cluster start` has by itself; a broker is down for longer.
KILL_SETTINGS = {**SETTINGS, "zookeeper.session.timeout.ms": "6000"}


@dataclass(frozen=True, slots=True)
class KillsOptions:
    """``clients``: names of `GROUP_PROGRAMS`. ``is_alone``: without Apache Kafka beside."""

    minutes: float
    seed: int
    clients: Sequence[str]
    is_alone: bool


@dataclass(frozen=True, slots=True)
class KillsJudgement:
    """``theirs``: None where only coterie was run."""

    ours: KillsReport
    theirs: KillsReport | None

    @property
    def slowest(self) -> tuple[OutageFigure | None, OutageFigure | None]:
        """Of the slowest group of each kill without a coordinator: ours, theirs."""
        ours = figure(slowest_by_kill(self.ours.outages))
        return ours, figure(slowest_by_kill(self.theirs.outages)) if self.theirs is not None else None

    def wrong(self) -> list[str]:
        """What of ours is wrong. What Apache Kafka's brokers lose is not; that they cannot be compared is."""
        wrong = [f"{name}: {text}" for name, texts in self.ours.wrong.items() for text in texts]
        ours, theirs = self.slowest
        if ours is None:
            wrong.append("no coordinator was killed")
        elif self.theirs is not None and theirs is None:
            wrong.append("no coordinator of Apache Kafka's was killed: there is nothing to compare with")
        elif theirs is not None and is_slower(ours, theirs):
            wrong.append("groups are without a coordinator for longer than on Apache Kafka")
        return wrong


@contextmanager
def _cluster(folder: Path, kind: BrokerKind) -> Iterator[KillableCluster]:
    """Raises CannotRun, NotInTime, KafkaError."""
    if kind is BrokerKind.COTERIE:
        with command_cluster(folder / "cluster", len(BROKERS), KILL_SETTINGS) as ours:
            yield ours
        return
    with mixed_cluster(folder, dict.fromkeys(BROKERS, kind), KILL_SETTINGS) as theirs:
        yield theirs


def run_kills(folder: Path, kind: BrokerKind, options: KillsOptions, progress: Callable[[str], None]) -> KillsReport:
    """One side. What does not come to a state in time is wrong, of Apache Kafka too. Raises as `mixed_cluster`."""
    folder.mkdir(parents=True, exist_ok=True)
    with _cluster(folder, kind) as cluster:
        programs = [GROUP_PROGRAMS[name] for name in options.clients]
        kills = GroupKills(cluster, programs, options.seed, lambda line: progress(f"{kind.value}: {line}"))
        try:
            return asyncio.run(kills.run(options.minutes, folder))
        except (NotInTime, KafkaError, CannotRun) as error:  # also a broker that does not start again
            kills.report.wrong["the cluster"] = [str(error)]
            return kills.report


def judge(folder: Path, options: KillsOptions, progress: Callable[[str], None]) -> KillsJudgement:
    """Both sides, one after the other. Raises as `mixed_cluster`."""
    for name in options.clients:
        GROUP_PROGRAMS[name].prepare()
    ours = run_kills(folder / "coterie", BrokerKind.COTERIE, options, progress)
    theirs = None if options.is_alone else run_kills(folder / "kafka", BrokerKind.KAFKA, options, progress)
    return KillsJudgement(ours, theirs)
