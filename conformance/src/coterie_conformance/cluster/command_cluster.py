"""Three brokers by `coterie cluster start`, as a user starts them, kills them by their pids, and starts them again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie_conformance.cluster.mixed import ZooKeeperView
from coterie_conformance.servers.kafka import CannotRun

COMMAND = [sys.executable, "-m", "coterie", "cluster"]
LIMIT_S = 240.0
STATE = "cluster.json"  # docs/how-to/run-a-cluster.md
HOST = "127.0.0.1"


class CommandCluster(ZooKeeperView):
    """Use `command_cluster`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        super().__init__(zookeeper_address(data))

    def _state(self) -> dict[str, Any]:
        kept: dict[str, Any] = json.loads((self._data / STATE).read_text("utf-8"))
        return kept

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers: some may be down."""
        return ",".join(f"{HOST}:{port}" for port in self._state()["brokers"].values())

    def ids(self) -> list[int]:
        """The ids of all brokers."""
        return sorted(map(int, self._state()["brokers"]))

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""
        os.kill(self._state()["pids"][str(broker_id)], signal.SIGKILL)

    def start(self, broker_id: int) -> None:
        """With whatever else does not run. Raises CannotRun."""
        start(self._data)


def zookeeper_address(data: Path) -> str:
    """HOST:PORT, of the cluster in a folder."""
    return f"{HOST}:{json.loads((data / STATE).read_text('utf-8'))['zookeeper_port']}"


def start(data: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
    """`coterie cluster start`, returns once each broker knows all of them. ``environment``: added to the judge's own. Raises
    CannotRun."""
    _run("start", "--data", str(data), "--detach", *words, environment=environment)


def stop(data: Path) -> None:
    """Raises CannotRun."""
    _run("stop", "--data", str(data))


def _run(*words: str, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            env=os.environ | dict(environment or {}),
        )
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"coterie cluster {words[0]} has not ended after {LIMIT_S:g} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        raise CannotRun(f"coterie cluster {words[0]} ended with {done.returncode}: {last}")


@contextmanager
def command_cluster(data: Path, brokers: int, settings: Mapping[str, str]) -> Iterator[CommandCluster]:
    """The cluster while it runs. Raises CannotRun."""
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    start(data, "--brokers", str(brokers), "--port", "0", *options)
    try:
        cluster = CommandCluster(data)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        stop(data)
