"""TLS and logins: the proxy's own towards the cluster, and a client's that passes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coterie.client.connection.connection import Connection
from coterie.client.settings.settings import client_settings
from coterie.proxy.proxy import Proxy
from coterie.testing import LocalBroker
from coterie.testing.simulated import simulate
from coterie.wire.apis import APIS, advertised_versions
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request, encode_response, read_head, skip_tags
from coterie.wire.messages.clients.api_versions import ApiVersionsResponse
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.client.connection.test_security import TlsFront


async def test_the_proxy_speaks_tls_to_the_broker(tmp_path: Path) -> None:
    with LocalBroker() as broker:
        front = TlsFront(broker, tmp_path, wants_certificate=True)
        port = await front.start()
        settings = {"security.protocol": "SSL", "ssl.truststore.location": str(front.ca)}
        security = client_settings(settings | {"ssl.keystore.location": str(front.client)}).security()
        proxy = Proxy([("127.0.0.1", port)], security)
        host, own_port = await proxy.start("127.0.0.1", 0)
        connection = await Connection.connect(host, own_port, "c", 5.0)
        response = await connection.request(MetadataRequest([]), MetadataResponse, 5.0)
        # The broker behind the TLS end names its plain port, for which there is a listener now.
        assert (response.brokers[0].host, response.brokers[0].port) == proxy.addresses[broker.host, broker.port]
        connection.close()
        front.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task  # the TLS end passes on that the connection has ended
        assert not proxy.passages
        await proxy.stop()


class LoginServer:
    """A broker that knows PLAIN and Metadata, and writes down what it was asked."""

    def __init__(self) -> None:
        self.seen: list[Message | bytes] = []

    async def serve(self) -> None:
        await (await asyncio.start_server(self._serve, "sasl", 9092)).serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tokens = 0
        while size := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            if tokens:
                tokens -= 1
                self.seen.append(frame)
                writer.write((3).to_bytes(4, "big") + b"tok")
                continue
            head = read_head(frame)
            cls = APIS[head.api_key].request
            at = skip_tags(frame, head.body_at) if head.api_version in cls.flexible else head.body_at
            request = cls.decode(frame, head.api_version, at)
            self.seen.append(request)
            tokens = int(isinstance(request, SaslHandshakeRequest) and head.api_version == 0)
            writer.write(encode_response(head.correlation_id, self._response(request), head.api_version))

    @staticmethod
    def _response(request: Message) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(0, ["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            return SaslAuthenticateResponse(0, None, b"")
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=[MetadataResponseBroker(1, "sasl", 9092)])
        return ApiVersionsResponse(api_keys=advertised_versions())


def test_the_proxy_logs_in_by_its_credentials_and_the_client_needs_none() -> None:
    with simulate(1) as world:
        server = LoginServer()
        world.spawn("sasl", server.serve)
        process = world.process("proxy")
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u", "sasl.password": "p"}

        async def start() -> tuple[str, int]:
            return await Proxy([("sasl", 9092)], client_settings(settings).security()).start("proxy", 0)

        host, port = world.run_in(process, start())

        async def ask() -> str:
            connection = await Connection.connect(host, port, "c", 5.0)
            response = await connection.request(MetadataRequest([]), MetadataResponse, 5.0)
            connection.close()
            return response.brokers[0].host

        assert world.run(ask()) == "proxy"
        assert SaslAuthenticateRequest(b"\0u\0p") in server.seen


def test_tokens_behind_the_first_handshake_pass_and_requests_are_read_again() -> None:
    with simulate(2) as world:
        server = LoginServer()
        world.spawn("sasl", server.serve)
        process = world.process("proxy")

        async def start() -> tuple[str, int]:
            return await Proxy([("sasl", 9092)]).start("proxy", 0)

        host, port = world.run_in(process, start())

        async def ask() -> tuple[bytes, MetadataResponse]:
            reader, writer = await asyncio.open_connection(host, port)

            async def exchange(frame: bytes) -> bytes:
                writer.write(frame)
                return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

            await exchange(encode_request(1, "c", SaslHandshakeRequest("PLAIN"), 0))
            token = await exchange((4).to_bytes(4, "big") + b"\0u\0p")
            frame = await exchange(encode_request(2, "c", MetadataRequest([]), 1))
            return token, MetadataResponse.decode(frame, 1, 4)

        token, response = world.run(ask())
        assert token == b"tok"
        assert b"\0u\0p" in server.seen
        assert response.brokers[0].host == "proxy"
