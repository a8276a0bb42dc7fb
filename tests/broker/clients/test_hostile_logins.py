"""Bytes of anybody before authentication: they end their own connection alone, and a bystander's heartbeat is answered."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.broker import Broker
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.listener_tls import ListenerTls
from coterie.broker.connections.tls_connection import TlsConnection
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import Listener
from coterie.laboratory.world import World
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from tests.broker.connections.test_listeners import Certificates
from tests.broker.frames_broker import FakeTransport, FramesBroker

SASL = Listener("SASL_PLAINTEXT", "", 1, "SASL_PLAINTEXT")
HEARTBEAT = encode_request(1, "bystander", HeartbeatRequest("g", 1, "m"), 4)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "")
FRAMES = [
    encode_request(1, "c", ApiVersionsRequest("kgo", "1"), 3),
    *(encode_request(1, "c", SaslHandshakeRequest(name), version) for name in MECHANISMS for version in (0, 1)),
    *(
        encode_request(1, "c", SaslAuthenticateRequest(token), version)
        for token in (b"\0a\0b", b"n,,n=a,r=b", b"c=biws,r=b,p=", b"\x01", b"")
        for version in (0, 1, 2)
    ),
    HEARTBEAT,
]


def mutated(frame: bytes, source: random.Random) -> bytes:
    """One byte is another, some are missing, or the frame is as it was."""
    at = source.randrange(len(frame))
    kind = source.randrange(4)
    if kind == 0:
        return frame[:at] + bytes([source.randrange(256)]) + frame[at + 1 :]
    if kind == 1:
        return frame[:at] + frame[at + source.randrange(1, 9) :]
    return source.randbytes(source.randrange(1, 40)) if kind == 2 else frame


class Attacked:
    """A broker in virtual time whose listener has SASL, and a bystander without."""

    def __init__(self) -> None:
        self.world = World(1)
        self.broker = FramesBroker(self.world)
        self.broker.settings.given_otherwise(
            {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "sasl.jaas.config": 'PlainLoginModule required user_alice="secret";',
            }
        )
        self.bystander = FakeTransport()
        self._bystanders = AcceptedConnection(self.broker)
        self._bystanders.connection_made(self.bystander)

    def attack(self, pieces: list[bytes]) -> AcceptedConnection:
        """Sends these on a connection of their own, which is closed then, and checks the bystander between them."""
        transport = FakeTransport()
        connection = AcceptedConnection(self.broker, SASL)
        connection.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                connection.data_received(piece)
            self.world.run_until(self.world.now_ms + 200)  # what waits for its turn, and the responses that are delayed
            self.bystander.written.clear()
            self._bystanders.data_received(HEARTBEAT)
            self.world.run_until(self.world.now_ms + 1)
            assert self.bystander.written, "the bystander has no response"
        connection.connection_lost(None)
        assert not self.broker.connections.unauthenticated
        return connection


@pytest.fixture(scope="module")
def attacked() -> Attacked:
    return Attacked()


@pytest.mark.parametrize("seed", range(60))
def test_mutated_frames_before_a_login(attacked: Attacked, seed: int) -> None:
    source = random.Random(seed)
    connection = attacked.attack([mutated(source.choice(FRAMES), source) for _ in range(12)])
    state = connection.connection.authentication
    assert state is not None
    assert not state.is_complete


@settings(max_examples=30)
@given(pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=3))
def test_random_bytes_before_a_login(pieces: list[bytes]) -> None:
    Attacked().attack(pieces)


def hello(certificates: Certificates) -> bytes:
    """The first record of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(certificates.ca))
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_first_record_that_is_not_whole_takes_no_memory_of_openssl(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    listener, world = Listener("SSL", "", 1, "SSL"), World(1)
    broker = FramesBroker(world)
    tls = ListenerTls(BrokerSettings(certificates.settings()), listener)
    connection, transport = TlsConnection(broker, tls, AcceptedConnection(broker, listener)), FakeTransport()
    connection.connection_made(transport)
    whole = hello(certificates)
    for at in range(len(whole)):
        assert connection.tls is None
        connection.data_received(whole[at : at + 1])
    world.run_until(world.now_ms + 100)
    assert transport.written[0][0] == 22  # the server's part of the handshake


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_the_memory_of_a_closed_connection_is_free_at_once(protocol: str, tmp_path: Path) -> None:
    """Not when Python next looks for cycles: until then 7,000 of 10,000 half-open connections kept OpenSSL's 20 KiB each."""
    certificates, listener, world = Certificates(tmp_path), Listener(protocol, "", 1, protocol), World(1)
    broker = FramesBroker(world)
    first = hello(certificates) if listener.has_tls else FRAMES[0]
    gc.collect()
    gc.disable()
    try:
        before = connections_in_memory()
        connection: Any = AcceptedConnection(broker, listener)
        if listener.has_tls:
            connection = TlsConnection(
                broker, ListenerTls(BrokerSettings(certificates.settings()), listener), connection
            )
        connection.connection_made(FakeTransport())
        connection.data_received(first)
        world.run_until(world.now_ms + 100)
        assert connections_in_memory() > before
        connection.connection_lost(None)
        world.run_until(world.now_ms + 100)
        del connection
        assert connections_in_memory() == before
    finally:
        gc.enable()


def connections_in_memory() -> int:
    return sum(isinstance(one, AcceptedConnection | TlsConnection | ssl.SSLObject) for one in gc.get_objects())


async def test_random_and_cut_off_handshakes_of_tls(tmp_path: Path) -> None:
    """And connections that send nothing: a client with a certificate is served beside all of them."""
    certificates, source = Certificates(tmp_path), random.Random(1)
    broker = Broker(BrokerSettings(certificates.settings()))
    _, port = await broker.start()
    writers: list[Any] = []
    for number in range(60):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = hello(certificates)
        writer.write([b"", whole[: source.randrange(1, len(whole))], mutated(whole, source)][number % 3])
        writers.append(writer)
    context = ssl.create_default_context(cafile=str(certificates.ca))
    async with asyncio.timeout(20):
        reader, served = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        served.write(HEARTBEAT)
        assert await reader.readexactly(4)
    for writer in (*writers, served):
        writer.close()
    await broker.stop()
