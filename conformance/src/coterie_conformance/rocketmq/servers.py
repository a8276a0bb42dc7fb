"""The real RocketMQ from Maven Central: a name server and brokers on loopback, and four of our consumers, one of them killed.

Needs a Java (a JDK for the strategies) and Maven on the PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie.rocketmq.allocation import MessageQueue, averagely
from coterie_conformance.rocketmq.client import RocketMQError, RocketMQProducer
from coterie_conformance.servers.kafka import CannotRun, end, free_port, maven_jars, wait_for_port

# The last of the articles' days, and the newest of which every part is in Maven Central.
VERSIONS = ("4.9.5", "5.5.0")
QUEUES, MESSAGES, CONSUMERS = 8, 800, 4
PATIENCE_S = 60.0
_QUIET = '<configuration><root level="OFF"/></configuration>\n'
# The JDK's packages that RocketMQ's own start scripts open.
_OPENS = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")


def jars(version: str) -> Path:
    """Raises CannotRun."""
    parts = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client")
    return maven_jars(f"rocketmq-{version}", [("org.apache.rocketmq", part, version) for part in parts])


@dataclass(frozen=True, slots=True)
class Running:
    """A name server and the brokers that are registered there, each as HOST:PORT."""

    name_server: str
    brokers: dict[str, str]


@contextlib.contextmanager
def running(version: str, folder: Path, brokers: int = 2) -> Iterator[Running]:
    """Started, ready, and ended. Raises CannotRun."""
    lib = jars(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf").mkdir()
    for what in ("namesrv", "broker"):  # 4.9 does not start without
        (folder / "conf" / f"logback_{what}.xml").write_text(_QUIET)
    processes: list[subprocess.Popen[bytes]] = []
    name_server, log = free_port(), folder / "rocketmq.log"

    def start(main: str, name: str, lines: dict[str, object], memory_mib: int) -> None:
        config = folder / f"{name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
        command = ["java", f"-Xmx{memory_mib}m", *opens, f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
        command += ["-cp", f"{lib}/*", main, "-c", str(config)]
        with log.open("ab") as out:
            processes.append(subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder))

    try:
        listen = {"listenPort": name_server, "bindAddress": "127.0.0.1"}
        start("org.apache.rocketmq.namesrv.NamesrvStartup", "namesrv", listen, 256)
        wait_for_port(name_server, processes, log)
        addresses: dict[str, str] = {}
        for number in range(brokers):
            name, port = f"broker-{number}", _free_ports()
            lines = {
                "brokerName": name,
                "brokerId": 0,
                "namesrvAddr": f"127.0.0.1:{name_server}",
                "brokerIP1": "127.0.0.1",
                "bindAddress": "127.0.0.1",
                "listenPort": port,
                "storePathRootDir": folder / name,
                "storePathCommitLog": folder / name / "commitlog",
                "mappedFileSizeCommitLog": 16_777_216,
                "enableControllerMode": "false",
                "timerWheelEnable": "false",
            }
            start("org.apache.rocketmq.broker.BrokerStartup", name, lines, 512)
            addresses[name] = f"127.0.0.1:{port}"
        for address in addresses.values():
            wait_for_port(int(address.rpartition(":")[2]), processes, log)
        yield Running(f"127.0.0.1:{name_server}", addresses)
    finally:
        end(processes)


def _free_ports() -> int:
    """A port of which the ones two below and one above are free as well: RocketMQ takes those too."""
    import socket

    for _ in range(100):
        port = free_port()
        try:
            with contextlib.ExitStack() as stack:
                for near in (port - 2, port, port + 1):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", near))
            return port
        except OSError:
            continue
    raise CannotRun("no ports are free")


class Worker:
    """One of our consumers in a process of its own (`rocketmq_worker`), and its reports."""

    def __init__(self, name_server: str, group: str, topic: str, client_id: str, *, orderly: bool) -> None:
        command = [sys.executable, "-m", "coterie_conformance.rocketmq.worker", name_server, group, topic, client_id]
        self.client_id = client_id
        self.process = subprocess.Popen(
            [*command, "orderly" if orderly else "concurrently"], stdout=subprocess.PIPE, text=True
        )
        self.queues: list[MessageQueue] = []
        self.read: list[tuple[MessageQueue, int]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = json.loads(line)
            self.read += [(MessageQueue(*queue), offset) for queue, offset in report["read"]]
            self.queues = [MessageQueue(*queue) for queue in report["queues"]]


@dataclass(slots=True)
class RocketMQStory:
    """The result of four consumers of which one was killed. ``gap_ms``: from the kill until all queues had owners again."""

    wrong: list[str] = field(default_factory=list)
    gap_ms: int = 0
    delivered: int = 0
    twice: int = 0


def four_consumers(cluster: Running, *, orderly: bool, topic: str) -> RocketMQStory:
    """Shares by the strategy, every message once but for the killed one's unpersisted offsets."""
    return asyncio.run(_four_consumers(cluster, topic, orderly=orderly))


async def _four_consumers(cluster: Running, topic: str, *, orderly: bool) -> RocketMQStory:
    story = RocketMQStory()
    workers: list[Worker] = []
    async with RocketMQProducer(cluster.name_server) as producer:
        queues = await _make_topic(producer, cluster, topic)
        try:
            workers += [
                Worker(cluster.name_server, f"{topic}-group", topic, f"c{n}", orderly=orderly) for n in range(CONSUMERS)
            ]
            await _shares(workers, queues, story, "at first")
            for number in range(MESSAGES):
                await producer.send(queues[number % len(queues)], b"%d" % number)
            await _read(workers, MESSAGES, story)
            killed, left = workers[1], [w for w in workers if w is not workers[1]]
            begin_s = time.monotonic()
            killed.process.send_signal(signal.SIGKILL)
            await _shares(left, queues, story, "after a kill")
            story.gap_ms = int((time.monotonic() - begin_s) * 1000)
            for number in range(MESSAGES):
                await producer.send(queues[number % len(queues)], b"%d" % number)
            await _read(workers, 2 * MESSAGES, story)
            _judge(workers, killed, story)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()
    return story


async def _make_topic(producer: RocketMQProducer, cluster: Running, topic: str) -> list[MessageQueue]:
    for address in cluster.brokers.values():
        await producer.create_topic(address, topic, QUEUES // len(cluster.brokers))

    async def queues() -> list[MessageQueue]:
        with contextlib.suppress(RocketMQError):
            return sorted(await producer.queues(topic))
        return []

    end_s = time.monotonic() + PATIENCE_S
    while len(created := await queues()) < QUEUES and time.monotonic() < end_s:
        await asyncio.sleep(0.2)
    return created


async def _until(what: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    end_s = time.monotonic() + patience_s
    while not what() and time.monotonic() < end_s:
        await asyncio.sleep(0.02)
    return what()


async def _shares(workers: list[Worker], queues: list[MessageQueue], story: RocketMQStory, when: str) -> None:
    clients = sorted(w.client_id for w in workers)
    wanted = {c: averagely(c, queues, clients) for c in clients}
    patience_s = 2 * PATIENCE_S  # an orderly one waits for locks that outlive the killed one by a minute
    if not await _until(lambda: all(w.queues == wanted[w.client_id] for w in workers), patience_s):
        story.wrong.append(
            f"{when}: { ({w.client_id: len(w.queues) for w in workers}) } is not the strategy's allocation"
        )


async def _read(workers: list[Worker], count: int, story: RocketMQStory) -> None:
    def distinct() -> int:
        return len({item for w in workers for item in w.read})

    if not await _until(lambda: distinct() >= count):
        story.wrong.append(f"{distinct()} of {count} messages were delivered")


def _judge(workers: list[Worker], killed: Worker, story: RocketMQStory) -> None:
    every = [item for w in workers for item in w.read]
    story.delivered, story.twice = len(set(every)), len(every) - len(set(every))
    first = set(killed.read)
    for worker in workers:
        again = len(worker.read) - len(set(worker.read))
        if again:
            story.wrong.append(f"{worker.client_id} was given {again} messages twice")
    unexplained = story.twice - sum(1 for w in workers if w is not killed for item in w.read if item in first)
    if unexplained > 0:
        story.wrong.append(f"{unexplained} messages came twice that the killed one had not read")
