"""Requests that are not served: the connection ends, as Kafka ends it; they are counted, and logged once for each kind."""

from __future__ import annotations

import logging
import struct

import pytest

from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.unserved import KINDS_KEPT, OTHERS, UnservedRequest, UnservedRequests
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.wire.messages.brokers.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.connections.test_server import broker, run


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
