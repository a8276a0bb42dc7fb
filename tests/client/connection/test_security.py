"""TLS and SASL as a client has them: TLS against a real TLS end in front of our broker, SASL against a server that follows
the RFC. (Apache Kafka's own listeners: `./run conformance --part client`.)"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from coterie.client import Admin, Producer
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import ConfigError, KafkaError
from coterie.client.security import Security, scram
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse


class TlsFront:
    """Takes TLS connections and passes on to a broker what they say."""

    def __init__(self, broker: LocalBroker | None, folder: Path, *, wants_certificate: bool = False) -> None:
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.client = folder / "client.pem"
        issued = self.authority.issue_cert("client")
        issued.private_key_and_cert_chain_pem.write_to_path(self.client)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert("localhost", "127.0.0.1").configure_cert(self._context)
        if wants_certificate:
            self.authority.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self.broker = broker

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.broker is not None
        inner_reader, inner_writer = await asyncio.open_connection(self.broker.host, self.broker.port)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                target.write(data)
            target.close()

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

    def stop(self) -> None:
        self._server.close()


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


def tls(front: TlsFront, port: int, **more: Any) -> dict[str, Any]:
    settings = {"security.protocol": "SSL", "ssl.truststore.location": str(front.ca)}
    return {"bootstrap.servers": f"127.0.0.1:{port}", **settings, **{k.replace("_", "."): v for k, v in more.items()}}


async def requested(settings: dict[str, Any]) -> bool:
    """Metadata over the bootstrap connection: the broker itself tells of its plain port."""
    admin = Admin(settings)
    try:
        connection = await admin._cluster.any_connection()
        return bool((await connection.request(MetadataRequest([]), MetadataResponse, 10)).brokers)
    finally:
        admin.close()


async def test_tls_both_ways(broker: LocalBroker, tmp_path: Path) -> None:
    front = TlsFront(broker, tmp_path, wants_certificate=True)
    port = await front.start()
    assert await requested(tls(front, port, ssl_keystore_location=str(front.client)))
    security = client_settings(tls(front, port, ssl_keystore_location=str(front.client))).security()

    def blocking() -> Any:
        socket = BrokerSocket("127.0.0.1", port, security=security)
        try:
            return socket.request(MetadataRequest([]))
        finally:
            socket.close()

    assert (await asyncio.to_thread(blocking)).brokers
    with pytest.raises(KafkaError):
        await requested(tls(front, port))  # without the certificate that the other end wants
    front.stop()


async def test_a_stranger_is_not_trusted(broker: LocalBroker, tmp_path: Path) -> None:
    front = TlsFront(broker, tmp_path)
    port = await front.start()
    (tmp_path / "other").mkdir()
    other = TlsFront(broker, tmp_path / "other")
    with pytest.raises(KafkaError, match="CERTIFICATE_VERIFY_FAILED"):
        await requested(tls(other, port))
    named = Security("SSL", str(front.ca)).context()
    assert named is not None
    assert named.check_hostname
    assert not Security("SSL", str(front.ca), check_host=False).context().check_hostname  # type: ignore[union-attr]
    front.stop()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the TLS files cannot be used"):
        Security("SSL", str(tmp_path / "nowhere.pem")).context()


# -- SASL ----------------------------------------------------------------------------------------------------


def test_scram_as_in_rfc_7677() -> None:
    """The RFC's own example, token by token."""
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.send(first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("first", "final", "message"),
    [
        (b"r=other,s=c2FsdA==,i=4096", b"", "not a continuation"),
        (b"r=abc,s=c2FsdA==,i=4096", b"", "not a continuation"),
        (b"r=abcd,s=c2FsdA==,i=1", b"", "1 iterations are outside"),
        (b"r=abcd,s=c2FsdA==,i=99999999", b"", "iterations are outside"),
        (b"r=abcd,s=c2FsdA==,i=4096", b"v=AAAA", "does not know the password either"),
        (b"r=abcd,s=c2FsdA==,i=4096", b"e=invalid-proof", "invalid-proof"),
    ],
)
def test_scram_trusts_nobody(first: bytes, final: bytes, message: str) -> None:
    exchange = scram("SCRAM-SHA-512", "user", "secret", "abc")
    next(exchange)

    def responded() -> None:
        exchange.send(first)
        exchange.send(final)

    with pytest.raises(KafkaError, match=message):
        responded()


def login(settings: dict[str, Any], responses: list[Any]) -> list[Any]:
    """The requests of a login that is given these answers."""
    requested = client_settings(settings).security().login()
    requests = [next(requested)[0]]
    for response in responses:
        try:
            requests.append(requested.send(response)[0])
        except StopIteration:
            break
    return requests


def test_plain_and_where_its_name_comes_from() -> None:
    base = {"security.protocol": "SASL_SSL"}
    direct = base | {"sasl.username": "u", "sasl.password": "p w"}
    jaas = base | {
        "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p w";'
    }
    for settings in (direct, jaas):
        sent = login(settings, [SaslHandshakeResponse(0, ["PLAIN"]), SaslAuthenticateResponse(0)])
        assert sent == [SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(b"\0u\0p w")]
        assert "p w" not in repr(client_settings(settings).security())


def test_a_mechanism_that_the_broker_lacks() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u", "sasl.password": "p"}
    with pytest.raises(KafkaError, match="no SASL mechanism PLAIN; it has SCRAM-SHA-256"):
        login(settings, [SaslHandshakeResponse(33, ["SCRAM-SHA-256"])])
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED: wrong"):
        login(settings, [SaslHandshakeResponse(0, ["PLAIN"]), SaslAuthenticateResponse(58, "wrong")])


def test_scram_through_the_login() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    requested: Any = client_settings(settings | {"sasl.username": "a=b,c", "sasl.password": "p"}).security().login()
    assert next(requested)[0] == SaslHandshakeRequest("SCRAM-SHA-512")
    first = requested.send(SaslHandshakeResponse(0, ["SCRAM-SHA-512"]))[0].auth_bytes.decode()
    assert first.startswith("n,,n=a=3Db=2Cc,r=")
    nonce, salt = first.partition(",r=")[2] + "server", base64.b64encode(b"salt").decode()
    server_first = f"r={nonce},s={salt},i=4096"
    final = requested.send(SaslAuthenticateResponse(0, None, server_first.encode()))[0].auth_bytes.decode()
    salted = hashlib.pbkdf2_hmac("sha512", b"p", b"salt", 4096)
    signed = f"{first[3:]},{server_first},{final.partition(',p=')[0]}".encode()
    proof = base64.b64decode(final.partition(",p=")[2])
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
    assert bytes(a ^ b for a, b in zip(proof, signature, strict=True)) == client_key
    server = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512")).decode()
    with pytest.raises(StopIteration):
        requested.send(SaslAuthenticateResponse(0, None, f"v={server}".encode()))


async def test_a_producer_over_tls_says_who_it_does_not_trust(broker: LocalBroker, tmp_path: Path) -> None:
    front = TlsFront(broker, tmp_path)
    port = await front.start()
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SSL", "max.block.ms": 2_000}
    producer = Producer(settings)
    with pytest.raises(KafkaError, match="CERTIFICATE_VERIFY_FAILED"):
        await producer.send("t", b"v")
    front.stop()
