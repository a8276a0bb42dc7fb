"""`coterie proxy` in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from coterie.client.blocking import BlockingConsumer
from coterie.testing import LocalBroker


def test_the_command_says_its_address_serves_and_ends_by_sigterm(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders")
    coterie_broker.produce("orders", b"one")
    command = [sys.executable, "-m", "coterie", "proxy", "--upstream", coterie_broker.bootstrap_servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on 127.0.0.1:"), line
    settings = {"bootstrap.servers": line.split()[-1], "group.id": "g", "auto.offset.reset": "earliest"}
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe(["orders"])
        while not (polled := consumer.poll(1000)):
            pass
        assert [record.value for record in polled["orders", 0]] == [b"one"]
    process.terminate()
    assert process.wait(timeout=30) == 0
