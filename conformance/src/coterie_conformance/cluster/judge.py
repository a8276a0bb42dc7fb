"""All checks of part `cluster`, in their order, on as few clusters as they need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client.errors import KafkaError
from coterie_conformance.cluster.controller_checks import run_step, steps
from coterie_conformance.cluster.log_dir_checks import log_dir_fails
from coterie_conformance.cluster.migration import MigrationReport, migration
from coterie_conformance.cluster.mixed import (
    VERSION,
    BrokerKind,
    MixedCluster,
    NotInTime,
    mixed_cluster,
    until_all_know_each_other,
    wait_until,
)
from coterie_conformance.cluster.quota_checks import quotas_are_the_clusters
from coterie_conformance.cluster.replication_checks import (
    followers_equal,
    move_controller,
    old_leader_truncates,
    restarted_follower_equal,
)
from coterie_conformance.cluster.secure_checks import SECURE_CHECKS
from coterie_conformance.cluster.secure_cluster import secure_cluster
from coterie_conformance.cluster.strikes import StrikeReport, Strikes
from coterie_conformance.servers.kafka import CannotRun
from coterie_conformance.tools.run import JavaTools

KAFKA, FIRST, SECOND = 1, 2, 3
KINDS = {KAFKA: BrokerKind.KAFKA, FIRST: BrokerKind.COTERIE, SECOND: BrokerKind.COTERIE}
BEGINS, WHOLE_AGAIN = "coterie's and Kafka's brokers know each other", "they all run again and are in sync"
Replication = Callable[[MixedCluster, int, str], Awaitable[str]]
Failures = tuple[type[Exception], ...]
NOT_SETTLED: Failures = (NotInTime, KafkaError)  # of a cluster
FAILURES: Failures = (*NOT_SETTLED, CannotRun, TimeoutError)


@dataclass(frozen=True, slots=True)
class ReplicationCheck:
    """``work`` with ``broker``; before it ``controller`` comes into office, if it is another."""

    name: str
    controller: int
    broker: int
    work: Replication


REPLICATION_CHECKS = (
    ReplicationCheck("Kafka controls and leads, coterie follows", KAFKA, KAFKA, followers_equal),
    ReplicationCheck("Kafka controls, coterie leads", KAFKA, FIRST, followers_equal),
    ReplicationCheck("Kafka controls, a leader of coterie's comes back", KAFKA, FIRST, old_leader_truncates),
    ReplicationCheck("Kafka controls, a follower of coterie's comes back", KAFKA, SECOND, restarted_follower_equal),
    ReplicationCheck("Kafka controls and leads, and comes back", KAFKA, KAFKA, old_leader_truncates),
    ReplicationCheck("Kafka controls, a log directory of Kafka's fails", KAFKA, KAFKA, log_dir_fails),
    ReplicationCheck("Kafka and coterie describe each other's quotas", KAFKA, KAFKA, quotas_are_the_clusters),
    ReplicationCheck("coterie controls, Kafka leads", FIRST, KAFKA, followers_equal),
    ReplicationCheck("coterie controls and leads, Kafka follows", FIRST, FIRST, followers_equal),
    ReplicationCheck("coterie controls, a leader of Kafka's comes back", FIRST, KAFKA, old_leader_truncates),
    ReplicationCheck("coterie controls, a follower of Kafka's comes back", FIRST, KAFKA, restarted_follower_equal),
    ReplicationCheck("coterie controls and leads, and comes back", FIRST, FIRST, old_leader_truncates),
    ReplicationCheck("coterie controls, a log directory of Kafka's fails", FIRST, KAFKA, log_dir_fails),
)


@dataclass(slots=True)
class ClusterJudgement:
    """``checks``: name -> what is wrong, empty where it is right."""

    checks: dict[str, str] = field(default_factory=dict)
    strikes: StrikeReport | None = None
    migration: MigrationReport | None = None


class ClusterJudge:
    """``report`` gets each check's name as it ends, and what is wrong."""

    def __init__(self, folder: Path, report: Callable[[str, str], None]) -> None:
        self._folder, self._report = folder, report
        self.judgement = ClusterJudgement()

    async def check(self, name: str, work: Awaitable[str], failures: Failures = FAILURES) -> bool:
        """Whether it is right. A cluster that does not come to the state that a check waits for is wrong as well, and so is a
        broker that does not start again. Raises what is not among ``failures``."""
        wrong = ""
        try:
            wrong = await work
        except* failures as group:
            wrong = "; ".join(str(error) for error in group.exceptions)
        self.judgement.checks[name] = wrong
        self._report(name, wrong)
        return not wrong

    async def replication(self) -> None:
        """Who leads, who follows, who controls. Raises CannotRun where the cluster's processes do not start."""
        clusters = list[MixedCluster]()
        with ExitStack() as stack:

            async def begin() -> str:
                cluster = mixed_cluster(self._folder / "replication", KINDS, log_dirs=2)
                clusters.append(stack.enter_context(cluster))
                return ""

            await self.check(BEGINS, begin(), NOT_SETTLED)
            for cluster in clusters:
                for number, check in enumerate(REPLICATION_CHECKS):
                    await self.check(check.name, _replicate(cluster, check, f"replicated-{number}"))
                if await self.check(WHOLE_AGAIN, _make_whole(cluster)):
                    await self._tools(cluster)

    async def _tools(self, cluster: MixedCluster) -> None:
        tools = JavaTools(VERSION)
        try:
            for number, step in enumerate(steps(list(KINDS)), 1):
                await self.check(f"{number}. {step.command}", run_step(cluster, tools, step))
        finally:
            tools.close()

    async def secured(self) -> None:
        """Access, TLS and SASL. Raises CannotRun where coterie's processes do not start."""
        with secure_cluster(self._folder / "secured") as cluster:
            for name, work in SECURE_CHECKS.items():
                await self.check(name, work(cluster))

    async def strikes(self, count: int, seed: int) -> None:
        """kill -9 and pauses under load."""

        async def run() -> str:
            with mixed_cluster(self._folder / "strikes", KINDS) as cluster:
                strikes = Strikes(cluster, count, seed)
                self.judgement.strikes = strikes.report
                await strikes.run()
            return "; ".join(strikes.report.wrong[:5])

        await self.check(f"{count} strikes under load", run())

    async def migration(self) -> None:
        """From Apache Kafka's brokers to coterie's and back."""

        async def run() -> str:
            self.judgement.migration = report = await migration(self._folder / "migration")
            return "; ".join(report.wrong[:5])

        await self.check("from Kafka to coterie and back, a group and transactions at work", run())


async def _replicate(cluster: MixedCluster, check: ReplicationCheck, topic: str) -> str:
    await asyncio.to_thread(cluster.restore)
    await move_controller(cluster, check.controller)
    await until_all_know_each_other(cluster)
    return await check.work(cluster, check.broker, topic)


async def _make_whole(cluster: MixedCluster) -> str:
    await asyncio.to_thread(cluster.restore)
    await move_controller(cluster, FIRST)
    await wait_until(cluster.is_whole, "all replicas are in sync")
    return ""


def judge(folder: Path, strikes: int, seed: int, report: Callable[[str, str], None]) -> ClusterJudgement:
    """All of it. Raises CannotRun as `ClusterJudge.replication`."""

    async def run() -> ClusterJudgement:
        of = ClusterJudge(folder, report)
        await of.replication()
        await of.migration()
        await of.secured()
        await of.strikes(strikes, seed)
        return of.judgement

    return asyncio.run(run())
