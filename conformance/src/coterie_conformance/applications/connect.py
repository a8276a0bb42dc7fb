"""A source connector copies a file's lines to a topic, and sink connectors to files of their own, while workers and the broker
are killed: the topic has each line once, in order, and each sink's file has each line."""

from __future__ import annotations

import asyncio
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.client import Consumer
from coterie.client.blocking import BlockingAdmin
from coterie_conformance.applications.strikes import STRIKE_EVERY_S, ApplicationStrikes, ApplicationVerdict
from coterie_conformance.histories.workload import KillableBroker
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, free_port, maven_jars
from coterie_conformance.servers.programs import JavaProcess

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
_TOPIC = "copied"
_FILE = "org.apache.kafka.connect.file.FileStream"
_WORKERS, _SINKS = 2, 3
_LINES, _WRITTEN_EVERY_S = 20, 0.1
_QUIET_MS, _SETTLED_S, _LOOK_EVERY_S = 5_000, 120.0, 1.0


def _worker_command(version: str) -> list[str]:
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


def judge(
    broker: KillableBroker, version: str, folder: Path, seed: int, *, exactly_once: bool = True
) -> ApplicationVerdict:
    """Runs that version of Kafka Connect on ``broker``, which is started here and stopped. ``exactly_once``: of its source.
    Raises CannotRun, OSError."""
    command = _worker_command(version)
    with ApplicationStrikes(broker, random.Random(seed)) as strikes:
        folders = [folder / f"worker-{n}" for n in range(_WORKERS)]
        workers = [ConnectWorker(command, strikes.server, of, exactly_once=exactly_once) for of in folders]
        strikes.processes |= {f"worker {n}": worker for n, worker in enumerate(workers)}
        return _ConnectStory(strikes, workers, folder).run()


def wrong_copies(count: int, copied: Sequence[str], sinks: Sequence[Sequence[str]]) -> list[str]:
    """What is wrong with ``copied``, the topic's records, and with what the ``sinks`` wrote, of lines 0 to ``count`` - 1."""
    due = [f"line {n}" for n in range(count)]
    wrong = []
    if list(copied) != due:
        wrong.append(
            f"the topic has {len(copied)} records, {len(set(copied))} different, of {count} lines, or another order"
        )
    for number, lines in enumerate(sinks):
        missing = set(due) - set(lines)
        if missing:
            wrong.append(f"sink {number} lacks {len(missing)} of {count} lines, {min(missing)} for one")
    return wrong


@dataclass(slots=True)
class _ConnectStory:
    strikes: ApplicationStrikes
    workers: list[ConnectWorker]
    folder: Path
    count: int = 0
    sinks: list[Path] = field(default_factory=list)

    def run(self) -> ApplicationVerdict:
        with BlockingAdmin({"bootstrap.servers": self.strikes.server}) as admin:
            admin.create_topic(_TOPIC, 1)
        self.strikes.start()
        for worker in self.workers:
            worker.request("/connectors")
        self.sinks = [self.folder / f"sink-{n}.txt" for n in range(_SINKS)]
        self._create_connectors()
        order = self.strikes.order()
        for name in order:
            self._write_for(STRIKE_EVERY_S)
            self.strikes.strike(name)
        self._write_for(STRIKE_EVERY_S)
        sinks = self._settled_sinks()
        wrong = wrong_copies(self.count, asyncio.run(self._copied()), sinks)
        return ApplicationVerdict(order, self.count, tuple(wrong))

    @property
    def _source(self) -> Path:
        return self.folder / "source.txt"

    def _create_connectors(self) -> None:
        self._source.touch()
        self._create("source", f"{_FILE}SourceConnector", self._source, {"topic": _TOPIC})
        for number, path in enumerate(self.sinks):
            self._create(f"sink-{number}", f"{_FILE}SinkConnector", path, {"topics": _TOPIC})

    def _create(self, name: str, connector: str, file: Path, settings: dict[str, Any]) -> None:
        config = {"connector.class": connector, "file": str(file), "tasks.max": "1", **settings}
        self.workers[0].request("/connectors", {"name": name, "config": config})

    def _write_for(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        with self._source.open("a") as file:
            while time.monotonic() < end_s:
                file.writelines(f"line {n}\n" for n in range(self.count, self.count + _LINES))
                file.flush()
                self.count += _LINES
                time.sleep(_WRITTEN_EVERY_S)

    def _settled_sinks(self) -> list[list[str]]:
        """Each sink's lines, once all are there, or after `_SETTLED_S` what there is."""
        deadline_s = time.monotonic() + _SETTLED_S
        while True:
            sinks = [path.read_text().splitlines() if path.exists() else [] for path in self.sinks]
            if all(len(set(lines)) == self.count for lines in sinks) or time.monotonic() > deadline_s:
                return sinks
            time.sleep(_LOOK_EVERY_S)

    async def _copied(self) -> list[str]:
        """The topic's committed records."""
        settings = {
            "bootstrap.servers": self.strikes.server,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        copied: list[str] = []
        async with Consumer(settings) as consumer:
            await consumer.assign([(_TOPIC, 0)])
            while polled := await consumer.poll(_QUIET_MS):
                copied += [(record.value or b"").decode() for records in polled.values() for record in records]
        return copied
