"""The connection as a value that handlers ask for: what each request of it finds there, and what it decides."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from coterie.authentication.principal import ANONYMOUS
from coterie.broker.connections import accepted_connection
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Authentication, Call, CannotRespond, Software
from coterie.broker.requests.pending import Pending
from coterie.broker.settings.listeners import Listener
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from tests.broker.frames_broker import FakeTransport, FramesBroker

HEARTBEAT = 12
HEARTBEATS = HeartbeatRequest("g", 1, "m")
INTERNAL = Listener("INTERNAL", "", 9092)


class Client:
    """A connection whose requests are recorded with their calls."""

    def __init__(self) -> None:
        self.world = World(1)
        self.broker = FramesBroker(self.world)
        self.calls: list[Call] = []
        self.broker.handlers = {key: self._recording(handler) for key, handler in self.broker.handlers.items()}
        self.transport = FakeTransport()
        self.accepted = AcceptedConnection(self.broker, INTERNAL)
        self.accepted.connection_made(self.transport)
        self.connection = self.accepted.connection

    def _recording(self, handler: Handler) -> Handler:
        def handle(broker: Services, request: Any, call: Call) -> Message | Pending | None:
            self.calls.append(call)
            return handler(broker, request, call)

        return handle

    def has_response(self, request: Message, version: int) -> bool:
        """False where the connection was closed for it."""
        self.transport.written.clear()
        self.accepted.data_received(encode_request(1, "one", request, version))
        return bool(self.transport.written) and not self.transport.closed


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(accepted_connection, "MAX_TURN_S", 60.0)  # of real time
    return Client()


def test_every_call_has_its_connection(client: Client) -> None:
    assert client.has_response(HEARTBEATS, 4)
    assert client.has_response(HEARTBEATS, 3)
    assert all(call.connection is client.connection for call in client.calls)
    assert (client.connection.host, client.connection.port) == ("/127.0.0.1", 9092)
    assert client.connection.listener.name == "INTERNAL"
    assert client.connection.principal == ANONYMOUS
    assert client.connection.principal.text == "User:ANONYMOUS"


def test_the_software_is_that_of_a_valid_api_versions(client: Client) -> None:
    """As Kafka's channel registers it."""
    assert client.has_response(ApiVersionsRequest("not a name", "1"), 3)
    assert client.connection.software == Software()
    assert client.has_response(ApiVersionsRequest("kgo", "1.2"), 3)
    assert client.connection.software == Software("kgo", "1.2")
    assert client.broker.clients.seen.get("one", "/127.0.0.1").software == "kgo 1.2"


def test_without_authentication_only_its_requests_are_handled(client: Client) -> None:
    client.connection.authentication = Authentication()
    assert client.has_response(ApiVersionsRequest("kgo", "1"), 3)
    assert not client.has_response(HEARTBEATS, 4)
    assert [call.api_version for call in client.calls] == [3]


@pytest.mark.parametrize(("session_ends_s", "is_handled"), [(float("inf"), True), (0.0, False)])
def test_a_session_has_an_end(client: Client, session_ends_s: float, is_handled: bool) -> None:
    client.connection.authentication = Authentication("PLAIN", True, session_ends_s)
    assert client.has_response(HEARTBEATS, 4) == is_handled


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CannotRespond("no more"), "closing the connection from /127.0.0.1: no more"),
        (KeyError("a bug"), "Heartbeat from /127.0.0.1 failed; its connection is closed"),
    ],
)
def test_a_request_that_fails_in_a_later_turn_names_its_client(
    client: Client, caplog: pytest.LogCaptureFixture, error: Exception, line: str
) -> None:
    """There was no address in the lines of later turns."""

    world = client.world

    def work() -> Generator[None, None, Message]:
        began_ms = world.now_ms
        while world.now_ms < began_ms + 20:
            world.now_ms += 1
            yield
        raise error

    client.broker.handlers = client.broker.handlers | {HEARTBEAT: lambda broker, *_: broker.turns.run(work())}
    world.run_until(world.now_ms + 1)  # the start took time of the turn that it was in
    client.accepted.data_received(encode_request(1, "one", HEARTBEATS, 4))
    assert not client.transport.closed
    world.run_until(world.now_ms + 100)
    assert client.transport.closed
    assert line in caplog.text
