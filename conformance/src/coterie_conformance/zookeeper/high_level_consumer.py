"""Our ZooKeeper consumer in one group with Apache Kafka's own: the Java high-level consumer of 1.1.1, the last but one
line that has it, on a Kafka 1.1.1 broker and on coterie's, with a real ZooKeeper.

They share partitions out by what each computes for itself, wait for each other's releases, and go on from each other's
offsets; Kafka's own tool reads what ours wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from coterie.client import Admin, KafkaError, NewTopic, Producer
from coterie.client.types import TopicPartition
from coterie.client.zookeeper.zookeeper_groups import GroupInZooKeeper, ZooKeeperGroups
from coterie.pipeline.session import JavaMissing
from coterie.testing.local_broker import LocalBroker
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.zookeeper.assignment import share, threads_by_topic
from coterie_conformance.servers.kafka import CannotRun, end, free_port, jars, wait_for_port

KAFKA = "1.1.1"
TOPIC, GROUP, PARTITIONS, RECORDS = "t", "g", 5, 1_000
SESSION_MS = 4_000
PATIENCE_S = 40.0


def java(main: str, *args: str) -> list[str]:
    """The command line of a class of that Kafka."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx512m", quiet, "-cp", f"{jars(KAFKA)}/*", main, *args]


class Together:
    """The group and what it was given. Lines of both consumers are their records' values."""

    def __init__(self, folder: Path, zookeeper: str, bootstrap: str) -> None:
        self.folder, self.zookeeper, self.bootstrap = folder, zookeeper, bootstrap
        self._processes: list[subprocess.Popen[bytes]] = []
        self._files: list[Path] = []
        self._sent = 0

    def start_theirs(self, *, first: bool) -> subprocess.Popen[bytes]:
        """Kafka's console refuses to begin at the beginning where the group has offsets."""
        words = ["--zookeeper", self.zookeeper, "--topic", TOPIC, *(["--from-beginning"] if first else [])]
        for setting in (
            f"group.id={GROUP}",
            "auto.commit.interval.ms=300",
            f"zookeeper.session.timeout.ms={SESSION_MS}",
            "rebalance.max.retries=10",
        ):
            words += ["--consumer-property", setting]
        return self._start("theirs", java("kafka.tools.ConsoleConsumer", *words))

    def start_ours(self) -> subprocess.Popen[bytes]:
        """Starts our consumer, of two streams, in a process of its own."""
        words = [
            "consume",
            TOPIC,
            "--zookeeper",
            self.zookeeper,
            "--group",
            GROUP,
            "--streams",
            "2",
            "--from-beginning",
        ]
        for setting in (
            "auto.commit.interval.ms=300",
            f"zookeeper.session.timeout.ms={SESSION_MS}",
            "rebalance.max.retries=10",
        ):
            words += ["--set", setting]
        return self._start("ours", [sys.executable, "-m", "coterie", *words])

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        path = self.folder / f"{name}-{len(self._files)}.txt"
        self._files.append(path)
        with path.open("wb") as out, (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=out, stderr=log, stdin=subprocess.DEVNULL)
        self._processes.append(process)
        return process

    def close(self) -> None:
        end([p for p in self._processes if p.poll() is None])

    def group(self) -> GroupInZooKeeper:
        with ZooKeeperGroups(self.zookeeper) as groups:
            return groups.read(GROUP)

    def send(self) -> None:
        """More records, numbered on."""

        async def work() -> None:
            async with Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": False}) as producer:
                for number in range(self._sent, self._sent + RECORDS):
                    await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)

        asyncio.run(work())
        self._sent += RECORDS

    def wrong_delivery(self, may_repeat: bool = False) -> str:
        """Waits for everything sent so far; what is missing, or came twice though it must not."""

        def got() -> list[str]:
            return [line for path in self._files for line in path.read_text().split()]

        _until(lambda: len(set(got())) >= self._sent)
        lines = got()
        if len(set(lines)) != self._sent:
            return f"{len(set(lines))} of {self._sent} records were delivered"
        twice = len(lines) - len(set(lines))
        return f"{twice} records came twice" if twice and not may_repeat else ""

    def wrong_share(self, name: str) -> str:
        """Whether a consumer was given anything at all."""
        return "" if (self.folder / name).read_text().split() else f"{name} is empty"

    def wrong_owners(self, members: int) -> str:
        """Waits until every partition has an owner; returns the difference from the rule's assignment for its registrations."""

        def settled() -> bool:
            with contextlib.suppress(KafkaError):
                group = self.group()
                return len(group.members) == members and self._differs(group) == ""
            return False

        _until(settled)
        group = self.group()
        if len(group.members) != members:
            return f"{len(group.members)} members are registered, not {members}"
        return self._differs(group)

    @staticmethod
    def _differs(group: GroupInZooKeeper) -> str:
        threads = threads_by_topic(group.members).get(TOPIC, [])
        wanted = {(TOPIC, p): thread for thread in threads for p in share(range(PARTITIONS), threads, thread)}
        return "" if group.owners == wanted else f"owners are {group.owners}, by the rule {wanted}"

    def wrong_tool(self) -> str:
        """The owners by Kafka's own tool, beside the nodes; returns the difference."""
        command = java(
            "kafka.admin.ConsumerGroupCommand", "--zookeeper", self.zookeeper, "--describe", "--group", GROUP
        )
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
        rows = [line.split() for line in output.splitlines() if line.startswith(f"{TOPIC} ")]
        owners = {TopicPartition(row[0], int(row[1])): row[-1] for row in rows}
        ours = {where: owner.rpartition("-")[0] for where, owner in self.group().owners.items()}
        same = {where: ours[where].startswith(name) or name.startswith(ours[where]) for where, name in owners.items()}
        return "" if len(owners) == PARTITIONS and all(same.values()) else f"by the tool {owners}, the nodes {ours}"


def _until(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not what() and time.monotonic() < end_s:
        time.sleep(0.1)


@contextlib.contextmanager
def local_zookeeper(folder: Path) -> Iterator[str]:
    """The address of a ZooKeeper for the length of a with-block. Raises CannotRun."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        zookeeper = LocalZooKeeper(folder).start()
    except (JavaMissing, RuntimeError) as reason:
        raise CannotRun(str(reason)) from reason
    try:
        yield zookeeper.address
    finally:
        zookeeper.stop()


@contextlib.contextmanager
def _kafka(folder: Path, zookeeper: str) -> Iterator[str]:
    """Kafka's bootstrap server, registered in that ZooKeeper."""
    port, log = free_port(), folder / "kafka.log"
    (folder / "server.properties").write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect={zookeeper}\n"
        f"log.dirs={folder / 'data'}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
    )
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as out:
            command = java("kafka.Kafka", str(folder / "server.properties"))
            processes.append(subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL))
        wait_for_port(port, processes, log)
        yield f"127.0.0.1:{port}"
    finally:
        end(processes)


@contextlib.contextmanager
def _coterie(folder: Path, zookeeper: str) -> Iterator[str]:
    """The same of coterie's broker."""
    with LocalBroker({"zookeeper.connect": zookeeper}) as broker:
        yield broker.bootstrap_servers


BROKERS = {f"Kafka {KAFKA}": _kafka, "coterie": _coterie}


@contextlib.contextmanager
def _running(folder: Path, broker: str) -> Iterator[Together]:
    """A ZooKeeper, one of `BROKERS`, and a topic."""
    folder.mkdir(parents=True, exist_ok=True)
    with local_zookeeper(folder / "zookeeper") as zookeeper, BROKERS[broker](folder, zookeeper) as bootstrap:
        asyncio.run(_create(bootstrap))
        together = Together(folder, zookeeper, bootstrap)
        try:
            yield together
        finally:
            together.close()


async def _create(bootstrap: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with Admin({"bootstrap.servers": bootstrap}) as admin:
                await admin.each.create_topics([NewTopic(TOPIC, PARTITIONS, replication_factor=1)])[TOPIC]
                return
        except KafkaError as error:
            if time.monotonic() > end_s:
                raise CannotRun(f"Kafka {KAFKA} would not create a topic: {error}") from error
            await asyncio.sleep(0.5)


def run_checks(folder: Path, broker: str, report: Callable[[str, str], None]) -> dict[str, bool]:
    """Each check on one of `BROKERS` with whether it was right; ``report`` is called with its name and the problem. Raises
    CannotRun."""
    agreed: dict[str, bool] = {}

    def check(name: str, wrong: str) -> None:
        agreed[name] = not wrong
        report(name, wrong)

    with _running(folder, broker) as group:
        theirs = group.start_theirs(first=True)
        check("theirs alone owns every partition", group.wrong_owners(1))
        group.start_ours()
        check("ours joins, and both own their shares by the rule", group.wrong_owners(2))
        group.send()
        check("every record is delivered to one of them", group.wrong_delivery())
        check("Kafka's own tool reads our owners", group.wrong_tool())
        time.sleep(1)  # three commits
        theirs.send_signal(signal.SIGKILL)
        theirs.wait()
        check("theirs is killed, and ours owns everything", group.wrong_owners(1))
        group.send()
        check("ours goes on from their offsets", group.wrong_delivery())
        time.sleep(1)
        group.start_theirs(first=False)
        check("theirs comes back, and both own their shares by the rule", group.wrong_owners(2))
        group.send()
        check("theirs goes on from our offsets", group.wrong_delivery() or group.wrong_share("theirs-2.txt"))
    return agreed
