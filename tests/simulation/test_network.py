"""The network as TCP has it: order, cuts that delay, resets, slow readers, silence after a loss of power."""

from __future__ import annotations

import asyncio
import socket

import pytest

from coterie.simulation import Simulation

PORT = 7000


class Recorder(asyncio.Protocol):
    """What a protocol hears."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.received = bytearray()
        self.events: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.events.append("pause_writing")

    def resume_writing(self) -> None:
        self.events.append("resume_writing")

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost" if error is None else type(error).__name__)


def connected(world: Simulation) -> tuple[Recorder, Recorder]:
    """A connection between a process on the host client and one on the host server; both ends."""
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    async def listen() -> None:
        await asyncio.get_running_loop().create_server(accept, "server", PORT)

    async def connect() -> Recorder:
        _, protocol = await asyncio.get_running_loop().create_connection(Recorder, "server", PORT)
        return protocol

    world.run_in(world.process("server"), listen())
    ours = world.run_in(world.process("client"), connect())
    world.until(lambda: accepted, "the connection")
    return ours, accepted[0]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_in_order_whatever_the_network_does(seed: int) -> None:
    with Simulation(seed) as world:
        world.network.faults.split = world.network.faults.loss = 0.3
        ours, theirs = connected(world)
        sent = b"".join(bytes([i % 256]) * (i % 7 + 1) for i in range(500))

        async def write() -> None:
            for at in range(0, len(sent), 11):
                ours.transport.write(sent[at : at + 11])
                await asyncio.sleep(0.0001)

        world.run(write())
        world.advance(60)
        assert bytes(theirs.received) == sent


def test_a_cut_delays_what_is_sent_and_nothing_is_lost() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        world.network.cut("client", "server", both_ways=False)
        ours.transport.write(b"one")
        theirs.transport.write(b"two")
        world.advance(10)
        assert (bytes(theirs.received), bytes(ours.received)) == (b"", b"two")
        world.network.heal("client", "server")
        world.advance(0.01)
        assert bytes(theirs.received) == b"one"


def test_a_cut_that_lasts_ends_the_connection_of_the_one_who_sent() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        world.network.cut("client", "server")
        ours.transport.write(b"one")
        world.advance(world.network.faults.give_up_s + 1)
        assert ours.events == ["TimeoutError"]
        assert theirs.events == []


def test_a_connect_through_a_cut_waits_and_times_out() -> None:
    async def connect() -> str:
        try:
            await asyncio.open_connection("server", PORT)
        except OSError as error:
            return type(error).__name__
        return "connected"

    with Simulation() as world:
        connected(world)
        world.network.cut("other", "server")
        other = world.spawn("other", connect)
        world.advance(100)
        assert other.is_alive
        world.until(lambda: not other.is_alive, "the end")
        assert other.result == "TimeoutError"
        healed = world.spawn("other", connect)
        world.advance(10)
        world.network.heal("other")
        world.until(lambda: not healed.is_alive, "the end", timeout_s=20)
        assert healed.result == "connected"


def test_a_name_that_the_network_does_not_have() -> None:
    with Simulation() as world, pytest.raises(socket.gaierror, match="not known"):
        world.run(asyncio.open_connection("nowhere", PORT))


def test_a_writer_is_paused_by_a_reader_that_pauses() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        theirs.transport.pause_reading()
        for _ in range(40):
            ours.transport.write(bytes(10_000))
        world.advance(1)
        assert ours.events == ["pause_writing"]
        assert ours.transport.get_write_buffer_size() > 0
        theirs.transport.resume_reading()
        world.advance(1)
        assert ours.events == ["pause_writing", "resume_writing"]
        assert len(theirs.received) == 400_000


def test_a_slow_host_receives_at_its_pace() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        world.network.slow_down("server", 1_000)
        ours.transport.write(bytes(5_000))
        world.advance(4.9)
        assert len(theirs.received) == 0
        world.advance(0.2)
        assert len(theirs.received) == 5_000


def test_a_close_lets_what_was_written_arrive() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        ours.transport.write(bytes(300_000))
        ours.transport.close()
        world.advance(1)
        assert len(theirs.received) == 300_000
        assert theirs.events == ["eof", "lost"]
        assert ours.events[-1] == "lost"


def test_an_abort_resets_the_peer() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        ours.transport.abort()
        world.advance(1)
        assert ours.events == ["lost"]
        assert theirs.events == ["ConnectionResetError"]


def test_a_reset_within_a_frame() -> None:
    with Simulation() as world:
        ours, theirs = connected(world)
        world.network.faults.split = 1.0
        ours.transport.write(b"a frame of bytes")
        world.until(lambda: theirs.received, "the first half")
        world.network.reset_connections("client", "server")
        world.advance(1)
        assert 0 < len(theirs.received) < 16
        assert theirs.events == ["ConnectionResetError"]


def test_a_machine_without_power_is_silent_and_refuses_old_connections_once_it_is_back() -> None:
    with Simulation() as world:
        ours, _ = connected(world)
        world.power_cut("server")
        ours.transport.write(b"one")
        world.advance(10)
        assert ours.events == []
        world.power_on("server")
        ours.transport.write(b"two")
        world.advance(1)
        assert ours.events == ["ConnectionResetError"]


def test_an_error_in_a_protocol_ends_its_connection() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("broken")

    with Simulation() as world:
        complaints: list[object] = []
        world.loop.set_exception_handler(lambda loop, context: complaints.append(context["exception"]))
        ours, theirs = connected(world)
        theirs.transport.set_protocol(broken := Broken())
        ours.transport.write(b"one")
        world.advance(1)
        assert [str(error) for error in complaints] == ["broken"]
        assert broken.events == ["lost"]
        assert ours.events == ["ConnectionResetError"]


def test_an_address_is_used_once() -> None:
    with Simulation() as world:
        connected(world)
        with pytest.raises(OSError, match="address already in use"):
            world.run(asyncio.start_server(lambda r, w: None, "server", PORT))
