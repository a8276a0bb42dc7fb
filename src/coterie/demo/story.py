"""The demo from start to end. Each step of the main job is a method; whatever happens, all processes are ended."""

from __future__ import annotations

import asyncio
import json
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from coterie.client import Admin
from coterie.demo import checks as checking
from coterie.demo.checks import Check, Expected
from coterie.demo.failover import (
    BrokerKill,
    ClusterWatch,
    check_failover,
    committed_offsets,
    follow,
    moved_text,
    successor,
)
from coterie.demo.processes import DemoBrokers, DemoError, Processes
from coterie.demo.summary import write_report
from coterie.demo.view import View
from coterie.demo.watcher import Watch, Watcher
from coterie.runtime.extras import EXTRAS, is_installed
from coterie.text.quantity import quantity

TOPIC, PARTITIONS = "flights", 12
KILLED, STATIC, LEAVER = "ben", "cleo", "anna"
PRODUCE_SECONDS, CLUSTER_PRODUCE_SECONDS = 18.0, 45.0  # the chapter of the brokers has its records too
LOOK_EVERY_S = 0.5
CONSOLE_READY = "console on "
PATIENCE_S = 120.0  # on a machine that is busy with other things; a process that ends is seen at once
SPARK_PATIENCE_S = 300.0  # for what includes Spark's start, or one of its jobs


@dataclass(slots=True)
class DemoOptions:
    """``out`` keeps everything: broker data, tables, logs, report. ``brokers``: 1, or a cluster of so many. ``opens``: the live
    page is opened in a browser."""

    out: Path
    input: Path | None = None
    key: str | None = None
    master: str = "local[*]"
    brokers: int = 1
    opens: bool = False

    @property
    def topic(self) -> str:
        return TOPIC if self.input is None else "records"

    @property
    def job(self) -> str:
        """The Spark job: the flights' delays, or counts per key for any other input."""
        return "delays" if self.input is None else "keys"


class Demo:
    """One run."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self.options, self.console = options, console
        for folder in ("logs", "crew", "tables"):
            (options.out / folder).mkdir(parents=True, exist_ok=True)
        self.processes = Processes(options.out / "logs")
        self.brokers = DemoBrokers(self.processes, options.out / "broker", options.brokers)
        self.watch = Watch(options.topic)
        self.cluster = ClusterWatch() if self.brokers.in_cluster else None
        self.view = View(console, self.watch, self.cluster)
        self.events: list[tuple[int, str]] = []
        self.address = ""
        self.produced = self.rejected = 0
        self.done_ms: int | None = None
        self.expected: Expected | None = None
        self._failure: str | None = None
        self._spark: asyncio.subprocess.Process | None = None

    async def run(self) -> list[Check]:
        """The checks, in order. Raises DemoError; ends every process whatever happens."""
        try:
            with self.view:
                await self._start_broker()
                await self._start_console()
                self._announce_broker()
                watcher = Watcher(self.address, self.watch)
                looking = [asyncio.create_task(self._look(watcher))]
                if self.cluster is not None:
                    looking.append(asyncio.create_task(follow(self.address, self.cluster)))
                try:
                    await self._act()
                finally:
                    for task in looking:
                        task.cancel()
                    await asyncio.gather(*looking, return_exceptions=True)
                    await watcher.close()
            with self.console.status("checking"):
                return await self._conclude()
        finally:
            await self.processes.stop_all()

    def _happened(self, text: str) -> None:
        self.events.append((int(time.time() * 1000), text))
        self.view.happened(text)

    # -- 1: the broker --------------------------------------------------------------------------------------------------

    async def _start_broker(self) -> None:
        brokers = self.brokers
        if brokers.in_cluster:
            self._happened(f"ZooKeeper and {quantity(brokers.count, 'broker')} start")
        self.address = await brokers.start()
        async with Admin({"bootstrap.servers": self.address}) as admin:
            await admin.create_topic(self.options.topic, PARTITIONS)

    def _announce_broker(self) -> None:
        brokers = self.brokers
        listens = f"{quantity(brokers.count, 'broker')} listen" if brokers.in_cluster else "a broker listens"
        kept = "their data is kept" if brokers.in_cluster else "its data is kept"
        self._happened(f"{listens} on {self.address}; {kept} in {brokers.data}")

    async def _start_console(self) -> None:
        """The page on which the group is watched, where the extra `http` is installed. Raises DemoError."""
        if not all(map(is_installed, EXTRAS["http"])):
            return
        arguments = ["-m", "coterie", "console", "--listen", "127.0.0.1:0", "--bootstrap-server", self.address]
        process = await self.processes.start("console", *arguments, piped=True)
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith(CONSOLE_READY):
            raise DemoError(f"the console did not start: {self.processes.log_tail('console')}")
        page = f"{line.removeprefix(CONSOLE_READY)}/groups/crew"
        self.view.happened(f"watch the group: {page}")
        if self.options.opens:
            await asyncio.to_thread(webbrowser.open, page)

    # -- 2, 3, 4: records, the crew, Spark -------------------------------------------------------------------------------

    async def _act(self) -> None:
        await self._start_spark()
        await self._join(LEAVER)
        await self._join(KILLED)
        producing = asyncio.create_task(self._produce())
        try:
            await self._until(lambda: self._crew_is(2), "two members share the partitions")
            await self._pause(3)
            await self._join(STATIC, "joins the group crew as a static member", static=True)
            await self._until(lambda: self._crew_is(3), "a third member has its share")
            await self._pause(3)
            self.processes.kill(KILLED)
            self._happened(f"{KILLED} is killed with SIGKILL; the group removes it when its session times out")
            await self._until(lambda: self._crew_is(2), f"{KILLED}'s partitions have new owners")
            await self._pause(1)
            await self._restart_static()
            await self._pause(2)
            if self.cluster is not None:
                await self._kill_coordinator(self.cluster)
            await self.processes.stop(LEAVER)
            self._happened(f"{LEAVER} leaves cleanly")
            await self._until(lambda: self._crew_is(1), "the last member owns everything")
            await producing
            self._happened(f"{quantity(self.produced, 'record')} produced" + self._rejects_text())
            await self._until(self._caught_up, "both groups have caught up", SPARK_PATIENCE_S)
        finally:
            producing.cancel()
        self.processes.terminate("spark")
        await self.processes.stop(STATIC)
        await self._result_of_spark("rows")
        self._happened("Spark's table is complete")

    def _rejects_text(self) -> str:
        return f"; {quantity(self.rejected, 'bad line')}: {self.options.out / 'rejects.txt'}" if self.rejected else ""

    async def _start_spark(self) -> None:
        o = self.options
        arguments = ["-m", "coterie.demo.spark_jobs", self.address, o.topic, o.job, str(o.out), "--master", o.master]
        self._spark = await self.processes.start("spark", *arguments, piped=True)
        self._happened("Spark starts; its Structured Streaming query commits to the group delays")

    async def _result_of_spark(self, name: str) -> Any:
        """Of the next of its jobs that ends. Raises DemoError."""
        assert self._spark is not None
        assert self._spark.stdout is not None
        try:
            async with asyncio.timeout(SPARK_PATIENCE_S):
                line = await self._spark.stdout.readline()
        except TimeoutError:
            raise DemoError(f"waited {SPARK_PATIENCE_S:.0f} s in vain for a job of Spark") from None
        if not line:
            raise DemoError(f"the Spark job failed:\n{self.processes.log_tail('spark')}")
        return json.loads(line)[name]

    async def _join(self, name: str, how: str = "joins the group crew", *, static: bool = False) -> None:
        out = self.options.out / "crew" / f"{name}.jsonl"
        arguments = ["-m", "coterie.demo.crew", self.address, self.options.topic, name, str(out)]
        await self.processes.start(name, *arguments, *(["--static"] if static else []))
        self._happened(f"{name} {how}")

    async def _restart_static(self) -> None:
        await self.processes.stop(STATIC)
        self._happened(f"{STATIC}, a static member, is stopped")
        await self._join(STATIC, "is started again within its session timeout: no rebalance is due", static=True)
        await self._until(lambda: bool(self.watch.replaced()), f"{STATIC} is back")

    async def _kill_coordinator(self, cluster: ClusterWatch) -> None:
        await self._until(lambda: cluster.coordinator is not None, "the coordinator of crew is known")
        broker = cluster.coordinator
        assert broker is not None, "known"
        committed = await committed_offsets(self.address)
        kill = cluster.kill = BrokerKill(broker, int(time.time() * 1000), cluster.led_by(broker), committed)
        self.brokers.kill(broker)
        self._happened(f"broker {broker}, which coordinates crew, is killed with SIGKILL")
        await self._until(cluster.has_moved, "other brokers lead its partitions of the offsets")
        kill.kept = await committed_offsets(self.address)
        journal = self.watch.journal
        await self._until(lambda: successor(kill, journal) is not None, "the journal has the new coordinator")
        self._happened(moved_text(cluster, journal))
        await self._pause(3)
        await self.brokers.restart()
        kill.restarted_ms = int(time.time() * 1000)
        self._happened(f"broker {broker} is started again, and fetches what it has missed")
        whole = "all replicas are in sync again"
        await self._until(lambda: broker in cluster.live and not cluster.under_replicated, whole)
        self._happened(whole)

    async def _produce(self) -> None:
        o = self.options
        arguments = [
            "-m",
            "coterie.demo.producer",
            self.address,
            o.topic,
            str(o.out / "rejects.txt"),
            str(CLUSTER_PRODUCE_SECONDS if self.brokers.in_cluster else PRODUCE_SECONDS),
        ]
        if o.input is not None:
            arguments += ["--input", str(o.input)]
        if o.key is not None:
            arguments += ["--key", o.key]
        process = await self.processes.start("producer", *arguments, piped=True)
        assert process.stdout is not None
        async for line in process.stdout:
            report = json.loads(line)
            if "error" in report:
                self._failure = report["error"]
                return
            if "reject" in report:
                self._happened(f"set aside: {report['reject']}")
                continue
            self.produced, self.rejected = report["sent"], report["rejected"]
            self.view.total, self.view.sent = report["total"], report["sent"]
        if await process.wait():
            self._failure = f"the producer failed:\n{self.processes.log_tail('producer')}"
            return
        self.done_ms = int(time.time() * 1000)

    # -- watching -------------------------------------------------------------------------------------------------------

    async def _look(self, watcher: Watcher) -> None:
        while True:
            await watcher.look(self.produced)
            self.view.refresh()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        await self._until(lambda: time.monotonic() >= deadline, "a pause", seconds + 5)

    async def _until(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Waits for what must come; a process that ends meanwhile ends the demo with its last words."""
        deadline = time.monotonic() + patience_s
        while not condition():
            if self._failure is not None:
                raise DemoError(self._failure)
            for name in ("broker", "spark"):
                if self.processes.ended(name) is not None:
                    raise DemoError(f"the process {name} ended:\n{self.processes.log_tail(name)}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {patience_s:.0f} s in vain until {what}")
            await asyncio.sleep(0.1)

    def _crew_is(self, members: int) -> bool:
        rebalances = self.watch.rebalances()
        return bool(rebalances) and rebalances[-1].members == members and self.watch.state == "Stable"

    def _caught_up(self) -> bool:
        if self.done_ms is None or not self.watch.samples:
            return False
        last = self.watch.samples[-1]
        return last.time_ms > self.done_ms and last.lags.get("crew") == 0 and last.lags.get("delays") == 0

    # -- 5, 6, 7: history, checks, report --------------------------------------------------------------------------------

    async def _conclude(self) -> list[Check]:
        o = self.options
        self.console.print(
            "[dim]·[/] a second Spark job reads __consumer_offsets and the journal; meanwhile the checks run"
        )
        expected, content = await asyncio.gather(
            asyncio.to_thread(checking.expect, o.input, o.key),
            asyncio.to_thread(checking.topic_content, self.address, o.topic),
        )
        records, checksum, ends = content
        checks = checking.check_topic(expected, records, checksum)
        checks += checking.check_crew(o.out / "crew", ends, KILLED)
        checks += checking.check_group(self.watch)
        if self.cluster is not None:
            checks += check_failover(self.cluster, self.watch.journal)
        checks += checking.check_table(o.out / "tables" / "table", expected, o.input is None)
        checks += checking.check_history(await self._result_of_spark("history"))
        table = o.out / "tables" / "table"
        write_report(
            o.out / "report.html",
            self.watch,
            self.events,
            checks,
            table=table,
            flights=o.input is None,
            cluster=self.cluster,
        )
        return checks
