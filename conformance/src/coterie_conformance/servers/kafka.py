"""The real Apache Kafka from Maven Central: jars fetched once, brokers started on loopback and ended by who started them.

Needs a Java (11 or newer) and Maven on the PATH; `CannotRun` names what is missing.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie_conformance.servers.skipped_markers import OPTION as MARKERS_IN_LOG
from coterie_conformance.servers.skipped_markers import skipped_markers

# 2.6: the last with the article's code, on ZooKeeper; 3.9: the last of the Scala coordinator; 4.3: the Java one before a target
# of an emptied group had its epoch; the newest.
VERSIONS = ("2.6.3", "3.9.1", "4.3.0", "4.4.0")
# The first versions of old protocols: 0.11 has the first record batches and transactions, 1.1 the first DeleteGroups.
OLDER_VERSIONS = ("0.11.0.3", "1.1.1")
EVERY_VERSION = (*OLDER_VERSIONS, *VERSIONS)
# Kafka has slf4j-api 1.7 to this day, which ignores a provider of 2.0.
SIMPLE_LOGGER = ("org.slf4j", "slf4j-simple", "1.7.36")
_LOG4J = f"-Dlog4j.configuration={Path(__file__).with_name('log4j.properties').as_uri()}"
START_S = 90.0
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>coterie</groupId><artifactId>{name}</artifactId><version>1</version><dependencies>{wanted}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"


class CannotRun(RuntimeError):
    """A requirement of the real Kafka is not here; the message has the remedy."""


def jars(version: str) -> Path:
    """The folder of that version's jars, fetched with Maven the first time. Raises CannotRun."""
    scala = "2.12" if version in OLDER_VERSIONS else "2.13"
    wanted = [("org.apache.kafka", f"kafka_{scala}", version), SIMPLE_LOGGER]
    if not on_zookeeper(version):
        wanted.append(("org.apache.kafka", "kafka-tools", version))
    if version.startswith("0."):
        wanted.append(("javax.xml.bind", "jaxb-api", "2.3.1"))  # was part of Java until 10
    folder = maven_jars(f"kafka-{version}", wanted)
    for other in folder.glob("slf4j-*4j*.jar"):
        if not other.name.startswith(("slf4j-simple", "slf4j-api")):
            other.unlink()  # one logging back end is enough
    return folder


def maven_jars(name: str, wanted: Sequence[tuple[str, str, str]]) -> Path:
    """The folder of these (group, artifact, version) and all they need, fetched the first time, and where they are others than
    before. Raises CannotRun."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise CannotRun(f"{tool} is not on the PATH; on Debian: apt-get install default-jre-headless maven")
    folder = cache_folder() / name
    pom, text = folder / "pom.xml", _POM.format(name=name, wanted="".join(_DEPENDENCY.format(*w) for w in wanted))
    if pom.exists() and pom.read_text() != text:
        shutil.rmtree(folder)
    if (folder / "complete").exists():
        return folder / "lib"
    folder.mkdir(parents=True, exist_ok=True)  # another process may be fetching them
    pom.write_text(text)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        first = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no reason given")
        raise CannotRun(f"Maven could not fetch {name}: {first}")
    (folder / "complete").touch()
    return folder / "lib"


def cache_folder() -> Path:
    """The folder of what was fetched and built once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie"


def on_zookeeper(version: str) -> bool:
    """Whether that version is started here with a ZooKeeper beside it, rather than with a controller of its own."""
    return int(version.partition(".")[0]) < 3


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def java(version: str, main: str, *args: str, options: tuple[str, ...] = (), heap: str = "1g") -> list[str]:
    """The command line of a class of that Kafka, or of a source file in its classes."""
    return [
        "java",
        f"-Xmx{heap}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *([_LOG4J] if version.startswith("0.") else []),
        *options,
        "-cp",
        f"{jars(version)}/*",
        main,
        *args,
    ]


def _properties(version: str, folder: Path, port: int, settings: Mapping[str, str]) -> dict[str, str]:
    lines = {
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "auto.create.topics.enable": "false",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    if settings.get("process.roles") == "broker":
        return lines | dict(settings)
    if version.startswith("0."):
        lines["delete.topic.enable"] = "true"  # the default from 1.0 on
    if on_zookeeper(version):
        lines |= {"broker.id": "1", "zookeeper.connect": f"127.0.0.1:{free_port()}"}
    else:
        controller = free_port()
        lines |= {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{lines['listeners']},CONTROLLER://127.0.0.1:{controller}",
        }
    return lines | dict(settings)


class KafkaBroker:
    """A real broker, with the ZooKeeper that an older version needs, on an address that stays the same over restarts. Where
    ``settings`` name zookeeper.connect, it is that one, which others may share. ``cpus`` binds its processes to those cores;
    ``heap`` as Java's -Xmx, ``options``: further ones of its JVM. Raises CannotRun."""

    def __init__(
        self,
        version: str,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        cpus: set[int] | None = None,
        heap: str = "1g",
        *,
        cluster_id: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        jars(version)
        folder.mkdir(parents=True, exist_ok=True)
        self.version, self.folder, self._cpus, self._heap = version, folder, cpus, heap
        self._options = (MARKERS_IN_LOG, *options)
        self._has_own_zookeeper = on_zookeeper(version) and "zookeeper.connect" not in (settings or {})
        self.address = "127.0.0.1", free_port()
        self._log, self._config = folder / "kafka.log", folder / "server.properties"
        self._lines = _properties(version, folder, self.address[1], settings or {})
        self._write_config()
        self._cluster_id = cluster_id or base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._zookeeper: list[subprocess.Popen[bytes]] = []
        self._broker: list[subprocess.Popen[bytes]] = []

    def _write_config(self) -> None:
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self._lines.items()))

    def listen_also(self, protocol: str, settings: Mapping[str, str]) -> tuple[str, int]:
        """A further listener, of this protocol, from the next start on; returns its address."""
        port = free_port()
        self._lines |= {**settings, "listeners": f"{self._lines['listeners']},{protocol}://127.0.0.1:{port}"}
        self._write_config()
        return "127.0.0.1", port

    def another(self, node: int, settings: Mapping[str, str]) -> KafkaBroker:
        """One more broker of its cluster, of version 2.6 or newer: start it after this one, and stop it before."""
        if on_zookeeper(self.version):
            own = {"broker.id": str(node), "zookeeper.connect": self.zookeeper_address}
        else:
            own = {"node.id": str(node), "process.roles": "broker"}
            own |= {name: self._lines[name] for name in ("controller.quorum.voters", "controller.listener.names")}
        folder = self.folder.with_name(f"{self.folder.name}-{node}")
        return KafkaBroker(self.version, folder, {**settings, **own}, heap=self._heap, cluster_id=self._cluster_id)

    def start(self) -> None:
        """Returns once the broker answers; after `kill` it is the same broker. Raises CannotRun."""
        if self._has_own_zookeeper:
            self._start_zookeeper()
        elif not on_zookeeper(self.version) and not (self.folder / "data" / "meta.properties").exists():
            self._format()
        command = java(self.version, "kafka.Kafka", str(self._config), options=self._options, heap=self._heap)
        self._broker = [self._run(command)]
        wait_for_port(self.address[1], self._broker, self._log)
        _wait_for_response(self.address, self._log)

    def _start_zookeeper(self) -> None:
        if self._zookeeper:
            return
        port = self._lines["zookeeper.connect"].rpartition(":")[2]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        quiet = ("-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true")
        self._zookeeper = [self._run(java(self.version, main, port, str(self.folder / "zookeeper"), options=quiet))]
        wait_for_port(int(port), self._zookeeper, self._log)

    def _format(self) -> None:
        tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster_id}", "-c", str(self._config))
        with self._log.open("ab") as out:
            subprocess.run(java(self.version, *tool), stdout=out, stderr=out, check=True)

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=self.folder)
        if self._cpus is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, self._cpus)
        return process

    @property
    def zookeeper_address(self) -> str:
        """HOST:PORT of the ZooKeeper that an older version registers in."""
        return self._lines["zookeeper.connect"]

    def skipped_markers(self) -> int:
        """Of how many transactions it has lost the markers."""
        return skipped_markers(self._log.read_text(errors="replace"))

    @property
    def pid(self) -> int:
        """The broker's process, once it is started."""
        return self._broker[0].pid

    def kill(self) -> None:
        """SIGKILL to the broker; its ZooKeeper stays."""
        for process in self._broker:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """SIGSTOP to the broker."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """After `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._broker:
            process.send_signal(number)

    def stop(self) -> None:
        """In order, with the ZooKeeper."""
        end(self._zookeeper + self._broker)


@contextlib.contextmanager
def running_broker(
    version: str, folder: Path, settings: Mapping[str, str] | None = None, cpus: set[int] | None = None
) -> Iterator[KafkaBroker]:
    """A real broker for the length of a with-block; arguments as for `KafkaBroker`. Raises CannotRun."""
    broker = KafkaBroker(version, folder, settings, cpus)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@contextlib.contextmanager
def running(
    version: str, folder: Path, settings: Mapping[str, str] | None = None, cpus: set[int] | None = None
) -> Iterator[tuple[str, int]]:
    """The address of a `running_broker`."""
    with running_broker(version, folder, settings, cpus) as broker:
        yield broker.address


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, and SIGKILL where a process does not end by it; the last started goes first."""
    for process in reversed(processes):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_port(port: int, processes: list[subprocess.Popen[bytes]], log: Path) -> None:
    """Until a process listens there. Raises CannotRun where one of the processes has ended, or none listens in time."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if any(p.poll() is not None for p in processes):
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise CannotRun(f"the server did not start; its log is {log}")


def _wait_for_response(address: tuple[str, int], log: Path) -> None:
    """Until it knows itself: metadata with a live broker."""
    from coterie.wire.messages.topics.metadata import MetadataRequest

    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, KafkaError):
            connection = BrokerSocket(*address)
            try:
                if connection.request(MetadataRequest(topics=[])).brokers:
                    return
            finally:
                connection.close()
        time.sleep(0.2)
    raise CannotRun(f"Apache Kafka did not answer; its log is {log}")
