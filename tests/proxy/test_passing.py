"""Clients of one broker and of three work through the proxy, and receive no other address. `coterie proxy` in a process
of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client.blocking import BlockingConsumer
from coterie.proxy.sides import Side
from coterie.testing import LocalBroker
from coterie.testing.simulated import SimulatedWorld, simulate
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.proxy.worlds import RawClient, WorldProxy, consume, produce

REQUESTS = 40


def connected_hosts(world: SimulatedWorld, host: str) -> set[str]:
    """The hosts that a host's processes have connections to."""
    return {end.remote_host for end in world.network._transports if end.local[0] == host}


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_group_reads_what_a_producer_writes_through_the_proxy_alone(brokers: int) -> None:
    with simulate(1) as world:
        broker = world.broker(brokers=brokers)
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        seen: list[bytes] = []
        world.spawn("one", consume, proxied.bootstrap_servers, "billing", "orders", seen)
        world.spawn("two", consume, proxied.bootstrap_servers, "billing", "orders", seen)
        world.spawn("writer", produce, proxied.bootstrap_servers, "orders", 30)
        world.until(lambda: len(seen) == 30, "every record")
        assert sorted(map(int, seen)) == list(range(30))
        assert {host for client in ("one", "two") for host in connected_hosts(world, client)} == {"proxy"}
        assert len(proxied.proxy.addresses) == brokers


def test_a_request_that_is_read_before_the_broker_is_connected_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio of Python 3.11.2 reads a connection that its protocol paused as it was made; the request waited for ever."""

    def made_and_read(side: Side, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        side.transport = transport

    monkeypatch.setattr(Side, "connection_made", made_and_read)
    with simulate(1) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        proxied = WorldProxy(world, broker)
        written = world.spawn("writer", produce, proxied.bootstrap_servers, "orders", 1)
        world.until(lambda: not written.is_alive, "the record is acknowledged")


def test_a_killed_broker_of_three_is_survived_and_the_addresses_stay() -> None:
    with simulate(2) as world:
        broker = world.broker(brokers=3)
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        seen: list[bytes] = []
        world.spawn("one", consume, proxied.bootstrap_servers, "billing", "orders", seen)
        world.spawn("before", produce, proxied.bootstrap_servers, "orders", 10)
        world.until(lambda: len(seen) == 10, "the first records")
        before = dict(proxied.proxy.addresses)
        leader = broker.leader_of("orders", 0)
        broker.kill(leader)
        world.spawn("after", produce, proxied.bootstrap_servers, "orders", 10)
        world.until(lambda: len(seen) >= 20, "the records behind the kill")
        broker.restart(leader)
        world.until(lambda: broker.is_in_sync(leader), "the broker is in sync again")
        world.advance(10)
        assert proxied.proxy.addresses == before
        assert connected_hosts(world, "one") == {"proxy"}


def test_an_upstream_that_is_down_closes_the_client_s_connection() -> None:
    with simulate(4) as world:
        broker = world.broker()
        proxied = WorldProxy(world, broker)
        host, port = proxied.bootstrap_servers.split(":")
        broker.kill()

        async def read() -> bytes:
            reader, _ = await asyncio.open_connection(host, int(port))
            return await reader.read()

        assert world.run(read()) == b""


def test_a_client_that_sends_no_more_still_gets_its_response() -> None:
    with simulate(5) as world:
        broker = world.broker()
        proxied = WorldProxy(world, broker)
        host, port = proxied.bootstrap_servers.split(":")

        async def read() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_request(7, "c", ApiVersionsRequest("a", "1"), 3))
            writer.write_eof()
            return await reader.read()

        assert world.run(read())[4:8] == b"\0\0\0\7"
        world.advance(1)
        assert not proxied.proxy.passages


def test_a_frame_beyond_the_limit_ends_the_connection() -> None:
    with simulate(6) as world:
        proxied = WorldProxy(world, world.broker())
        host, port = proxied.bootstrap_servers.split(":")

        async def read() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x7f\xff\xff\xff")
            return await reader.read()

        assert world.run(read()) == b""


def test_a_client_that_does_not_read_stops_the_broker_s_side() -> None:
    """It has asked for forty megabytes, and takes a tenth of one a second."""
    with simulate(7) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        broker.produce("orders", bytes(900_000))
        proxied = WorldProxy(world, broker)

        async def ask() -> RawClient:
            client = await RawClient(proxied).open()
            partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic("orders", partitions=[partition])])
            for number in range(REQUESTS):
                client.writer.write(encode_request(number, "c", request, 12))
            return client

        client = world.run(ask())
        world.network.slow_down("main", 100_000)
        world.advance(20)
        (passage,) = (p for p in proxied.proxy.passages if p.client_id == "c")
        assert passage.client.transport is not None
        assert passage.client.transport.get_write_buffer_size() < 4 << 20
        world.network.slow_down("main", None)

        async def read() -> list[int]:
            return [int.from_bytes((await client.frame())[:4], "big") for _ in range(REQUESTS)]

        assert world.run(read()) == list(range(REQUESTS))


def test_a_broker_that_two_responses_name_at_once_has_one_listener() -> None:
    with simulate(8) as world:
        proxied = WorldProxy(world, world.broker())

        async def both() -> None:
            await asyncio.gather(*(proxied.proxy.listen_for([("new", 9092)]) for _ in range(2)))

        before = len(proxied.proxy._servers)
        world.run_in(proxied.process, both())
        assert len(proxied.proxy._servers) == before + 1


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
