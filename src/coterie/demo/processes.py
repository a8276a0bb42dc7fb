"""The demo's processes, and of them its broker or its cluster by `coterie cluster start`. They are started in sessions of
their own, so that Ctrl-C reaches only the demo, which ends them in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

BROKER_STOP_S = 120.0
READY = {False: "listening on ", True: "bootstrap.servers="}
ALONE_SETTINGS = {"group.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "8"}
# A producer with acks=all has its record on two brokers: no acknowledged record is lost with one of them.
CLUSTER_SETTINGS = {**ALONE_SETTINGS, "min.insync.replicas": "2"}


class DemoError(RuntimeError):
    """The demo cannot continue; the message has the reason."""


class Processes:
    """All that was started; `stop_all` leaves none behind."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str, *args: str, piped: bool = False) -> asyncio.subprocess.Process:
        """Runs `python ARGS`; its stderr (and its stdout unless ``piped``) goes to LOGS/NAME.log."""
        log = os.open(self._logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if piped else log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._running[name] = process
        return process

    def log_tail(self, name: str, lines: int = 5) -> str:
        path = self._logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash."""
        self._running[name].kill()

    def terminate(self, name: str) -> None:
        """SIGTERM, for a process that goes on to an end of its own."""
        self._running[name].terminate()

    async def stop(self, name: str, patience_s: float = 15.0) -> int:
        """SIGTERM, and SIGKILL to its whole session if it does not end in time; returns the exit code."""
        process = self._running.pop(name, None)
        if process is None:
            return 0
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience_s):
                return await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return await process.wait()

    async def stop_all(self) -> None:
        # The broker last: the others still commit and leave. A cluster stops one broker after another.
        others = [name for name in self._running if name != "broker"]
        await asyncio.gather(*(self.stop(name, 5.0) for name in others))
        await self.stop("broker", BROKER_STOP_S)

    def ended(self, name: str) -> int | None:
        """The exit code of a process that ended by itself."""
        process = self._running.get(name)
        return None if process is None else process.returncode


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
