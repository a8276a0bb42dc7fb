"""A broker as users have it: `coterie broker` in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

# Below the ports that systems give to connections (from 32,768 on Linux, 49,152 on macOS), so that no connection takes one.
FIRST_PORT, PORTS_OF_A_WORKER = 11_000, 2_000
_taken = itertools.count(os.getpid())


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, out of a range that no other worker of pytest-xdist has."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for number in itertools.islice(_taken, PORTS_OF_A_WORKER):
        port = FIRST_PORT + worker % 10 * PORTS_OF_A_WORKER + number % PORTS_OF_A_WORKER
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port of this worker's range is in use")


class BrokerProcess:
    """A broker in a process of its own, on a port that stays the same over restarts."""

    def __init__(self, data: Path, *options: str, log: Path | None = None) -> None:
        """``log``: the file for what it writes to standard error; None for this process's own."""
        self.data, self.port, self.options, self.log = data, free_port(), options, log
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        settings = ["group.initial.rebalance.delay.ms=200", "offsets.topic.num.partitions=4", "num.partitions=6"]
        command = [sys.executable, "-m", "coterie", "broker", "--listen", self.address, "--data", str(self.data)]
        command += self.options
        for setting in settings:
            command += ["--set", setting]
        with contextlib.nullcontext() if self.log is None else self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on"), line

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
