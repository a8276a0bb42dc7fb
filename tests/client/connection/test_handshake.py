"""What a client sends first on each connection: as bytes alone, and the same from an event loop and from a thread."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import Handshake
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.wire.apis import APIS
from coterie.wire.codec import decode
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import encode_response, read_head, skip_tags
from coterie.wire.messages.clients.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.wire.primitives import WireError

PLAIN = Security(protocol="SASL_PLAINTEXT", username="anna", password="secret")
REFUSED = ErrorCode.UNSUPPORTED_VERSION


def served(error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    keys = [ApiVersion(key, api.request.versions.first, api.request.versions.last) for key, api in APIS.items()]
    return ApiVersionsResponse(error, keys)


class Server:
    """Responds to frames of a handshake, and keeps the requests. ``oldest_only``: a broker before Kafka 2.4."""

    def __init__(self, *, oldest_only: bool = False, error: ErrorCode = ErrorCode.NONE) -> None:
        self.requests: list[tuple[int, int, Message]] = []  # correlation id, version, request
        self._oldest_only, self._error = oldest_only, error

    def respond(self, frame: bytes) -> bytes:
        """To a frame with its size; the response too."""
        head = read_head(frame[4:])
        kind = APIS[head.api_key].request
        body_at = skip_tags(frame[4:], head.body_at) if head.api_version in kind.flexible else head.body_at
        request: Message = decode(kind, frame[4:], head.api_version, body_at)[0]
        self.requests.append((head.correlation_id, head.api_version, request))
        if isinstance(request, ApiVersionsRequest) and self._oldest_only and head.api_version:
            return encode_response(head.correlation_id, ApiVersionsResponse(REFUSED), 0)
        return encode_response(head.correlation_id, self._response(request), head.api_version)

    def _response(self, request: Message) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse() if isinstance(request, SaslAuthenticateRequest) else served(self._error)


def shake_hands(security: Security, server: Server) -> Handshake:
    handshake = Handshake("me", security.login())
    frame: bytes | None = handshake.start()
    while frame is not None:
        frame = handshake.response(server.respond(frame)[4:])
    return handshake


@pytest.mark.parametrize("security", [PLAINTEXT, PLAIN], ids=["plaintext", "sasl"])
@pytest.mark.parametrize("oldest_only", [False, True], ids=["kafka", "before 2.4"])
def test_requests_of_a_handshake(security: Security, oldest_only: bool) -> None:
    """Software name and version (KIP-511), version 0 where the broker refuses that, then the login."""
    server = Server(oldest_only=oldest_only)
    handshake = shake_hands(security, server)
    requested: list[tuple[int, Message]] = [(3, ApiVersionsRequest("coterie", coterie.__version__))]
    requested += [(0, ApiVersionsRequest())] * oldest_only
    if security is PLAIN:
        requested += [(1, SaslHandshakeRequest("PLAIN")), (2, SaslAuthenticateRequest(b"\0anna\0secret"))]
    assert server.requests == [(number, *request) for number, request in enumerate(requested, 1)]
    assert handshake.correlation_id == len(requested)
    assert handshake.versions is not None
    assert handshake.versions.choose(HeartbeatRequest) == HeartbeatRequest.versions.last


@pytest.mark.parametrize("oldest_only", [False, True])
def test_an_error_instead_of_versions(oldest_only: bool) -> None:
    """Kafka's clients end such a connection; what it lists is not in force."""
    server = Server(oldest_only=oldest_only, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    with pytest.raises(KafkaError, match="ApiVersions failed with UNKNOWN_SERVER_ERROR") as raised:
        shake_hands(PLAINTEXT, server)
    assert raised.value.retriable


def test_a_version_that_is_refused_twice() -> None:
    with pytest.raises(KafkaError, match="ApiVersions failed with UNSUPPORTED_VERSION"):
        shake_hands(PLAINTEXT, Server(oldest_only=True, error=REFUSED))


def test_a_login_that_cannot_be_sent() -> None:
    with pytest.raises(KafkaError, match="SaslHandshakeRequest holds a value that cannot be sent"):
        shake_hands(replace(PLAIN, mechanism="\ud800"), Server())


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.booleans())
def test_any_bytes_end_the_handshake_or_are_an_error(responses: list[bytes], has_login: bool) -> None:
    handshake = Handshake("me", (PLAIN if has_login else PLAINTEXT).login())
    frame: bytes | None = handshake.start()
    for response in responses:
        if frame is None:
            assert handshake.versions is not None
            return
        try:
            frame = handshake.response(b"\0\0\0\1" + response)
        except (KafkaError, WireError):
            return


@pytest.mark.parametrize("security", [PLAINTEXT, PLAIN], ids=["plaintext", "sasl"])
@pytest.mark.parametrize("oldest_only", [False, True], ids=["kafka", "before 2.4"])
async def test_a_loop_and_a_thread_send_the_same(security: Security, oldest_only: bool) -> None:
    """And continue with the next correlation id."""

    async def requests_of(driver: str) -> list[tuple[int, int, Message]]:
        served = Server(oldest_only=oldest_only)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while size := await reader.readexactly(4):
                    writer.write(served.respond(size + await reader.readexactly(int.from_bytes(size, "big"))))
            except asyncio.IncompleteReadError:
                writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = listening.sockets[0].getsockname()
        request = ApiVersionsRequest("last")
        if driver == "loop":
            connection = await Connection.connect(host, port, "me", 10, security)
            await connection.request_version(request, ApiVersionsResponse, 0, 10)
            connection.close()
        else:

            def blocking() -> None:
                socket = BrokerSocket(host, port, "me", 10, security)
                socket.request(request, highest=0)
                socket.close()

            await asyncio.to_thread(blocking)
        listening.close()
        return served.requests

    async with asyncio.timeout(20):
        by_loop, by_thread = await requests_of("loop"), await requests_of("thread")
    assert by_loop == by_thread
    alone = Server(oldest_only=oldest_only)
    handshake = shake_hands(security, alone)
    assert by_loop == [*alone.requests, (handshake.correlation_id + 1, 0, ApiVersionsRequest())]
