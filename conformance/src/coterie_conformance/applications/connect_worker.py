"""A worker of Kafka Connect in distributed mode, with the connectors for files."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from coterie_conformance.servers.java_process import JavaProcess
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, free_port, maven_jars

RESPONSE_S, REQUEST_LIMIT_S, REQUEST_EVERY_S = 20.0, 90.0, 1.0
_STORAGE = {name: f"connect-{name}" for name in ("offset", "config", "status")}
_SETTINGS = {
    "group.id": "connect-cluster",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    **{f"{name}.storage.topic": topic for name, topic in _STORAGE.items()},
    **{f"{name}.storage.replication.factor": "1" for name in _STORAGE},
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "offset.flush.interval.ms": "1000",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "rebalance.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "2000",
}


def worker_command(version: str) -> list[str]:
    """The command of a worker of that version, without its file of settings. Raises CannotRun."""
    wanted = [("org.apache.kafka", name, version) for name in ("connect-runtime", "connect-file")]
    lib = maven_jars(f"kafka-connect-{version}", [*wanted, SIMPLE_LOGGER])
    options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return ["java", *options, "-cp", f"{lib}/*", "org.apache.kafka.connect.cli.ConnectDistributed"]


class ConnectWorker(JavaProcess):
    """Its settings and what it logs are in ``folder``. ``exactly_once``: of its source connectors."""

    def __init__(self, command: list[str], server: str, folder: Path, *, exactly_once: bool) -> None:
        file = folder / "worker.properties"
        super().__init__([*command, str(file)], folder / "worker.log")
        self._port = free_port()
        settings = {
            **_SETTINGS,
            "bootstrap.servers": server,
            "listeners": f"http://127.0.0.1:{self._port}",
            "exactly.once.source.support": "enabled" if exactly_once else "disabled",
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The response of its REST interface, to a POST where there is a ``body``; repeated while it is not ready. Raises
        OSError."""
        data = None if body is None else json.dumps(body).encode()
        deadline_s = time.monotonic() + REQUEST_LIMIT_S
        while True:
            url = f"http://127.0.0.1:{self._port}{path}"
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=RESPONSE_S) as response:
                    return json.load(response)
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(REQUEST_EVERY_S)
