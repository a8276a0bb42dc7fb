"""`coterie cluster`: processes on a real ZooKeeper, started, described, killed, started again and stopped; refusals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.cli import main
from coterie.cli.cluster.cluster_description import existing_topics, knows_all, until_known
from coterie.cli.cluster.cluster_processes import ClusterState, LocalCluster, command_of, free_ports, read_state
from coterie.pipeline.session import JavaMissing, java_runtime
from coterie.testing import LocalBroker, local_zookeeper
from tests.awaiting import until_in_thread
from tests.broker_process import free_port
from tests.cli.json_shapes import documented

FAST = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "controlled.shutdown.retry.backoff.ms": "100",
}
SETTINGS = [word for name, value in FAST.items() for word in ("--set", f"{name}={value}")]


def coterie(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)


def local(folder: Path) -> LocalCluster:
    state = read_state(folder)
    assert state is not None
    return LocalCluster(folder, state)


def kill_zookeeper(folder: Path) -> None:
    pid = local(folder).zookeeper_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until_in_thread(lambda: local(folder).zookeeper_pid() is None, "the death of ZooKeeper")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Afterwards nothing of it runs."""
    pytest.importorskip("kazoo")
    pytest.importorskip("pyspark")
    try:
        java_runtime()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    yield tmp_path / "cluster"
    if (tmp_path / "cluster" / "cluster.json").exists():
        left = local(tmp_path / "cluster")
        for pid in [left.zookeeper_pid(), *map(left.pid, left.state.brokers)]:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow  # tests/testing/cluster/test_local_cluster.py runs clusters, and tests/broker/cluster/processes
def test_a_cluster_from_its_start_to_its_end(folder: Path) -> None:
    data = ["--data", str(folder)]
    command = [sys.executable, "-m", "coterie", "cluster", "start", *data, "--brokers", "2", "--port", str(free_port())]
    foreground = subprocess.Popen([*command, *SETTINGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert foreground.stdout is not None
    servers = foreground.stdout.readline().removeprefix("bootstrap.servers=").rstrip()
    assert len(servers.split(",")) == 2, foreground.communicate(timeout=20)
    assert coterie("topics", "create", "orders", "-r", "2", "-b", servers).output == "created orders\n"
    assert coterie("produce", "orders", "-b", servers, stdin="one\ntwo\n").exit_code == 0
    figures = documented("cluster describe", coterie("cluster", "describe", *data, "--json").stdout)
    assert (figures["topics"], figures["partitions"], figures["under_replicated"]) == (1, 1, 0)
    assert {row["broker"] for row in figures["brokers"] if row["is_live"] and row["pid"]} == {1, 2}
    assert "runs already" in coterie("cluster", "start", *data, "--detach").output

    os.kill(figures["brokers"][1]["pid"], signal.SIGKILL)

    def is_down() -> bool:
        rows = json.loads(coterie("cluster", "describe", *data, "--json").stdout)["brokers"]
        return not rows[1]["is_live"] and rows[1]["pid"] is None

    until_in_thread(is_down, "the death of broker 2", every_s=0.2)
    kill_zookeeper(folder)
    assert coterie("cluster", "start", *data, "--detach").output == f"bootstrap.servers={servers}\n"
    assert not is_down()

    foreground.send_signal(signal.SIGINT)
    _, printed = foreground.communicate(timeout=60)
    assert foreground.returncode == 0
    assert "broker 2 has ended (signal 9); the others go on" in printed
    stopped = local(folder)
    assert [stopped.zookeeper_pid(), *map(stopped.pid, stopped.state.brokers)] == [None] * 3

    assert coterie("cluster", "start", *data, "--detach").output == f"bootstrap.servers={servers}\n"
    assert existing_topics(stopped.zookeeper) == {"orders"}
    assert coterie("consume", "orders", "--from-beginning", "-n", "2", "-b", servers).output == "one\ntwo\n"
    kill_zookeeper(folder)  # no controlled shutdown is waited for then
    assert coterie("cluster", "stop", *data).output == f"stopped the cluster in {folder}\n"
    assert coterie("cluster", "stop", *data).output == f"Error: nothing of the cluster in {folder} is running\n"


def test_a_start_waits_until_each_broker_knows_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new controller sends the brokers first, and the topics with its second UpdateMetadata."""
    looks: list[bool] = []

    async def look(local: LocalCluster, broker: int, topics: set[str]) -> bool:
        knows = await knows_all(local, broker, topics)
        looks.append(knows)
        if len(looks) == 3:
            one.create_topic("orders")
        return knows

    with LocalBroker() as one:
        state = ClusterState(zookeeper_port=0, brokers={1: int(one.bootstrap_servers.rpartition(":")[2])})
        monkeypatch.setattr("coterie.cli.cluster.cluster_description.existing_topics", lambda zookeeper: {"orders"})
        monkeypatch.setattr("coterie.cli.cluster.cluster_description.knows_all", look)
        asyncio.run(until_known(LocalCluster(Path("unused"), state), asyncio.Event()))
    assert looks == [False] * 3 + [True]


@pytest.mark.slow
def test_a_start_that_fails_leaves_nothing_behind(folder: Path) -> None:
    bad = ["--set", "advertised.listeners=SSL://h:1"]
    end = coterie("cluster", "start", "--data", str(folder), "--brokers", "1", "--port", str(free_port()), *bad)
    assert end.exit_code == 1
    assert end.output.startswith("Error: broker 1 did not start: ")
    assert "advertised.listeners has none of protocol PLAINTEXT" in end.output
    assert local(folder).zookeeper_pid() is None


def test_what_is_refused(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path)]
    nothing = coterie("cluster", "describe", *data)
    assert (nothing.exit_code, "coterie cluster start --data" in nothing.output) == (1, True)
    own = coterie("cluster", "start", *data, "--set", "broker.id=7")
    assert (own.exit_code, "gives each broker its own" in own.output) == (2, True)
    unknown = coterie("cluster", "start", *data, "--set", "no.such.setting=7")
    assert (unknown.exit_code, "no.such.setting" in unknown.output) == (2, True)
    state = {"zookeeper_port": 2181, "brokers": {"1": 9092, "2": 9093}, "settings": {}, "pids": {}}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    fewer = coterie("cluster", "start", *data, "--brokers", "1")
    assert (fewer.exit_code, "a broker leaves it only by moving its partitions" in fewer.output) == (1, True)
    moved = coterie("cluster", "start", *data, "--zookeeper-port", "2182")
    assert (moved.exit_code, "has port 2181; leave --zookeeper-port out" in moved.output) == (1, True)
    (tmp_path / "cluster.json").write_text("[]")
    damaged = coterie("cluster", "stop", *data)
    assert (damaged.exit_code, "does not describe a cluster" in damaged.output) == (1, True)


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kazoo")
    pytest.importorskip("pyspark")

    def missing() -> Path:
        raise JavaMissing("there is no Java here")

    monkeypatch.setattr(local_zookeeper, "java_runtime", missing)
    end = coterie("cluster", "start", "--data", str(tmp_path / "cluster"), "--port", "0")
    assert (end.exit_code, end.output) == (3, "Error: there is no Java here\n")


def test_a_port_in_use(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        end = coterie("cluster", "start", "--data", str(folder), "--port", port)
    assert (end.exit_code, end.output) == (
        1,
        f"Error: port {port} cannot be used: Address already in use; choose another --port\n",
    )


def test_more_brokers_than_ports(folder: Path) -> None:
    end = coterie("cluster", "start", "--data", str(folder), "--port", "65534")
    assert (end.exit_code, end.output) == (
        1,
        "Error: there is no port 65536, only up to 65535; choose a lower --port\n",
    )


def test_any_free_ports() -> None:
    assert len(set(free_ports([0, 0, 0, 0]))) == 4


def test_a_process_is_known_by_its_command() -> None:
    assert "python" in command_of(os.getpid())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert command_of(gone.pid) == ""
