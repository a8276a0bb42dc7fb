"""`coterie proxy` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client.blocking import BlockingConsumer
from coterie.testing import LocalBroker


def test_the_command_serves_writes_its_journal_and_ends_by_sigterm(coterie_broker: LocalBroker, tmp_path: Path) -> None:
    coterie_broker.create_topic("orders")
    coterie_broker.produce("orders", b"one")
    command = [sys.executable, "-m", "coterie", "proxy", "--upstream", coterie_broker.bootstrap_servers]
    command += ["--journal", str(tmp_path / "journal")]
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
        why = CliRunner().invoke(main, ["groups", "why", "g", "-b", line.split()[-1]])
        assert "no rebalance is under way: generation 1 has 1 member" in why.output
    process.terminate()
    assert process.wait(timeout=30) == 0
    history = CliRunner().invoke(main, ["groups", "history", "g", "--journal", str(tmp_path / "journal")])
    assert history.exit_code == 0, history.output
    events = [line.split()[3] for line in history.output.splitlines()[1:]]
    assert events == ["stable", "empty"], history.output
    assert "joined" in history.output
    assert "left" in history.output


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_an_address_beyond_loopback_is_refused_unless_insecure(listen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing really listens there."""
    served: list[object] = []

    async def serve(*given: object) -> None:
        served.append(given)

    monkeypatch.setattr("coterie.cli.proxy._serve", serve)
    words = ["proxy", "--upstream", "127.0.0.1:1", "--listen", listen]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2
    sentence = f"--listen {listen} is beyond loopback, and the proxy has no TLS towards clients: listen on 127.0.0.1"
    assert sentence in " ".join(refused.output.split())
    assert not served
    assert CliRunner().invoke(main, [*words, "--insecure"]).exit_code == 0
    assert CliRunner().invoke(main, [*words[:-1], "127.0.0.1:0"]).exit_code == 0
    assert len(served) == 2
