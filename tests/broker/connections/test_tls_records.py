"""Records of TLS as they come from a socket: several in one read, one in several reads, and more than one read holds."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.listener_tls import ListenerTls
from coterie.broker.connections.tls_connection import TlsConnection
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import Listener
from coterie.laboratory.world import World
from coterie.runtime.receiver import RECEIVE_BYTES
from tests.broker.connections.test_listeners import Certificates
from tests.broker.frames_broker import FakeTransport, FramesBroker

LISTENER = Listener("SSL", "", 1, "SSL")


class Recording(AcceptedConnection):
    """The connection within TLS, of which the bytes are kept."""

    def __init__(self, broker: FramesBroker) -> None:
        super().__init__(broker, LISTENER)
        self.received: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.received.append(data)


class Client:
    """A client whose handshake is done, with the broker's side of its connection."""

    def __init__(self, folder: Path) -> None:
        certificates = Certificates(folder)
        world = World(1)
        broker, self.transport = FramesBroker(world), FakeTransport()
        self.inner = Recording(broker)
        self.server = TlsConnection(broker, ListenerTls(BrokerSettings(certificates.settings()), LISTENER), self.inner)
        self.server.connection_made(self.transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificates.ca))
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        is_done = False
        while not is_done:
            try:
                self._tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            self.deliver(self._outgoing.read())
            world.run_until(world.now_ms + 100)  # a step of a handshake waits for its turn
            self._receive()

    def _receive(self) -> None:
        for data in self.transport.written:
            self._incoming.write(data)
        self.transport.written.clear()

    def records(self, *parts: bytes) -> bytes:
        """A record for each part, or several for one beyond 16 KiB."""
        for part in parts:
            self._tls.write(part)
        return self._outgoing.read()

    def closed(self) -> bytes:
        """The record that ends TLS."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        return self._outgoing.read()

    def deliver(self, data: bytes) -> None:
        """As the loop does, in reads of at most RECEIVE_BYTES."""
        for at in range(0, len(data), RECEIVE_BYTES):
            piece = data[at : at + RECEIVE_BYTES]
            self.server.get_buffer(-1)[: len(piece)] = piece
            self.server.buffer_updated(len(piece))

    def read(self, size: int) -> bytes:
        """What the broker has written."""
        self._receive()
        data = b""
        while len(data) < size:
            data += self._tls.read(size - len(data))
        return data


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_several_records_in_one_read(client: Client) -> None:
    client.deliver(client.records(b"first", b"second", b"third"))
    assert client.inner.received == [b"firstsecondthird"]


def test_a_record_in_several_reads(client: Client) -> None:
    data = client.records(b"whole")
    for at in range(len(data)):
        assert client.inner.received == []
        client.deliver(data[at : at + 1])
    assert client.inner.received == [b"whole"]


def test_the_end_of_one_record_and_the_beginning_of_the_next(client: Client) -> None:
    first, second = client.records(b"first"), client.records(b"second")
    client.deliver(first[:-1])
    client.deliver(first[-1:] + second[:3])
    assert client.inner.received == [b"first"]
    client.deliver(second[3:])
    assert client.inner.received == [b"first", b"second"]


def test_more_bytes_than_one_read_has(client: Client) -> None:
    data = bytes(range(256)) * 4096  # 1 MiB, in 64 records
    client.deliver(client.records(data))
    assert len(client.inner.received) == 5
    assert b"".join(client.inner.received) == data


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 1_048_576, 1_048_577, 3_000_000])
def test_a_response_of_any_size(client: Client, size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    client.server.write(data)
    assert client.read(size) == data


def test_the_end_of_tls_behind_a_record_in_one_read(client: Client) -> None:
    client.deliver(client.records(b"last") + client.closed())
    assert client.inner.received == [b"last"]
    assert client.transport.closed
