"""Connections of a loop that are read by one poll: what arrives, in its order; pauses; and each way in which one ends."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from coterie.runtime.receiver import LARGE_BYTES, Receiver
from coterie.runtime.shared_poll import MOST_EVENTS, SharedPoll, shared_poll
from tests.awaiting import until

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="connections of other systems are asyncio's alone")


class Recorder(Receiver):
    """A connection that keeps what it receives. ``stays``: after the peer's end of the stream."""

    def __init__(self, stays: bool = False) -> None:
        super().__init__(reads_less=True)
        self.received, self.reads = bytearray(), list[int]()
        self.stays, self.ends = stays, list[str]()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.on_data: Callable[[bytes], None] = lambda data: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.reads.append(len(data))
        self.on_data(data)

    def eof_received(self) -> bool:
        self.ends.append("eof")
        return self.stays

    def connection_lost(self, error: Exception | None) -> None:
        self.ends.append("lost")


class Server:
    """A server whose connections share a poll."""

    def __init__(self, poll: SharedPoll) -> None:
        self.poll, self.accepted = poll, list[Recorder]()
        self.address: tuple[str, int]
        self.next_stays = False

    def accept(self) -> asyncio.BaseProtocol:
        self.accepted.append(Recorder(self.next_stays))
        return self.poll.accept(self.accepted[-1])

    async def connect(self) -> tuple[socket.socket, Recorder]:
        """A client, and its connection on the server."""
        count = len(self.accepted)
        client = socket.create_connection(self.address)
        client.setblocking(False)
        await until(lambda: len(self.accepted) > count and self.accepted[-1].transport is not None)
        return client, self.accepted[-1]


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    loop = asyncio.get_running_loop()
    poll = SharedPoll(loop)
    server = Server(poll)
    listening = await loop.create_server(server.accept, "127.0.0.1", 0)
    server.address = listening.sockets[0].getsockname()
    try:
        yield server
    finally:
        listening.close()
        for connection in server.accepted:
            connection.transport.abort()
        await asyncio.sleep(0)
        poll.close()


async def test_a_large_message_comes_whole() -> None:
    async with serving() as server:
        client, connection = await server.connect()
        loop, sent = asyncio.get_running_loop(), bytes(range(256)) * 4096
        await loop.sock_sendall(client, sent)
        await until(lambda: len(connection.received) == len(sent))
        assert connection.received == sent
        assert max(connection.reads) <= LARGE_BYTES
        connection.transport.write(b"response")
        assert await loop.sock_recv(client, 100) == b"response"
        client.close()


async def test_a_paused_connection_is_not_read_until_it_resumes() -> None:
    async with serving() as server:
        client, connection = await server.connect()
        connection.on_data = lambda data: connection.transport.pause_reading()
        client.send(b"a" * LARGE_BYTES + b"b")
        await until(lambda: bool(connection.received))
        for _ in range(5):
            await asyncio.sleep(0)
        assert connection.received == b"a" * LARGE_BYTES
        connection.transport.resume_reading()
        await until(lambda: connection.received.endswith(b"b"))
        client.close()


async def test_a_connection_that_is_paused_from_the_beginning_is_not_read() -> None:
    async with serving() as server:
        poll, made = server.poll, list[Recorder]()

        class Paused(Recorder):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                self.transport.pause_reading()

        def accept() -> asyncio.BaseProtocol:
            made.append(Paused())
            server.accepted.append(made[-1])
            return poll.accept(made[-1])

        listening = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        client = socket.create_connection(listening.sockets[0].getsockname())
        client.send(b"x")
        await until(lambda: bool(made) and made[0].transport is not None)
        for _ in range(10):
            await asyncio.sleep(0.001)
        assert made[0].received == b""
        made[0].transport.resume_reading()
        await until(lambda: made[0].received == b"x")
        client.close()
        listening.close()


@pytest.mark.parametrize("stays", [False, True])
async def test_the_end_of_the_stream_ends_the_connection_unless_it_stays(stays: bool) -> None:
    async with serving() as server:
        server.next_stays = stays
        client, connection = await server.connect()
        client.send(b"last")
        client.shutdown(socket.SHUT_WR)
        await until(lambda: "eof" in connection.ends)
        assert connection.received == b"last"
        for _ in range(5):
            await asyncio.sleep(0)
        assert connection.ends == (["eof"] if stays else ["eof", "lost"])
        client.close()


async def test_a_reset_ends_the_connection() -> None:
    async with serving() as server:
        client, connection = await server.connect()
        client.send(b"x")
        await until(lambda: connection.received == b"x")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await until(lambda: connection.ends == ["lost"])


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_connection_that_ends_in_its_read_gets_nothing_more(end: str) -> None:
    async with serving() as server:
        client, connection = await server.connect()
        connection.on_data = lambda data: getattr(connection.transport, end)()
        client.send(b"a" * LARGE_BYTES + b"b")
        await until(lambda: connection.ends == ["lost"])
        assert connection.received == b"a" * LARGE_BYTES
        client.close()


async def test_a_bug_of_one_connection_ends_it_alone() -> None:
    async with serving() as server:
        reported = list[BaseException]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        (broken, first), (client, second) = await server.connect(), await server.connect()

        def fail(data: bytes) -> None:
            raise ZeroDivisionError

        first.on_data = fail
        broken.send(b"x")
        client.send(b"y")
        await until(lambda: first.ends == ["lost"] and second.received == b"y")
        assert [type(error) for error in reported] == [ZeroDivisionError]
        assert second.ends == []
        broken.close()
        client.close()


async def test_the_events_of_a_poll_are_counted_and_more_than_a_turn_takes_come_with_the_next() -> None:
    async with serving() as server:
        counts, clients = list[int](), []
        for _ in range(MOST_EVENTS + 10):
            client, connection = await server.connect()
            connection.on_data = lambda data: counts.append(server.poll.events)
            clients.append(client)
        for client in clients:
            client.send(b"x")
        await until(lambda: all(each.received for each in server.accepted))
        assert sum(1 for count in counts if count == MOST_EVENTS) >= MOST_EVENTS
        assert len(counts) == len(clients)
        for client in clients:
            client.close()


def test_other_loops_have_none() -> None:
    assert shared_poll(object()) is None
