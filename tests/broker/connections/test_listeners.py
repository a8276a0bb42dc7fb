"""Several listeners of one broker, and TLS on them: certificates in PEM and PKCS12, of clients too, and reloaded ones."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from coterie.authentication.principal import ANONYMOUS, Principal
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.settings import SettingError
from coterie.broker.settings.listeners import Listener
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import Security
from coterie.laboratory.world import World
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.broker.frames_broker import FakeTransport, FramesBroker
from tests.broker.served_listeners import record_principals, serving


class Certificates:
    """An authority with the files of the broker and of one client."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.folder = trustme.CA(), folder
        self.ca, self.broker, self.client = folder / "ca.pem", folder / "broker.pem", folder / "client.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()
        issued = self.authority.issue_cert("client", common_name="alice", organization_name="example")
        issued.private_key_and_cert_chain_pem.write_to_path(self.client)

    def renew(self) -> None:
        """Another certificate in the same file, as certificate managers write it."""
        new = self.folder / "new.pem"
        self.authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(new)
        os.replace(new, self.broker)

    def settings(self, **more: object) -> dict[str, object]:
        own = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(self.broker)}
        return own | {name.replace("_", "."): value for name, value in more.items()}

    def security(self, *, with_client: bool = False) -> Security:
        return Security("SSL", str(self.ca), str(self.client) if with_client else None)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def connected(port: int, security: Security | None = None) -> Connection:
    return await Connection.connect("127.0.0.1", port, "c", 20, security or Security())


async def metadata_works(port: int, security: Security) -> None:
    connection = await connected(port, security)
    response = await connection.request(MetadataRequest([]), MetadataResponse, 20)
    connection.close()
    assert [broker.port for broker in response.brokers] == [port]


async def test_each_listener_advertises_its_own_address() -> None:
    """Metadata, FindCoordinator and DescribeCluster alike."""
    given: dict[str, object] = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "advertised.listeners": "INSIDE://inside:1,OUTSIDE://outside:2",
    }
    async with serving(given) as (broker, _):
        ports = [listener.port for listener in broker.listeners]
        assert str(broker.settings["listeners"]) == given["listeners"]
        for number, address in zip(ports, [("inside", 1), ("outside", 2), ("127.0.0.1", ports[2])], strict=True):
            connection = await connected(number)
            nodes: list[Any] = [
                *(await connection.request(MetadataRequest([]), MetadataResponse, 20)).brokers,
                *(await connection.request(DescribeClusterRequest(), DescribeClusterResponse, 20)).brokers,
                *(
                    await connection.request(
                        FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 20
                    )
                ).coordinators,
            ]
            assert [(node.host, node.port) for node in nodes] == [address] * 3
            connection.close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_tls_with_pem_files(certificates: Certificates, version: str) -> None:
    async with serving(certificates.settings(ssl_enabled_protocols=version)) as (_, port):
        await metadata_works(port, certificates.security())


async def test_tls_with_pem_texts(certificates: Certificates) -> None:
    text = certificates.broker.read_text()
    key, chain = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    given: dict[str, object] = {
        "listeners": "SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.keystore.key": key,
        "listener.name.ssl.ssl.keystore.certificate.chain": chain,
    }
    async with serving(given) as (_, port):
        await metadata_works(port, certificates.security())


async def test_tls_with_a_pkcs12_file(certificates: Certificates) -> None:
    pem = certificates.broker.read_bytes()
    key: Any = load_pem_private_key(pem, None)
    data = pkcs12.serialize_key_and_certificates(
        b"broker", key, load_pem_x509_certificate(pem), None, BestAvailableEncryption(b"secret")
    )
    certificates.broker.write_bytes(data)
    async with serving(certificates.settings(ssl_keystore_password="secret")) as (_, port):
        await metadata_works(port, certificates.security())
    with pytest.raises(SettingError, match="neither PEM nor PKCS12, or its password is another one") as error:
        async with serving(certificates.settings(ssl_keystore_password="hunter2")):
            pass
    assert "hunter2" not in str(error.value)


async def test_a_clients_certificate_names_its_principal(certificates: Certificates) -> None:
    given = certificates.settings(ssl_client_auth="requested", ssl_truststore_location=str(certificates.ca))
    async with serving(given) as (broker, port):
        principals = record_principals(broker)
        await metadata_works(port, certificates.security())
        await metadata_works(port, certificates.security(with_client=True))
        assert principals[0] == ANONYMOUS
        assert principals[1].text.startswith("User:CN=alice,OU=")
        assert principals[1].text.endswith(",O=example")
    rules = "RULE:^CN=([^,]+),.*$/$1/U"
    async with serving(given | {"ssl.principal.mapping.rules": rules}) as (broker, port):
        principals = record_principals(broker)
        await metadata_works(port, certificates.security(with_client=True))
        assert principals == [Principal("User", "ALICE")]


async def test_a_certificate_can_be_required(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    given = certificates.settings(ssl_client_auth="required", ssl_truststore_location=str(certificates.ca))
    async with serving(given) as (_, port):
        with pytest.raises(KafkaError):
            await metadata_works(port, certificates.security())
        await metadata_works(port, certificates.security(with_client=True))
    lines = [record.getMessage() for record in caplog.records if "TLS" in record.getMessage()]
    assert len(lines) == 1
    assert "closing the connection from /127.0.0.1: its TLS failed:" in lines[0]


async def served_serial(port: int, certificates: Certificates) -> str:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    serial = str(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"])
    writer.close()
    return serial


async def test_a_store_is_read_again_when_its_file_changes(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections that are open go on; a file that cannot be used changes nothing, and has one line."""
    async with serving(certificates.settings()) as (_, port):
        first = await served_serial(port, certificates)
        earlier = await connected(port, certificates.security())
        certificates.renew()
        second = await served_serial(port, certificates)
        assert second != first
        certificates.broker.write_text("nothing")
        assert await served_serial(port, certificates) == second
        assert await served_serial(port, certificates) == second
        assert (await earlier.request(MetadataRequest([]), MetadataResponse, 20)).brokers
        earlier.close()
    assert caplog.text.count("the listener SSL keeps its certificates") == 1


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ssl.keystore.location", "", "needs listener.name.ssl.ssl.keystore.location, a PEM or PKCS12 file"),
        ("ssl.keystore.location", "/nowhere", "ssl.keystore.location cannot be read: /nowhere: No such file"),
        ("ssl.client.auth", "required", "needs listener.name.ssl.ssl.truststore.location"),
    ],
)
async def test_what_a_listener_with_tls_lacks(certificates: Certificates, name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        async with serving(certificates.settings() | {name: value}):
            pass


async def test_a_jks_file_is_named(certificates: Certificates) -> None:
    certificates.broker.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(SettingError, match="is a JKS file; make a PKCS12 file of it: keytool -importkeystore"):
        async with serving(certificates.settings()):
            pass


async def test_bytes_without_tls_end_their_connection_alone(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(certificates.settings()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(20):
            assert await reader.read() is not None
        writer.close()
        await metadata_works(port, certificates.security())
    assert caplog.text.count("its TLS failed") == 1


async def test_a_client_that_refuses_the_certificate_has_a_line(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio's client closes its connection without an alert."""
    async with serving(certificates.settings()) as (broker, port):
        context = ssl.create_default_context()  # which does not know the authority
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
        async with asyncio.timeout(20):
            while len(broker.connections):
                await asyncio.sleep(0)
    assert caplog.text.count("its TLS failed: ") == 1


def test_a_handshake_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    broker, transport = FramesBroker(world), FakeTransport()
    connection = AcceptedConnection(broker, Listener("SSL", "", 1, "SSL"))
    connection.connection_made(transport)
    world.run_until(world.now_ms + 29_000)
    broker.connections.abort_unauthenticated()
    assert not transport.closed
    world.run_until(world.now_ms + 2_000)
    broker.connections.abort_unauthenticated()
    assert transport.closed
    assert "aborting a connection from /127.0.0.1 without authentication after 30000 ms" in caplog.text


def test_after_the_handshake_there_is_no_such_end() -> None:
    world = World(1)
    broker, transport = FramesBroker(world), FakeTransport()
    connection = AcceptedConnection(broker, Listener("SSL", "", 1, "SSL"))
    connection.connection_made(transport)
    connection.secured()
    world.run_until(world.now_ms + 31_000)
    broker.connections.abort_unauthenticated()
    assert not transport.closed


@pytest.mark.parametrize(
    ("listeners", "message"),
    [
        ("SSL://127.0.0.1:0", "security.inter.broker.protocol must be SSL"),
        ("PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "must have one listener"),
    ],
)
async def test_a_broker_of_a_cluster_has_one_listener(certificates: Certificates, listeners: str, message: str) -> None:
    """It would register an address that the others cannot use, and hand it to clients of the other listener."""
    given = {"listeners": listeners, "zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}
    with pytest.raises(SettingError, match=message):
        async with serving(certificates.settings() | given):
            pass
