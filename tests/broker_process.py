"""A broker as users have it: `coterie broker` in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class BrokerProcess:
    """A broker in a process of its own, on a port that stays the same over restarts."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data, self.port, self.options = data, free_port(), options
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
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on"), line

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=10) == 0
