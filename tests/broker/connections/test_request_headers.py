"""What a connection keeps of the headers of its requests: the next header is compared with it, and decoded where it
differs. Requests that are not served: the connection ends, as Kafka ends it; they are counted, and logged once for each
kind."""

from __future__ import annotations

import logging
import random
import struct
from typing import Any

import pytest

from coterie.broker.connections import accepted_connection
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.request_queue import MOST_HEARTBEAT_BYTES
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.unserved import KINDS_KEPT, OTHERS, UnservedRequest, UnservedRequests
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.wire.messages.brokers.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.connections.test_server import broker, run
from tests.broker.frames_broker import FakeTransport, FramesBroker

HEARTBEAT = HeartbeatRequest("g", 1, "m")


class Requested:
    """A connection whose Heartbeats and FindCoordinators are recorded as they reach their handlers."""

    def __init__(self) -> None:
        self.broker = FramesBroker(World(1))
        self.calls, self.requests = list[Call](), list[Any]()
        handlers = dict(self.broker.handlers)
        for key in (10, 12):
            handlers[key] = self._recording(key)
        self.broker.handlers = handlers
        self.transport = FakeTransport()
        self.connection = AcceptedConnection(self.broker)
        self.connection.connection_made(self.transport)

    def _recording(self, key: int) -> Handler:
        handler = self.broker.handlers[key]

        def handle(broker: Services, request: Any, call: Call) -> Message | Pending | None:
            self.calls.append(call)
            self.requests.append(request)
            return handler(broker, request, call)

        return handle

    def send(self, frame: bytes) -> list[bytes]:
        """The bytes that came back."""
        self.transport.written.clear()
        self.broker.turns.spent_s = 0.0  # the share of real time of a turn of the loop
        self.connection.data_received(frame)
        return list(self.transport.written)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> Requested:
    monkeypatch.setattr(accepted_connection, "MAX_TURN_S", 60.0)  # of real time
    return Requested()


def test_the_client_id_of_each_request_is_its_own(requested: Requested) -> None:
    for client in ("one", "one", "two", None, "", "on", "one"):
        assert requested.send(encode_request(7, client, HEARTBEAT, 4))
        assert requested.calls[-1].client_id == (client or "")
        assert requested.connection.client_id == (client or "")


def test_the_version_of_each_request_is_its_own(requested: Requested) -> None:
    for version in (4, 0, 4, 3, 3):
        (frame,) = requested.send(encode_request(version + 70, "one", HEARTBEAT, version))
        assert decode_response(HeartbeatResponse, frame[4:], version).error_code
        assert int.from_bytes(frame[4:8], "big") == version + 70
        assert requested.calls[-1].api_version == version
    assert requested.send(encode_request(7, "one", FindCoordinatorRequest("g"), 3))
    assert requested.calls[-1].api_version == 3


def test_one_call_serves_the_requests_of_a_client(requested: Requested) -> None:
    for number in range(3):
        requested.send(encode_request(number, "one", HEARTBEAT, 4))
    assert requested.calls[0] is requested.calls[2]
    requested.send(encode_request(9, "one", ApiVersionsRequest("librdkafka", "2.1"), 3))
    requested.send(encode_request(10, "one", HEARTBEAT, 4))
    assert requested.calls[-1].connection.software.text == "librdkafka 2.1"


def test_a_heartbeat_that_is_the_same_is_not_decoded_again(requested: Requested) -> None:
    for number in range(3):
        requested.send(encode_request(number, "one", HEARTBEAT, 4))
        requested.send(encode_request(number, "one", FindCoordinatorRequest("g"), 3))
    assert requested.requests[0] is requested.requests[2] is requested.requests[4]
    assert requested.calls[4].api_version == 4
    assert requested.requests[1] is not requested.requests[3]


def test_of_heartbeats_in_any_order_each_is_as_if_it_came_alone() -> None:
    """Clients, versions and members change, with other requests between."""
    rng, requested = random.Random(1), Requested()
    for number in range(5_000):
        client, version, member = rng.choice(["one", None]), rng.choice([3, 4]), rng.choice(["m", "n"])
        request: Any = HeartbeatRequest("g", 1, member)
        if rng.random() < 0.5:
            request, version = FindCoordinatorRequest(member), 3
        (response,) = requested.send(encode_request(number, client, request, version))
        assert requested.requests[-1] == request
        call = requested.calls[-1]
        assert (call.client_id, call.api_version, call) == (
            client or "",
            version,
            requested.connection._requests.latest,
        )
        assert int.from_bytes(response[4:8], "big") == number


def test_a_large_heartbeat_is_not_kept(requested: Requested) -> None:
    large = HeartbeatRequest("g", 1, "m" * MOST_HEARTBEAT_BYTES)
    for number in range(2):
        requested.send(encode_request(number, "one", large, 4))
    assert requested.requests[0] is not requested.requests[1]


def test_a_header_with_tags_is_read_each_time(requested: Requested) -> None:
    plain = encode_request(7, "one", HEARTBEAT, 4)
    body_at = 4 + 10 + len("one")
    tagged = plain[4:body_at] + b"\x01\x07\x02ab" + plain[body_at + 1 :]
    with_tags = struct.pack(">i", len(tagged)) + tagged
    responses = [requested.send(frame) for frame in (plain, with_tags, plain, with_tags)]
    assert responses == [responses[0]] * 4
    assert not requested.transport.closed


@pytest.mark.parametrize("size", [8, 9, 11, 13])
def test_a_header_that_is_cut_short_closes_the_connection(requested: Requested, size: int) -> None:
    requested.send(encode_request(7, "one", HEARTBEAT, 4))
    cut = encode_request(7, "one", HEARTBEAT, 4)[4 : 4 + size]
    assert requested.send(struct.pack(">i", size) + cut) == []
    assert requested.transport.closed


def test_requests_in_pieces_and_together_are_answered_like_single_ones(requested: Requested) -> None:
    frames = [encode_request(n, "one", HEARTBEAT, 4) for n in range(4)]
    single = [requested.send(frame)[0] for frame in frames]
    together = b"".join(frames)
    for cut in (1, 3, 4, 20, len(frames[0]), len(frames[0]) + 2, len(together) - 1):
        assert b"".join(requested.send(together[:cut]) + requested.send(together[cut:])) == b"".join(single)


def test_the_rest_of_a_request_that_looks_like_a_request_is_none(requested: Requested) -> None:
    inner = encode_request(7, "one", HEARTBEAT, 4)
    assert requested.send(struct.pack(">i", len(inner))) == []
    assert requested.send(inner) == []  # as a whole an unreadable Produce
    assert requested.transport.closed


def frame(api_key: int, version: int) -> bytes:
    return struct.pack(">ihhih", 13, api_key, version, 7, 3) + b"raw"


@pytest.mark.parametrize(
    ("api_key", "version", "name"),
    [
        (55, 0, "DescribeQuorum version 0 is not served (client raw)"),
        (999, 0, "key 999 version 0 is not served (client raw)"),
        (3, 99, "Metadata version 99 is not served; served are 0 to 13 (client raw)"),
    ],
)
def test_each_kind_is_logged_once(api_key: int, version: int, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with broker() as connect:
            for _ in range(3):
                client = await connect()
                client.writer.write(frame(api_key, version))
                assert await client.is_closed()

    with caplog.at_level(logging.WARNING):
        run(story)
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [name]


async def test_a_client_is_named_by_its_software(caplog: pytest.LogCaptureFixture) -> None:
    async with broker() as connect:
        client = await connect()
        await client.ask(ApiVersionsRequest("sarama", "1.45"), ApiVersionsResponse, 3)
        client.writer.write(frame(55, 0))
        assert await client.is_closed()
    assert "client sarama 1.45" in caplog.text


async def test_answers_to_what_came_before_are_sent_first() -> None:
    async with broker() as connect:
        client = await connect()
        client.send(ApiVersionsRequest(), 0)
        client.writer.write(frame(55, 0))
        assert int.from_bytes((await client.frame())[:4], "big") == 1
        assert await client.is_closed()


def test_kinds_are_counted_up_to_a_limit() -> None:
    unserved, call = UnservedRequests(), Call(99, "c", ClientConnection("/127.0.0.1"))
    for key in range(KINDS_KEPT + 5):
        unserved.add(call, key)
    assert (len(unserved.counts), unserved.counts[OTHERS]) == (KINDS_KEPT + 1, 5)
    unserved.add(call, 55)
    assert unserved.counts[UnservedRequest("c", "DescribeQuorum", 99)] == 2


@pytest.mark.parametrize(("controller_id", "code"), [(1, 42), (2, 136), (-1, 136)])
async def test_no_controller_can_be_unregistered(controller_id: int, code: int) -> None:
    """QuorumController's unregisterController: not the active one, and no other is registered"""
    async with broker() as connect:
        request = UnregisterControllerRequest(controller_id)
        response = await (await connect()).ask(request, UnregisterControllerResponse, 0)
        assert response.error_code == code
        assert response.error_message.startswith("Controller ")


@pytest.mark.parametrize(("broker_id", "code"), [(1, 42), (2, 102), (-1, 102)])
async def test_no_broker_can_be_unregistered(broker_id: int, code: int) -> None:
    async with broker() as connect:
        request = UnregisterBrokerRequest(broker_id)
        response = await (await connect()).ask(request, UnregisterBrokerResponse, 0)
        assert response.error_code == code
