"""How a broker of a cluster ends: Kafka's ServerShutdownTest, by name. What a broker of a cluster does beside others'
nodes: roles that end with its registration."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.peers.channels import ControllerChannels
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import NO_LEADER_EPOCH
from coterie.client.consumer.consumer import Consumer
from coterie.controller.requests import LeaderAndIsr
from coterie.testing.cluster_brokers import ClusteredBroker
from tests.awaiting import quiet
from tests.broker.cluster.brokers_in_memory import TOPIC, clustered, create, disk, led_by, log_of, produce
from tests.broker_process import BrokerProcess, free_port

SENT = [b"hello", b"there"], [b"more", b"messages"]


async def consumed(broker: ClusteredBroker, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with Consumer(
        {"bootstrap.servers": f"{broker.host}:{broker.port}", "auto.offset.reset": "earliest"}
    ) as consumer:
        await consumer.assign([(TOPIC, 0)])
        while len(values) < count:
            for records in (await consumer.poll(1_000)).values():
                values += [record.value for record in records]
    return values


@pytest.mark.parametrize("settings", [{}, {"delete.topic.enable": "true"}], ids=["default", "delete.topic.enable"])
async def test_clean_shutdown(settings: dict[str, str]) -> None:
    """testCleanShutdown, testCleanShutdownWithDeleteTopicEnabled: the logs' checkpoints are written, nothing of the broker runs
    on, and its next process serves the records."""
    async with clustered(1, settings) as cluster:
        (broker,) = cluster.live()
        await create(cluster, [1])
        await produce(cluster, *SENT[0])
        await broker.stop()
        await quiet()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for name in (".kafka_cleanshutdown", "log-checkpoint.json", "replication-offset-checkpoint"):
            assert disk(broker).exists(name), name
        assert f'"{TOPIC}-0"' in disk(broker).read_file("log-checkpoint.json").decode()
        await broker.start()
        await led_by(cluster, 1)
        assert await consumed(broker, 2) == SENT[0]
        await produce(cluster, *SENT[1])
        assert await consumed(broker, 4) == SENT[0] + SENT[1]


async def test_consecutive_shutdown() -> None:
    """testConsecutiveShutdown"""
    async with clustered(1) as cluster:
        (broker,) = cluster.live()
        await broker.stop()
        await broker.stop()


async def test_a_start_after_nonsense_in_the_files() -> None:
    """testCleanShutdownAfterFailedStartupDueToCorruptLogs: Kafka does not start; here the nonsense goes, the records stay."""
    async with clustered(1) as cluster:
        (broker,) = cluster.live()
        await create(cluster, [1])
        await produce(cluster, *SENT[0])
        await broker.stop()
        fs = disk(broker)
        files = fs.names(f"{TOPIC}-0")
        assert any(name.endswith(".log") for name in files)
        for number, name in enumerate(files):
            fs.open(f"{TOPIC}-0/{name}").append(bytes(range(number + 1, number + 200)))
        await broker.start()
        await led_by(cluster, 1)
        assert await consumed(broker, 2) == SENT[0]
        assert log_of(broker).end_offset == 2
        await broker.stop()


def test_clean_shutdown_after_failed_startup(tmp_path: Path) -> None:
    """testCleanShutdownAfterFailedStartup: the process ends, and the folder is another's to use."""
    zookeeper = f"zookeeper.connect=127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    for setting in ("broker.id=1", zookeeper, "zookeeper.connection.timeout.ms=100"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: no ZooKeeper answers")
    assert "Traceback" not in done.stderr
    process = BrokerProcess(tmp_path / "data")
    process.stop()


@pytest.mark.parametrize("queued", [1, 3])
async def test_controller_shutdown_during_send(queued: int) -> None:
    """testControllerShutdownDuringSend: a broker has the first byte of a request, and never answers; the time-out is 30 s."""
    received = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        received.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address, responded = server.sockets[0].getsockname(), list[object]()
    channels = ControllerChannels(2, 30_000, lambda _: address, lambda request, response: responded.append(request))
    for _ in range(queued):
        channels.send(LeaderAndIsr(1, 1, 2, 1, {}))
    async with asyncio.timeout(10):
        await received.wait()
        await channels.close()
    assert responded == []
    server.close()


@pytest.mark.parametrize("epoch", [NO_LEADER_EPOCH, 6])
async def test_groups_of_a_partition_without_a_role_are_left(epoch: int) -> None:
    """Whatever its epoch was; the next controller may give the same role in the same epoch."""
    broker = Broker(BrokerSettings())
    await broker.start("127.0.0.1", 0)
    groups = broker.groups
    groups.ready()
    assert groups.elect(0, 5)
    assert not groups.resign(0, 4)
    assert groups.resign(0, epoch)
    assert groups.elect(0, 5) == (epoch == NO_LEADER_EPOCH)
    await broker.stop()
