"""What clients push of their own metrics (KIP-714) is shown: over Kafka's protocol, over HTTP, by `coterie clients` and in
`groups why`. The client is librdkafka, which pushes as Java's does."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.broker.clients.otlp import DataPoint, NoMetrics, pushed_metrics
from coterie.broker.clients.telemetry import KEPT_BYTES, NO_INSTANCE, Push, Telemetry, telemetry_clients
from coterie.broker.requests.calls import Call, ClientConnection, Software
from coterie.broker.settings.tables.resource_tables import client_metrics_config
from coterie.broker.web.http import HttpServer
from coterie.cli import main
from coterie.client.blocking import BlockingAdmin
from coterie.records import compression
from coterie.testing import LocalBroker
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.awaiting import until_in_thread
from tests.broker.web.test_http import _get

CLIENT_METRICS, SET = 16, 0


def varint(value: int) -> bytes:
    more = value >> 7
    return bytes([value & 0x7F | (0x80 if more else 0)]) + (varint(more) if more else b"")


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 1) + value


def otlp(*metrics: tuple[str, int, bytes]) -> bytes:
    """Metrics of (name, 5 gauge or 7 sum, the fields of its data point)."""
    named = b"".join(field(2, field(1, name.encode()) + field(kind, field(1, point))) for name, kind, point in metrics)
    return field(1, field(1, b"") + field(2, field(1, b"scope") + named))


IDLE = ("org.apache.kafka.consumer.poll.idle.ratio.avg", 5, fixed(4, struct.pack("<d", 0.25)))
TOPIC = field(7, field(1, b"topic") + field(2, field(1, b"orders")))
TOTAL = ("org.apache.kafka.consumer.fetch.total", 7, fixed(6, struct.pack("<q", -7)) + TOPIC)


def test_gauges_and_sums_are_read() -> None:
    assert pushed_metrics(otlp(IDLE, TOTAL)) == [
        DataPoint("org.apache.kafka.consumer.poll.idle.ratio.avg", (), 0.25),
        DataPoint("org.apache.kafka.consumer.fetch.total", ("topic=orders",), -7.0),
    ]
    infinite = (IDLE[0], 5, fixed(4, struct.pack("<d", float("inf"))))
    assert pushed_metrics(otlp(infinite)) == [DataPoint(IDLE[0], (), None)]
    assert pushed_metrics(b"") == []


def test_other_bytes_are_no_metrics() -> None:
    whole = otlp(IDLE, TOTAL)
    for end in range(1, len(whole)):
        try:
            pushed_metrics(whole[:end])
        except NoMetrics:
            continue
    with pytest.raises(NoMetrics, match="not OTLP"):
        pushed_metrics(b"\xff" * 20)


class Pushing:
    def __init__(self) -> None:
        self.ids = 16
        self.telemetry = Telemetry(1 << 20, self.fresh_id)
        self.telemetry.configure("all", client_metrics_config({"metrics": "*", "interval.ms": "1000"}))

    def fresh_id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")

    def push(self, client_id: str, metrics: bytes, codec: int = 0) -> None:
        call = Call(0, client_id, ClientConnection("/127.0.0.1", software=Software("kgo")))
        instance_id, subscription = self.telemetry.subscribe(NO_INSTANCE, call, 0)
        push = Push(subscription.subscription_id, False, codec, metrics)
        self.telemetry.push(instance_id, call, push, 1_000)


def test_the_last_push_of_each_client_is_kept_and_read_when_it_is_asked_for() -> None:
    pushing = Pushing()
    pushing.push("anna", compression.compress(compression.GZIP, otlp(IDLE)), compression.GZIP)
    pushing.push("ben", b"\xff" * 20)
    anna, ben = telemetry_clients(pushing.telemetry, 3_000)
    assert (anna["client_id"], anna["pushes"], anna["last_push_ms"], anna["problem"]) == ("anna", 1, 2_000, None)
    assert anna["metrics"] == [{"name": IDLE[0], "attributes": [], "value": 0.25}]
    assert (ben["metrics"], "not OTLP" in ben["problem"]) == ([], True)


def test_what_is_kept_of_all_clients_is_bounded() -> None:
    pushing = Pushing()
    for number in range(12):
        pushing.push(f"client-{number:02}", b"x" * (1 << 20))
    kept = [len(instance.metrics) for _, instance in pushing.telemetry.instances()]
    assert sum(kept) == KEPT_BYTES
    assert kept[:4] == [0] * 4


@pytest.fixture
def subscribed() -> Iterator[LocalBroker]:
    with LocalBroker({"group.initial.rebalance.delay.ms": "0"}) as broker:
        broker.create_topic("orders", 2)
        settings = [AlterableConfig(name, SET, value) for name, value in (("metrics", "*"), ("interval.ms", "100"))]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, "all", settings)])
        broker._request(request, broker.host, broker.port)
        yield broker


def coterie(broker: LocalBroker, line: str) -> str:
    result = CliRunner().invoke(main, [*line.split(), "-b", broker.bootstrap_servers], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_metrics_of_librdkafka(subscribed: LocalBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": subscribed.bootstrap_servers, "group.id": "crew", "client.id": "anna"}
    )
    try:
        consumer.subscribe(["orders"])
        with BlockingAdmin({"bootstrap.servers": subscribed.bootstrap_servers}) as admin:

            def pushed() -> Any:
                consumer.poll(0.05)
                return [one for one in admin.telemetry_clients() if one.metrics and consumer.assignment()]

            until_in_thread(pushed, "a push")
            (anna,) = pushed()
            assert (anna.client_id, anna.host, anna.subscribed, anna.problem) == ("anna", "127.0.0.1", ("*",), None)
            assert any(metric.name.startswith("org.apache.kafka.consumer.") for metric in anna.metrics)
            (member,) = admin.explain_group("crew").members
        assert member.pushed
        assert member.last_push_ms is not None
        assert " pushed " in coterie(subscribed, "groups why crew")
        listed = coterie(subscribed, "clients")
        assert listed.splitlines()[1].split()[:2] == ["anna", "127.0.0.1"]
        assert anna.metrics[0].name in coterie(subscribed, "clients anna")
        (document,) = json.loads(coterie(subscribed, "clients anna --json"))
        assert document["metrics"]
    finally:
        consumer.close()


def test_over_http(subscribed: LocalBroker) -> None:
    async def get() -> Any:
        server = HttpServer(subscribed.broker)
        host, port = await server.start("127.0.0.1", 0)
        try:
            return json.loads(await asyncio.to_thread(_get, f"http://{host}:{port}/clients"))
        finally:
            await server.stop()

    assert asyncio.run(get()) == []


def test_no_client_pushes(coterie_broker: LocalBroker) -> None:
    assert coterie(coterie_broker, "clients") == "no client pushes metrics\n"
    missing = CliRunner().invoke(main, ["clients", "anna", "-b", coterie_broker.bootstrap_servers])
    assert (missing.exit_code, "no metrics of a client anna" in missing.stderr) == (1, True)
