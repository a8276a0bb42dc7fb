"""From eager to cooperative in two rolling bounces, with real processes (KIP-429)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from coterie.assignors.blobs import decode_assignment
from coterie.testing import LocalBroker

MEMBERS = 3


def start(broker: LocalBroker, number: int, assignors: str) -> subprocess.Popen[bytes]:
    settings = {
        "partition.assignment.strategy": assignors,
        "heartbeat.interval.ms": "100",
        "client.id": f"c{number}",
    }
    command = [sys.executable, "-m", "coterie", "consume", "t", "--group", "g", "-b", broker.bootstrap_servers]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def in_force(broker: LocalBroker) -> tuple[str | None, int]:
    """The assignor, and how many partitions are assigned."""
    group = broker.broker.groups.group("g")
    assert group is not None
    return group.protocol, sum(len(decode_assignment(m.assignment)) for m in group.members.values())


def until_in_force(broker: LocalBroker, assignor: str, partitions: int) -> None:
    wanted = f"{assignor} with {partitions} partitions is not in force"
    broker._until(lambda: in_force(broker) == (assignor, partitions), wanted, lambda: "", 20)


@pytest.mark.slow
def test_two_rolling_bounces_of_real_processes(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 6)
    processes = [start(coterie_broker, n, "range") for n in range(MEMBERS)]
    try:
        coterie_broker.until_stable("g", members=MEMBERS, timeout_s=30)
        until_in_force(coterie_broker, "range", 6)
        for assignors in ("cooperative-sticky,range", "cooperative-sticky"):
            for number, process in enumerate(processes):
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 0
                coterie_broker.until_stable("g", members=MEMBERS - 1, timeout_s=30)
                processes[number] = start(coterie_broker, number, assignors)
                coterie_broker.until_stable("g", members=MEMBERS, timeout_s=30)
        until_in_force(coterie_broker, "cooperative-sticky", 6)
        assert all(process.poll() is None for process in processes), "nobody was refused"
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)
