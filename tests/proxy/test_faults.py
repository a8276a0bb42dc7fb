"""Faults at the proxy: each as at a `LocalBroker`, before a broker that knows nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from coterie.testing.faults import API_KEYS, FaultRule
from coterie.testing.simulated import simulate
from coterie.wire.apis import APIS
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest
from tests.proxy.worlds import RawClient, WorldProxy
from tests.testing.test_faults import VERSIONS, fields, request_of

BEAT = HeartbeatRequest("billing", 1, "m")
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID  # what the broker says of it


def code_of(frame: bytes) -> int:
    return decode_response(HeartbeatResponse, frame, 4).error_code


@pytest.fixture
def proxied() -> Iterator[WorldProxy]:
    with simulate(1) as world:
        yield WorldProxy(world, world.broker())


async def test_a_failed_request_has_its_code_in_every_version_and_does_not_reach_the_broker(
    proxied: WorldProxy,
) -> None:
    client = await RawClient(proxied).open()
    for number, (api, version) in enumerate(VERSIONS):
        requested = proxied.broker.requested(api)
        proxied.faults.rules = [FaultRule(api, None, None, 1, ErrorCode.NOT_CONTROLLER)]
        frame = await client.exchange(request_of(api, version), version, number)
        assert int.from_bytes(frame[:4], "big") == number
        response = decode_response(APIS[API_KEYS[api]].response, frame, version)
        codes = {code for _, code in fields(response, {"error_code"})}
        assert ErrorCode.NOT_CONTROLLER in codes, (api, version)
        assert proxied.broker.requested(api) == requested


async def test_responses_keep_the_order_of_pipelined_requests(proxied: WorldProxy) -> None:
    proxied.faults.rules = [FaultRule("Heartbeat", None, None, 9, ErrorCode.NOT_COORDINATOR)]
    client = await RawClient(proxied).open()
    requests = [(MetadataRequest([]), 12), (BEAT, 4), (BEAT, 4), (ApiVersionsRequest("a", "1"), 3), (BEAT, 4)]
    frames = [encode_request(n, "c", request, version) for n, (request, version) in enumerate(requests)]
    client.writer.write(b"".join(frames))
    assert [int.from_bytes((await client.frame())[:4], "big") for _ in requests] == [0, 1, 2, 3, 4]


async def test_a_held_request_holds_its_connection_and_no_other(proxied: WorldProxy) -> None:
    rule = FaultRule("Heartbeat", "billing", None, 1)
    proxied.faults.rules = [rule]
    held, other = await RawClient(proxied).open(), await RawClient(proxied).open()
    frame = encode_request(1, "c", BEAT, 4) + encode_request(2, "c", ListGroupsRequest(), 4)
    held.writer.write(frame)
    assert code_of(await other.exchange(HeartbeatRequest("shipping", 1, "m"), 4)) == UNKNOWN
    await asyncio.sleep(60)
    assert len(rule.held) == 1
    assert proxied.broker.requested("ListGroups") == 0
    rule.held.pop()()
    assert code_of(await held.frame()) == UNKNOWN
    assert (await held.frame())[:4] == b"\0\0\0\2"


async def test_a_delayed_request_comes_so_much_later(proxied: WorldProxy) -> None:
    proxied.faults.rules = [FaultRule("Heartbeat", None, None, 1, delay_s=30.0)]
    client = await RawClient(proxied).open()
    began_s = proxied.world.now_s
    assert code_of(await client.exchange(BEAT, 4)) == UNKNOWN
    assert 30 <= proxied.world.now_s - began_s < 31
    assert code_of(await client.exchange(BEAT, 4)) == UNKNOWN
    assert proxied.world.now_s - began_s < 32


async def test_a_lost_response_silences_the_connection_though_the_request_is_carried_out(proxied: WorldProxy) -> None:
    proxied.faults.rules = [FaultRule("Heartbeat", None, None, 1, lost=True)]
    client = await RawClient(proxied).open()
    client.writer.write(encode_request(1, "c", BEAT, 4) + encode_request(2, "c", ListGroupsRequest(), 4))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await client.frame()
    assert (proxied.broker.requested("Heartbeat"), proxied.broker.requested("ListGroups")) == (1, 1)


async def test_a_cut_ends_the_connection_before_the_broker_has_the_request(proxied: WorldProxy) -> None:
    proxied.faults.rules = [FaultRule("Heartbeat", None, "other", 1, is_cut=True)]
    client = await RawClient(proxied).open()
    assert code_of(await client.exchange(BEAT, 4, client_id="one")) == UNKNOWN
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await client.exchange(BEAT, 4, client_id="other")
    assert proxied.broker.requested("Heartbeat") == 1
    assert not proxied.proxy.passages


async def test_connections_of_one_client_are_dropped(proxied: WorldProxy) -> None:
    one, other = await RawClient(proxied).open(), await RawClient(proxied).open()
    await one.exchange(BEAT, 4, client_id="one")
    await other.exchange(BEAT, 4, client_id="other")
    assert proxied.proxy.drop_connections("one") == 1
    assert code_of(await other.exchange(BEAT, 4, client_id="other")) == UNKNOWN
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await one.exchange(BEAT, 4)
