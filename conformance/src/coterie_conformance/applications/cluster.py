"""Three brokers of ours that are killed as one is: each time it is the broker that coordinates the application's group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from coterie.coordinator.partitioning import partition_for
from coterie_conformance.applications.word_counts import APPLICATION
from coterie_conformance.cluster.command_cluster import HOST, CommandCluster, command_cluster
from coterie_conformance.cluster.strikes import OFFSETS_TOPIC
from coterie_conformance.servers.kafka import CannotRun

BROKERS = 3
LIMIT_S, LOOK_EVERY_S = 60.0, 0.1


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
