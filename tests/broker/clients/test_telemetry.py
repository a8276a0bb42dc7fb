"""Client telemetry: the responses of Apache Kafka 4.3.0, and which subscriptions a client gets."""

from __future__ import annotations

import itertools

import pytest

from coterie.broker.clients.telemetry import NO_INSTANCE, Push, Subscription, Telemetry
from coterie.broker.requests.calls import Call, ClientConnection, Software
from coterie.broker.settings.tables.resource_tables import client_metrics_config
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.clients.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from coterie.wire.messages.clients.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.connections.test_server import Client, broker

CLIENT = Call(0, "probe", ClientConnection("/127.0.0.1", 5, software=Software("kgo", "1")))
INTERVAL_MS, MAX_BYTES = 300_000, 100
CLIENT_METRICS, SET, DELETE = 16, 0, 1


class Pushing:
    """One client of a `Telemetry`, with a clock."""

    def __init__(self, *configs: dict[str, str]) -> None:
        ids = itertools.count(16)
        self.telemetry = Telemetry(MAX_BYTES, lambda: next(ids).to_bytes(16, "big"))
        for name, config in enumerate(configs):
            self.telemetry.configure(str(name), client_metrics_config(config))
        self.now_ms = 1_000
        self.id, self.subscription = NO_INSTANCE, Subscription(0, (), 0)

    def get(self) -> ErrorCode:
        try:
            self.id, self.subscription = self.telemetry.subscribe(self.id, CLIENT, self.now_ms)
        except Refusal as refusal:
            return refusal.code
        return ErrorCode.NONE

    def push(
        self, *, subscription_id: int = 0, terminating: bool = False, compression: int = 0, size: int = 1
    ) -> ErrorCode:
        wanted = self.subscription.subscription_id + subscription_id
        push = Push(wanted, terminating, compression, b"x" * size)
        try:
            self.telemetry.push(self.id, CLIENT, push, self.now_ms)
        except Refusal as refusal:
            return refusal.code
        return ErrorCode.NONE


THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_requests_keep_to_the_interval_and_the_first_push_may_be_early() -> None:
    client = Pushing()
    assert (client.get(), client.get()) == (ErrorCode.NONE, THROTTLED)
    assert (client.push(), client.push(), client.get()) == (ErrorCode.NONE, THROTTLED, THROTTLED)
    client.now_ms += INTERVAL_MS - 1
    assert client.push() == THROTTLED
    client.now_ms += 1
    assert (client.push(), client.push()) == (ErrorCode.NONE, THROTTLED)
    assert (client.telemetry.pushes, client.telemetry.pushed_bytes) == ({"kgo 1": 2}, {"kgo 1": 2})


def test_the_last_push_of_a_client_is_always_taken() -> None:
    client = Pushing()
    client.get()
    assert (client.push(), client.push(terminating=True)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert client.push(terminating=True) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("wrong", "code", "may_ask_again"),
    [
        ({"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
        ({"compression": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        ({"size": MAX_BYTES + 1}, ErrorCode.TELEMETRY_TOO_LARGE, False),
    ],
)
def test_a_wrong_push(wrong: dict[str, int], code: ErrorCode, may_ask_again: bool) -> None:
    client = Pushing()
    client.get()
    assert client.push(**wrong) == code  # type: ignore[arg-type]
    assert client.get() == (ErrorCode.NONE if may_ask_again else THROTTLED)
    assert client.push() == (ErrorCode.NONE if may_ask_again else THROTTLED)


def test_a_push_without_a_subscription() -> None:
    client = Pushing()
    for reserved in (NO_INSTANCE, bytes(15) + b"\x01"):
        client.id = reserved
        assert client.push() == ErrorCode.INVALID_REQUEST


A = {"metrics": "a.b,c", "interval.ms": "1000", "match": "client_id=pro.*"}
ROWS = [
    ([], (), INTERVAL_MS),
    ([A], ("a.b", "c"), 1000),
    ([A, {"metrics": "d", "interval.ms": "500"}], ("a.b", "c", "d"), 500),
    ([A, {"metrics": "*"}], ("*",), 1000),
    ([{"metrics": "a", "match": "client_id=pro"}], (), INTERVAL_MS),
    ([{"metrics": "a", "match": "client_id=probe, client_software_name=k.o"}], ("a",), INTERVAL_MS),
    ([{"metrics": "a", "match": "client_id=probe,client_software_name=java"}], (), INTERVAL_MS),
    ([{"metrics": "a", "match": "client_id=("}], (), INTERVAL_MS),
    ([{"metrics": ""}], (), INTERVAL_MS),
]


@pytest.mark.parametrize(("configs", "metrics", "interval_ms"), ROWS)
def test_a_client_gets_what_matches_it(
    configs: list[dict[str, str]], metrics: tuple[str, ...], interval_ms: int
) -> None:
    client = Pushing(*configs)
    client.get()
    assert (client.subscription.metrics, client.subscription.interval_ms) == (metrics, interval_ms)


def test_a_changed_subscription_takes_effect_at_once() -> None:
    client = Pushing(A)
    client.get()
    old = client.subscription
    client.telemetry.configure("d", client_metrics_config({"metrics": "d"}))
    assert client.push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get() == ErrorCode.NONE
    assert client.subscription.subscription_id != old.subscription_id
    assert client.push() == ErrorCode.NONE


async def get(client: Client, instance_id: bytes = NO_INSTANCE) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(instance_id)
    return await client.ask(request, GetTelemetrySubscriptionsResponse, 0)


TELEMETRY_KEYS = {71, 72}


async def advertised(client: Client) -> set[int]:
    response = await client.ask(ApiVersionsRequest("kgo", "1"), ApiVersionsResponse, 3)
    return {api.api_key for api in response.api_keys}


async def set_metrics(client: Client, operation: int) -> None:
    """Makes the subscription "mine", or removes it, as its only setting goes."""
    resource = AlterConfigsResource(CLIENT_METRICS, "mine", [AlterableConfig("metrics", operation, "a")])
    response = await client.ask(IncrementalAlterConfigsRequest([resource]), IncrementalAlterConfigsResponse, 1)
    assert response.responses[0].error_code == ErrorCode.NONE


async def test_telemetry_is_offered_while_a_subscription_exists() -> None:
    async with broker() as connect:
        client = await connect()
        assert not await advertised(client) & TELEMETRY_KEYS
        assert not (await get(client)).error_code, "what is not advertised is served all the same, as by Kafka"
        await set_metrics(client, SET)
        assert await advertised(client) >= TELEMETRY_KEYS
        await set_metrics(client, DELETE)
        assert not await advertised(client) & TELEMETRY_KEYS


async def test_telemetry_is_offered_where_it_is_asked_for() -> None:
    async with broker(coterie_telemetry_enable="true") as connect:
        assert await advertised(await connect()) >= TELEMETRY_KEYS


async def test_requests_name_the_subscription_and_push() -> None:
    async with broker() as connect:
        client = await connect()
        await client.ask(ApiVersionsRequest("kgo", "1"), ApiVersionsResponse, 3)
        match = "client_software_name=kgo,client_source_address=127.0.0.1"
        configs = [AlterableConfig("metrics", SET, "a"), AlterableConfig("match", SET, match)]
        alter = IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, "mine", configs)])
        altered = await client.ask(alter, IncrementalAlterConfigsResponse, 1)
        assert altered.responses[0].error_code == ErrorCode.NONE
        response = await get(client)
        assert (response.error_code, response.requested_metrics) == (ErrorCode.NONE, ["a"])
        assert (response.push_interval_ms, response.telemetry_max_bytes) == (300_000, 1_048_576)
        assert (response.accepted_compression_types, response.delta_temporality) == ([4, 3, 1, 2], True)
        early = await get(client, response.client_instance_id)
        assert (early.error_code, early.client_instance_id) == (THROTTLED, NO_INSTANCE)
        push = PushTelemetryRequest(response.client_instance_id, response.subscription_id, False, 0, b"otlp")
        codes = [(await client.ask(push, PushTelemetryResponse, 0)).error_code for _ in range(2)]
        assert codes == [ErrorCode.NONE, THROTTLED]
        other = await connect()
        assert (await get(other)).requested_metrics == []
