"""The demo's broker, or its cluster by `coterie cluster start`: started, one of it killed and started again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from coterie.demo.processes import DemoError, Processes

READY = {False: "listening on ", True: "bootstrap.servers="}
ALONE_SETTINGS = {"group.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "8"}
# A producer with acks=all has its record on two brokers: no acknowledged record is lost with one of them.
CLUSTER_SETTINGS = {**ALONE_SETTINGS, "min.insync.replicas": "2"}


class DemoBrokers:
    """``count`` brokers; their data is kept in ``data``. Start them once."""

    def __init__(self, processes: Processes, data: Path, count: int) -> None:
        self._processes, self.data, self.count = processes, data, count
        self._pids: dict[int, int] = {}

    @property
    def in_cluster(self) -> bool:
        return self.count > 1

    async def start(self) -> str:
        """The addresses, as clients take them. Raises DemoError."""
        if self.in_cluster:
            arguments = ["cluster", "start", "--brokers", str(self.count), "--port", "0"]
        else:
            arguments = ["broker", "--listen", "127.0.0.1:0"]
        arguments += ["--data", str(self.data)]
        for name, value in (CLUSTER_SETTINGS if self.in_cluster else ALONE_SETTINGS).items():
            arguments += ["--set", f"{name}={value}"]
        process = await self._processes.start("broker", "-m", "coterie", *arguments, piped=True)
        assert process.stdout is not None
        line, ready = (await process.stdout.readline()).decode().strip(), READY[self.in_cluster]
        if not line.startswith(ready):
            raise DemoError(f"the broker did not start: {self._processes.log_tail('broker')}")
        if self.in_cluster:
            await self._learn_pids()
        return line.removeprefix(ready)

    async def _learn_pids(self) -> None:
        described = json.loads(await self._run("describe", "--json"))
        self._pids = {row["broker"]: row["pid"] for row in described["brokers"]}

    async def _run(self, verb: str, *options: str) -> str:
        """What `coterie cluster VERB` writes. Raises DemoError."""
        name = f"cluster-{verb}"
        arguments = ["-m", "coterie", "cluster", verb, "--data", str(self.data), *options]
        process = await self._processes.start(name, *arguments, piped=True)
        assert process.stdout is not None
        output = (await process.stdout.read()).decode()
        if await process.wait():
            raise DemoError(f"coterie cluster {verb} failed: {self._processes.log_tail(name)}")
        return output

    def kill(self, broker: int) -> None:
        """SIGKILL."""
        os.kill(self._pids.pop(broker), signal.SIGKILL)

    async def restart(self) -> None:
        """Starts what was killed, with its data; returns once it has joined. Raises DemoError."""
        await self._run("start", "--detach")
        await self._learn_pids()
