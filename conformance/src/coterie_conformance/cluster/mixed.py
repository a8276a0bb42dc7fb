"""A cluster of Apache Kafka's and coterie's brokers on one ZooKeeper, as processes, and what ZooKeeper has of it."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from coterie.client import Admin
from coterie.controller import nodes
from coterie.pipeline.session import JavaMissing
from coterie.replication.states import PartitionState, TopicPartition
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.text.addresses import format_address
from coterie.zookeeper import paths
from coterie.zookeeper.operations import List, Read, Znode
from coterie_conformance.servers.coterie_process import COMMAND, CoterieBroker
from coterie_conformance.servers.kafka import CannotRun, KafkaBroker

_SESSION_MS, _CONNECT_MS = 30_000, 20_000
VERSION = "2.6.3"  # the last whose brokers are run here on ZooKeeper
HEAP = "256m"
TICK_MS = 1_000  # ZooKeeper's: a session may have 2 to 20 of them
PATIENCE_S = 180.0  # a machine with other work takes its time
LOOK_EVERY_S = 0.2
# Of every broker. Timeouts are shorter than Kafka's defaults, so that a failure is noticed in seconds; on a busy machine a JVM
# that starts is silent for longer than 6 s.
SETTINGS = {
    "zookeeper.session.timeout.ms": "12000",
    "replica.lag.time.max.ms": "10000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "inter.broker.protocol.version": "2.6",
}
T = TypeVar("T")


class ZooKeeperView:
    """``zookeeper``: HOST:PORT. A session of the judge's own; its methods may be called from any thread."""

    def __init__(self, zookeeper: str) -> None:
        self._session = ZooKeeperSession(connect(zookeeper, _SESSION_MS, _CONNECT_MS), lambda _: None, lambda _: None)

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def _read(self, path: str) -> str | None:
        node = self._session.apply(Read(path))
        return node.data if isinstance(node, Znode) else None

    def controller(self) -> int | None:
        """The broker in office, or the last one while its session lives; None between two."""
        data = self._read(nodes.CONTROLLER)
        return None if data is None else int(json.loads(data)["brokerid"])

    def names(self, path: str) -> list[str]:
        """The names of the nodes below that one."""
        names = self._session.apply(List(path))
        assert isinstance(names, list)
        return names

    def is_registered(self, broker_id: int) -> bool:
        """Whether the broker's session lives."""
        return self._read(paths.broker(broker_id)) is not None

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Partition -> replicas; empty for a topic that is not there."""
        data = self._read(paths.topic(topic))
        return {} if data is None else nodes.replicas_of(data)

    def state(self, partition: TopicPartition) -> PartitionState | None:
        """Leader, epoch and ISR."""
        node = self._session.apply(Read(paths.partition_state(*partition)))
        replicas = self.assignment(partition[0]).get(partition[1], ())
        return nodes.state_of(node, replicas) if isinstance(node, Znode) else None

    def leader(self, partition: TopicPartition) -> int | None:
        """None where there is no leader that is registered."""
        state = self.state(partition)
        return state.leader if state is not None and self.is_registered(state.leader) else None

    def is_whole(self) -> bool:
        """Whether there is a controller, and each replica of each topic is in sync."""
        return self.controller() is not None and all(map(self.are_in_sync, self.names(paths.TOPICS)))

    def are_in_sync(self, topic: str) -> bool:
        """Whether each partition has all its replicas in the ISR."""
        states = [self.state((topic, number)) for number in self.assignment(topic)]
        return bool(states) and all(state is not None and set(state.isr) == set(state.replicas) for state in states)


class NotInTime(RuntimeError):
    """The cluster has not come to a state in which a check waits for it; names the state."""


def in_turn(brokers: Sequence[int], partitions: int) -> dict[int, list[int]]:
    """Replicas on all of these brokers by partition; each broker in turn is the preferred leader."""
    starts = [number % len(brokers) for number in range(partitions)]
    return {number: [*brokers[start:], *brokers[:start]] for number, start in enumerate(starts)}


async def wait_until(
    done: Callable[[], object] | Callable[[], Awaitable[object]],
    description: str | Callable[[], str],
    patience_s: float = PATIENCE_S,
) -> None:
    """Returns once ``done()`` is true. Raises NotInTime."""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                result = done()
                if await result if inspect.isawaitable(result) else result:
                    return
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        text = description() if callable(description) else description
        raise NotInTime(f"not within {patience_s:g} s: {text}") from None


def exceptions_in(log: str) -> list[str]:
    """The last line of each traceback."""
    ends = list[str]()
    for traceback in log.split("Traceback (most recent call last):")[1:]:
        lines = traceback.lstrip("\n").splitlines()
        ends.append(next((line for line in lines if line[:1] not in ("", " ")), "a traceback"))
    return ends


class BrokerKind(Enum):
    """Whose broker."""

    COTERIE = "coterie"
    KAFKA = "Apache Kafka"


@dataclass(slots=True)
class MixedBroker:
    """One of the brokers. ``log_dirs``: the folders of its partitions' folders."""

    broker_id: int
    kind: BrokerKind
    process: KafkaBroker | CoterieBroker
    log_dirs: tuple[Path, ...]
    is_running: bool = False

    def log_folder(self, partition: str) -> Path:
        """``partition``: such as orders-0. In the first log directory where it is in none."""
        folders = [directory / partition for directory in self.log_dirs]
        return next((folder for folder in folders if folder.is_dir()), folders[0])

    def __str__(self) -> str:
        return f"broker {self.broker_id} ({self.kind.value})"


class MixedCluster(ZooKeeperView):
    """Use `mixed_cluster`. ``settings``: of every broker, beside `SETTINGS`; ``log_dirs``: how many Apache Kafka's have;
    ``command``: of coterie's brokers."""

    def __init__(
        self,
        folder: Path,
        zookeeper: LocalZooKeeper,
        settings: Mapping[str, str],
        heap: str,
        *,
        log_dirs: int = 1,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.folder, self._zookeeper, self._heap, self._log_dirs = folder, zookeeper, heap, log_dirs
        self._settings = {**SETTINGS, **settings, "zookeeper.connect": zookeeper.address}
        self._command = command
        self.brokers: dict[int, MixedBroker] = {}
        super().__init__(zookeeper.address)

    def add(self, broker_id: int, kind: BrokerKind) -> MixedBroker:
        """A further broker, started. Raises CannotRun."""
        folder = self.folder / f"broker-{broker_id}"
        settings = {**self._settings, "broker.id": str(broker_id)}
        log_dirs = [folder / "data"]
        process: KafkaBroker | CoterieBroker
        if kind is BrokerKind.KAFKA:
            log_dirs += [folder / f"data-{number}" for number in range(2, self._log_dirs + 1)]
            settings["log.dirs"] = ",".join(map(str, log_dirs))
            process = KafkaBroker(VERSION, folder, settings, heap=self._heap)
        else:
            process = CoterieBroker(folder / "data", settings, self._command)
        self.brokers[broker_id] = MixedBroker(broker_id, kind, process, tuple(log_dirs))
        self.start(broker_id)
        return self.brokers[broker_id]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers: some may be down."""
        return ",".join(format_address(*broker.process.address) for broker in self.brokers.values())

    def running(self) -> list[int]:
        """The ids of the brokers whose processes run."""
        return [broker.broker_id for broker in self.brokers.values() if broker.is_running]

    async def ask_each(self, request: Callable[[Admin], Awaitable[T]]) -> AsyncIterator[tuple[MixedBroker, T]]:
        """The result of ``request`` at each running broker in turn. Raises KafkaError."""
        for broker_id in self.running():
            broker = self.brokers[broker_id]
            async with Admin({"bootstrap.servers": format_address(*broker.process.address)}) as admin:
                result = await request(admin)
            yield broker, result

    # -- what happens to a broker ---------------------------------------------------------------------------------------

    def start(self, broker_id: int) -> None:
        """Apache Kafka 2.6 ends at once where the session of its former process lives: it is waited for. Raises CannotRun."""
        ends_s = time.monotonic() + PATIENCE_S
        while self.is_registered(broker_id) and time.monotonic() < ends_s:
            time.sleep(LOOK_EVERY_S)
        self.brokers[broker_id].process.start()
        self.brokers[broker_id].is_running = True

    def kill(self, broker_id: int) -> None:
        """SIGKILL: ZooKeeper notices after zookeeper.session.timeout.ms."""
        self.brokers[broker_id].is_running = False
        self.brokers[broker_id].process.kill()

    def stop(self, broker_id: int) -> None:
        """SIGTERM: a controlled shutdown."""
        self.brokers[broker_id].is_running = False
        self.brokers[broker_id].process.stop()

    def restore(self) -> None:
        """All of them run, also after a check that has failed. Raises CannotRun."""
        for broker in self.brokers.values():
            if broker.is_running:
                broker.process.resume()
            else:
                self.start(broker.broker_id)

    def tracebacks(self) -> list[str]:
        """The exceptions in the logs of coterie's brokers, each as the line that names it."""
        lines = list[str]()
        for broker in self.brokers.values():
            if isinstance(broker.process, CoterieBroker):
                log = broker.process.log.read_text(errors="replace")
                lines += [f"{broker} logged {line}" for line in exceptions_in(log)]
        return lines

    def close(self) -> None:
        """All of them, and the judge's own session."""
        for broker in self.brokers.values():
            if broker.is_running:
                with suppress(ProcessLookupError):
                    broker.process.resume()
                self.kill(broker.broker_id)
        super().close()


async def until_all_know_each_other(cluster: MixedCluster) -> None:
    """Each broker describes the same brokers and the same controller. Raises NotInTime with a description that differs."""
    wanted, last = set(cluster.running()), ""

    async def do_know() -> bool:
        nonlocal last
        async for broker, description in cluster.ask_each(Admin.describe_cluster):
            last = f"all know each other; {broker} describes {description}"
            controller = description.controller
            if {node.id for node in description.nodes} != wanted or controller is None:
                return False
            if controller.id != cluster.controller():
                return False
        return True

    await wait_until(do_know, lambda: last)


@contextmanager
def mixed_cluster(
    folder: Path,
    kinds: Mapping[int, BrokerKind],
    settings: Mapping[str, str] | None = None,
    *,
    heap: str = HEAP,
    log_dirs: int = 1,
    command: Sequence[str] = COMMAND,
) -> Iterator[MixedCluster]:
    """A cluster of these brokers, started in that order, so that the first is the controller, once all know each other.
    Apache Kafka's have ``heap`` as Java's -Xmx and that many ``log_dirs``; coterie's begin with ``command``. Raises CannotRun,
    NotInTime, KafkaError."""
    with ExitStack() as stack:
        try:
            zookeeper = stack.enter_context(LocalZooKeeper(folder / "zookeeper", TICK_MS))
        except (JavaMissing, RuntimeError) as error:
            raise CannotRun(str(error)) from error
        cluster = MixedCluster(folder, zookeeper, settings or {}, heap, log_dirs=log_dirs, command=command)
        stack.callback(cluster.close)
        for broker_id, kind in kinds.items():
            cluster.add(broker_id, kind)
        with ThreadPoolExecutor(1) as thread:  # a loop may be running in this one
            thread.submit(asyncio.run, until_all_know_each_other(cluster)).result()
        yield cluster
