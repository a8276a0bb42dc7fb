"""The high-level consumer with a real ZooKeeper and real processes: killed, stopped, cut off, given one more partition."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coterie.cli import main
from coterie.client import Admin, KafkaError, Producer, TopicPartition
from coterie.client.zookeeper import ConsumerRebalanceFailed, ZooKeeperConsumer
from coterie.client.zookeeper.zookeeper_groups import ZooKeeperGroups, migrate
from coterie.runtime.zookeeper_session import Unreachable, ZooKeeperSession, connect
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    BadVersion,
    CheckVersion,
    Create,
    Delete,
    List,
    Multi,
    MultiRefused,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Read,
    Write,
    Znode,
)
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess
from tests.cli.json_shapes import documented

pytestmark = pytest.mark.slow

SESSION_MS = 2_000
RECORDS = 600


class Worker:
    """A consumer's process, and the last that it said."""

    def __init__(
        self, zookeeper: str, group_id: str, topic: str = "t", streams: int = 1, session_ms: int = SESSION_MS
    ) -> None:
        command = [sys.executable, "-m", "tests.zookeeper.worker", zookeeper, group_id, topic, str(streams)]
        self.process = subprocess.Popen([*command, str(session_ms)], stdout=subprocess.PIPE, text=True)
        self.report: dict[str, object] = {"owned": [], "rebalances": 0}
        self.read: list[tuple[int, int]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = json.loads(line)
            self.read += [(p, o) for p, o in report.pop("read")]
            self.report = report

    @property
    def owned(self) -> list[int]:
        owned = self.report["owned"]
        assert isinstance(owned, list)
        return owned

    @property
    def rebalances(self) -> int:
        count = self.report["rebalances"]
        assert isinstance(count, int)
        return count

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


until = partial(until_in_thread, patience_s=30.0, every_s=0.05)


@pytest.fixture(scope="module")
def broker(zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    options = ["--set", f"zookeeper.connect={zookeeper.address}", "--set", f"zookeeper.session.timeout.ms={SESSION_MS}"]
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *options)
    yield process
    process.stop()


@pytest.fixture
def session(zookeeper: LocalZooKeeper) -> Iterator[ZooKeeperSession]:
    session = ZooKeeperSession(connect(zookeeper.address, SESSION_MS, 10_000), lambda _: None, lambda _: None)
    yield session
    session.close()


@pytest.fixture
def workers(zookeeper: LocalZooKeeper) -> Iterator[Callable[..., list[Worker]]]:
    started: list[Worker] = []

    def start(count: int, group_id: str, topic: str, partitions: int, streams: int = 1) -> list[Worker]:
        new = [Worker(zookeeper.address, group_id, topic, streams) for _ in range(count)]
        started.extend(new)
        until(lambda: whole(new, partitions), lambda: [w.report for w in new])
        return new

    yield start
    for worker in started:
        worker.end()


def whole(workers: list[Worker], partitions: int) -> bool:
    """Every partition has one reader, and everybody has a fair share."""
    owned = sorted(p for w in workers for p in w.owned)
    sizes = {len(w.owned) for w in workers}
    return owned == list(range(partitions)) and max(sizes) - min(sizes) <= 1


def fill(broker: BrokerProcess, topic: str, partitions: int) -> None:
    async def work() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.create_topic(topic, partitions)
        await produce(broker, topic, partitions)

    asyncio.run(work())


async def produce(broker: BrokerProcess, topic: str, partitions: int, count: int = RECORDS) -> None:
    async with Producer({"bootstrap.servers": broker.address}) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


def in_zookeeper(session: ZooKeeperSession, topic: str) -> bool:
    return isinstance(session.apply(Read(paths.topic(topic))), Znode)


def test_a_broker_registers_itself_its_topics_and_their_partitions(
    broker: BrokerProcess, session: ZooKeeperSession
) -> None:
    fill(broker, "registered", 2)
    last = paths.partition_state("registered", 1)
    until(lambda: session.apply(Read(last)) is not None, lambda: "the topic is not in ZooKeeper")
    node = session.apply(Read(paths.broker(1)))
    assert isinstance(node, Znode)
    assert paths.address_of(node.data) == ("127.0.0.1", broker.port)
    topic = session.apply(Read(paths.topic("registered")))
    assert isinstance(topic, Znode)
    assert topic.data == '{"version":1,"partitions":{"0":[1],"1":[1]}}'
    state = session.apply(Read(paths.partition_state("registered", 1)))
    assert isinstance(state, Znode)
    assert json.loads(state.data)["leader"] == 1

    async def delete() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.delete_topic("registered")

    asyncio.run(delete())
    until(lambda: not in_zookeeper(session, "registered"), lambda: "the topic is still in ZooKeeper")


def test_a_killed_consumers_partitions_are_owned_again_and_the_herd_is_counted(
    broker: BrokerProcess, workers: Callable[..., list[Worker]], zookeeper: LocalZooKeeper
) -> None:
    fill(broker, "killed", 8)
    crew = workers(4, "killed-crew", "killed", 8)
    until(lambda: len({x for w in crew for x in w.read}) == RECORDS, lambda: [len(w.read) for w in crew])
    with ZooKeeperGroups(zookeeper.address) as groups:
        until(lambda: sum(groups.read("killed-crew").offsets.values()) == RECORDS, "every record is committed")
    before = [w.rebalances for w in crew]
    crew[0].signal(signal.SIGKILL)
    left = crew[1:]
    took_s = until(lambda: whole(left, 8), lambda: [w.report for w in left])
    assert took_s >= SESSION_MS / 3000, "the session cannot have expired by then"

    def herd() -> list[int]:
        return [w.rebalances - b for w, b in zip(left, before[1:], strict=True)]

    until(lambda: all(count >= 1 for count in herd()), lambda: "one death makes each of the others rebalance")
    print(f"one death, {sum(herd())} rebalances of {len(left)} consumers; owned again after {took_s:.1f} s")
    asyncio.run(produce(broker, "killed", 8))
    every = {(p, o) for p in range(8) for o in range(2 * RECORDS // 8)}
    until(lambda: {x for w in crew for x in w.read} == every, lambda: len({x for w in crew for x in w.read}))
    twice = sum(len(w.read) for w in crew) - len(every)
    assert twice <= RECORDS // 4, "at most what the killed one had not committed comes again"
    with ZooKeeperGroups(zookeeper.address) as groups:
        stored = groups.read("killed-crew")
    assert stored.state == "Stable"
    assert set(stored.owners) == {("killed", p) for p in range(8)}
    assert {owner.rpartition("-")[0] for owner in stored.owners.values()} == set(stored.members)


def test_streams_of_one_consumer_share_its_partitions(
    broker: BrokerProcess, workers: Callable[..., list[Worker]], zookeeper: LocalZooKeeper
) -> None:
    fill(broker, "streams", 5)
    crew = [*workers(1, "streams-crew", "streams", 5, streams=2)]
    until(lambda: len(crew[0].read) == RECORDS, lambda: len(crew[0].read))
    with ZooKeeperGroups(zookeeper.address) as groups:
        owners = groups.read("streams-crew").owners
    assert [owners["streams", p][-2:] for p in range(5)] == ["-0", "-0", "-0", "-1", "-1"]


def test_an_added_partition_is_read(broker: BrokerProcess, workers: Callable[..., list[Worker]]) -> None:
    fill(broker, "grown", 2)
    crew = workers(2, "grown-crew", "grown", 2)

    async def grow() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.create_partitions("grown", 3)

    asyncio.run(grow())
    until(lambda: whole(crew, 3), lambda: [w.report for w in crew])


def test_a_process_that_stood_still_past_its_session_begins_anew(
    broker: BrokerProcess, workers: Callable[..., list[Worker]]
) -> None:
    fill(broker, "stopped", 4)
    one, other = workers(2, "stopped-crew", "stopped", 4)
    one.signal(signal.SIGSTOP)
    try:
        until(lambda: other.owned == [0, 1, 2, 3], lambda: other.report)
    finally:
        one.signal(signal.SIGCONT)
    until(lambda: whole([one, other], 4), lambda: [one.report, other.report])
    assert one.report["failures"] == []


def test_a_lost_connection_is_no_change_while_the_session_lives(
    broker: BrokerProcess,
    workers: Callable[..., list[Worker]],
    tmp_path: Path,
) -> None:
    """ZooKeeper is killed and comes back: consumers read on, nobody rebalances, and what was read is committed later."""
    own = LocalZooKeeper(tmp_path / "zookeeper", tick_ms=1000).start()
    options = ["--set", f"zookeeper.connect={own.address}", "--set", "zookeeper.session.timeout.ms=15000"]
    other = BrokerProcess(tmp_path / "data", *options)
    try:
        fill(other, "cut", 2)
        worker = Worker(own.address, "cut-crew", "cut", session_ms=15_000)
        until(lambda: len(worker.read) == RECORDS, lambda: worker.report)
        before = worker.rebalances
        own.kill()
        asyncio.run(produce(other, "cut", 2))
        until(lambda: len(worker.read) == 2 * RECORDS, lambda: len(worker.read))
        own.start()

        def committed() -> bool:
            with ZooKeeperGroups(own.address) as groups:
                return groups.read("cut-crew").offsets == {("cut", 0): RECORDS, ("cut", 1): RECORDS}

        until(committed, lambda: worker.report)
        assert worker.rebalances == before
        worker.end()
    finally:
        other.process.kill()
        other.process.wait()
        own.stop()


def test_a_groups_offsets_go_to_kafka(
    broker: BrokerProcess,
    workers: Callable[..., list[Worker]],
    zookeeper: LocalZooKeeper,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(broker, "moved", 2)
    (worker,) = workers(1, "moved-crew", "moved", 2)
    until(lambda: len(worker.read) == RECORDS, lambda: worker.report)

    def look() -> tuple[str, dict[TopicPartition, int]]:
        with ZooKeeperGroups(zookeeper.address) as groups:
            stored = groups.read("moved-crew")
            return stored.state, stored.offsets

    until(lambda: set(look()[1].values()) == {RECORDS // 2}, look)
    with ZooKeeperGroups(zookeeper.address) as groups:
        alive = groups.read("moved-crew")
    with pytest.raises(KafkaError, match="stop every member first"):
        asyncio.run(migrate(alive, {"bootstrap.servers": broker.address}))
    worker.end()
    until(lambda: look()[0] == "Empty", look)
    output = run_cli(capsys, "groups", "migrate", "moved-crew", "--zookeeper", zookeeper.address)
    assert "2 of 2 offsets of moved-crew committed" in output
    described = run_cli(capsys, "groups", "describe", "moved-crew", "-b", broker.address, "--json")
    assert {p["committed"] for p in json.loads(described)["partitions"]} == {RECORDS // 2}
    again = run_cli(capsys, "groups", "migrate", "moved-crew", "--zookeeper", zookeeper.address)
    assert "0 of 2 offsets" in again
    in_zookeeper = ("--zookeeper", zookeeper.address, "--json")
    moved = documented("groups migrate", run_cli(capsys, "groups", "migrate", "moved-crew", "--dry-run", *in_zookeeper))
    assert [m["in_zookeeper"] for m in moved] == [RECORDS // 2] * 2
    documented("groups describe", run_cli(capsys, "groups", "describe", "moved-crew", *in_zookeeper))
    listed = documented("groups list", run_cli(capsys, "groups", "list", *in_zookeeper))
    assert {(g["group"], g["protocol_type"]) for g in listed} >= {("moved-crew", "zookeeper"), ("moved-crew", "")}
    described = run_cli(capsys, "groups", "describe", "moved-crew", "--zookeeper", zookeeper.address)
    assert "total lag: 0" in described


def run_cli(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main.main(list(words), standalone_mode=False)
    return capsys.readouterr().out


def test_the_command_line_reads_a_topic(broker: BrokerProcess, zookeeper: LocalZooKeeper) -> None:
    fill(broker, "printed", 3)
    words = ["consume", "printed", "--zookeeper", zookeeper.address, "--from-beginning", "--streams", "2"]

    def consume(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "coterie", *words, *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    first = consume("--group", "cli", "-n", "250")
    assert first.returncode == 0, first.stderr
    second = consume("--group", "cli", "--timeout-ms", "4000", "--json")
    values = [*first.stdout.split(), *(json.loads(line)["value"] for line in second.stdout.splitlines())]
    assert sorted(values, key=int) == [str(n) for n in range(RECORDS)], "the second goes on where the first stopped"
    alone = consume()
    assert (alone.returncode, "--zookeeper needs --group" in alone.stderr) == (2, True)


def test_an_owner_that_never_releases_is_said_to_the_user(
    broker: BrokerProcess, zookeeper: LocalZooKeeper, session: ZooKeeperSession
) -> None:
    """Z4: after rebalance.max.retries the stream raises; the group's next change is tried all the same."""
    fill(broker, "stuck", 1)
    session.apply(Create(paths.owner("stuck-crew", "stuck", 0), "somebody-0"))
    settings = {
        "zookeeper.connect": zookeeper.address,
        "group.id": "stuck-crew",
        "auto.offset.reset": "smallest",
        "rebalance.max.retries": 2,
        "rebalance.backoff.ms": 100,
    }
    with ZooKeeperConsumer(settings, {"stuck": 1}) as consumer:
        (stream,) = consumer.streams["stuck"]
        with pytest.raises(ConsumerRebalanceFailed, match="can't rebalance after 2 retries"):
            next(stream)
        session.apply(Delete(paths.owner("stuck-crew", "stuck", 0)))
        znode = session.apply(Read(paths.topic("stuck")))
        assert isinstance(znode, Znode)
        session.apply(Write(paths.topic("stuck"), znode.data))
        until(lambda: consumer.owned() == [("stuck", 0)], consumer.owned)
        assert next(stream).record.value == b"0"


def test_a_broker_whose_zookeeper_is_away_says_so() -> None:
    command = [sys.executable, "-m", "coterie", "broker", "--memory", "--listen", "127.0.0.1:0"]
    for setting in ("zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=300"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Error: no ZooKeeper answers at 127.0.0.1:1" in done.stderr


def test_operations_answer_as_the_simulated_server_does(session: ZooKeeperSession) -> None:
    """The same script on both: what the laboratory takes ZooKeeper to do is what it does."""
    from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
    from coterie.laboratory.world import World

    simulated = ZooKeeperServer(World(1))
    theirs = simulated.connect(SESSION_MS, lambda _: None)
    script: list[Operation] = [
        List("/script"),
        Read("/script/a"),
        Create("/script/a/b", "x", ephemeral=False),
        Create("/script/a/b", "y", ephemeral=False),
        List("/script/a"),
        Write("/script/a/b", "z", version=0),
        Write("/script/a/b", "w", version=0),
        Write("/script/a/c", "new"),
        Write("/script/none", "x", version=3),
        Create("/script/e", "mine"),
        Read("/script/e"),
        Read("/script/a/b"),
        List("/script/a"),
        Delete("/script/a"),
        Delete("/script/a/c"),
        Delete("/script/a/c"),
        Delete("/script/e"),
        Delete("/script/a/b"),
        Delete("/script/a"),
        Multi((Create("/script/m", "1", ephemeral=False), CheckVersion("/script/m", 0))),
        Multi(
            (
                CheckVersion("/script/m", 0),
                Write("/script/m", "2", version=0),
                Create("/script/m/n", "below", ephemeral=False),
            )
        ),
        Multi((CheckVersion("/script/m", 0), Write("/script/m", "3"))),
        Multi((CheckVersion("/script/none", 0), Write("/script/m", "3"))),
        Multi((CheckVersion("/script/m", 1), Create("/script/m", "again"), Write("/script/m", "3"))),
        Multi((Write("/script/m", "3"), Create("/script/x/y", "no parent"))),
        Multi((Write("/script/m", "3"), Write("/script/none", "x"))),
        Multi((Write("/script/m", "3"), Delete("/script/m"))),
        Read("/script/m"),
        Create("/script/q/n_", "first", ephemeral=False, sequential=True),
        Create("/script/q/n_", "second", ephemeral=False, sequential=True),
        List("/script/q"),
        Multi((Delete("/script/q/n_0000000000"), Delete("/script/q/n_0000000001"), Delete("/script/q"))),
        Multi((Delete("/script/m/n"), Delete("/script/m"), Delete("/script"))),
        List("/script"),
    ]
    for operation in script:
        responses: list[object] = []
        for apply in (session.apply, lambda o: simulated.apply(theirs, o)):
            try:
                response = apply(operation)
                responses.append(
                    replace(response, created=0, created_ms=0) if isinstance(response, Znode) else response
                )
            except MultiRefused as refused:
                responses.append(str(refused))
            except (NodeExists, NoNode, NotEmpty, BadVersion) as error:
                responses.append(type(error).__name__)
        assert responses[0] == responses[1], operation


def test_no_zookeeper_is_said_in_a_sentence() -> None:
    with pytest.raises(Unreachable, match=r"no ZooKeeper answers at 127\.0\.0\.1:1"):
        connect("127.0.0.1:1", 1000, 500)
