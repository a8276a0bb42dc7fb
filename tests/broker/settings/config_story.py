"""Requests that describe and alter settings, in an order that builds state; each response as JSON.

What Apache Kafka answers stands in data/config-story-VERSION.json. To record it again (Java and Maven needed):
python -m tests.broker.settings.config_story 3.9.1 4.3.0
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie.wire.messages.settings.alter_configs import AlterConfigsRequest, ReplacedResource, ReplacingConfig
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.list_config_resources import ListConfigResourcesRequest
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

DATA = Path(__file__).parents[1] / "data"
STATIC = {"log.retention.hours": "24", "log.segment.bytes": "2000000", "message.max.bytes": "900000"}
Response = list[Any]
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC = [
    "retention.ms",
    "segment.bytes",
    "max.message.bytes",
    "cleanup.policy",
    "segment.ms",
    "flush.ms",
    "preallocate",
]
OF_BROKER = [
    *("log.retention.ms", "log.retention.minutes", "log.roll.ms", "log.roll.hours", "log.flush.interval.ms"),
    *("log.flush.scheduler.interval.ms", "log.segment.bytes", "log.cleanup.policy", "message.max.bytes"),
    *("num.partitions", "sasl.jaas.config", "unheard.of"),
]


class ConfigClient:
    """Sends the requests to one broker; each method is a request and returns what its response says."""

    def __init__(self, address: tuple[str, int], wait_s: float) -> None:
        self.socket = BrokerSocket(*address)
        self.wait_s = wait_s  # for a change to come from Kafka's controller to its broker

    def create(self, name: str, configs: list[tuple[str, str | None]], *, validate_only: bool = False) -> Response:
        topic = CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig(*c) for c in configs])
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only)
        result = self.socket.request(request).topics[0]
        time.sleep(self.wait_s)
        named = {c[0] for c in configs} | {"retention.ms", "max.message.bytes"}
        every = result.configs or []
        described = [[c.name, c.value, c.read_only, c.config_source] for c in every if c.name in named]
        return [result.error_code, result.error_message is not None, sorted(described)]

    def alter(
        self, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> Response:
        resource = AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])
        result = self.socket.request(IncrementalAlterConfigsRequest([resource], validate_only)).responses[0]
        time.sleep(self.wait_s)
        return [result.error_code, result.error_message is not None, result.resource_type, result.resource_name]

    def replace(self, kind: int, name: str, *values: tuple[str, str | None], validate_only: bool = False) -> Response:
        resource = ReplacedResource(kind, name, [ReplacingConfig(*value) for value in values])
        result = self.socket.request(AlterConfigsRequest([resource], validate_only)).responses[0]
        time.sleep(self.wait_s)
        return [result.error_code, result.error_message is not None, result.resource_type, result.resource_name]

    def describe(self, kind: int, name: str, keys: list[str] | None, version: int = 4, full: bool = True) -> Response:
        resource = DescribeConfigsResource(kind, name, keys)
        request = DescribeConfigsRequest([resource], include_synonyms=full, include_documentation=full)
        try:
            result = self.socket.request(request, highest=version).results[0]
        except KafkaError as error:
            return [str(error.code)]
        configs = [
            [c.name, c.value, c.read_only, c.config_source, c.is_sensitive, c.config_type, bool(c.documentation)]
            + [[s.name, s.value, s.source] for s in c.synonyms]
            for c in result.configs
        ]
        return [result.error_code, result.error_message is not None, sorted(configs, key=lambda c: str(c[0]))]

    def list(self, *kinds: int, version: int = 1) -> Response:
        result = self.socket.request(ListConfigResourcesRequest(list(kinds)), highest=version)
        return [result.error_code, sorted([c.resource_type, c.resource_name] for c in result.config_resources)]


def steps() -> Iterator[tuple[Any, ...]]:
    """(method, its arguments...): topics, brokers, then what else has settings."""
    yield "create", "t", [("retention.ms", " 5000 "), ("preallocate", "TRUE")]
    yield "create", "without", [("retention.ms", None)]
    yield "create", "unknown", [("unheard.of", "1")]
    yield "create", "twice", [("retention.ms", "1"), ("retention.ms", "2")]
    yield "create", "lags", [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")]
    yield "create", "remote", [("remote.storage.enable", "true")]
    yield "create", "two", [("min.insync.replicas", "2"), ("compression.type", "zstd"), ("cleanup.policy", "")]
    yield "describe", TOPIC, "t", OF_TOPIC
    yield "describe", TOPIC, "t", OF_TOPIC, 4, False
    yield "describe", TOPIC, "t", ["retention.ms", "segment.ms", "unheard.of"], 1
    yield "describe", TOPIC, "t", ["retention.ms"], 3
    for name in ("none", "", "bad name", "."):
        yield "describe", TOPIC, name, None
        yield "alter", TOPIC, name, ("retention.ms", SET, "1")
        yield "replace", TOPIC, name, ("retention.ms", "1")
    yield "describe", BROKER, "1", OF_BROKER
    yield "describe", BROKER, "", OF_BROKER
    yield "alter", BROKER, "", ("log.retention.ms", SET, "70000"), ("unheard.of", SET, "x")
    yield "alter", BROKER, "1", ("log.retention.ms", SET, "60000"), ("log.cleanup.policy", APPEND, "compact")
    yield "alter", BROKER, "1", ("message.max.bytes", SET, " 800000 "), ("sasl.jaas.config", SET, "secret")
    yield "describe", BROKER, "1", OF_BROKER
    yield "describe", BROKER, "", ["log.retention.ms", "unheard.of"]
    yield "describe", TOPIC, "t", OF_TOPIC
    yield "alter", TOPIC, "t", ("retention.ms", DELETE, None)
    yield "describe", TOPIC, "t", OF_TOPIC
    yield "alter", BROKER, "1", ("log.retention.ms", DELETE, None), ("log.flush.interval.ms", SET, "7")
    yield "describe", TOPIC, "t", OF_TOPIC
    yield "alter", BROKER, "", ("log.retention.ms", DELETE, None), ("unheard.of", DELETE, None)
    yield "alter", BROKER, "1", ("log.cleanup.policy", SUBTRACT, "delete")
    yield "describe", TOPIC, "t", OF_TOPIC
    yield from _refused_by_brokers()
    yield "replace", BROKER, "1", ("log.retention.ms", "44000")
    yield "describe", BROKER, "1", OF_BROKER
    yield "replace", BROKER, "1"
    yield "describe", BROKER, "1", OF_BROKER
    yield from _lists_and_replacing()
    for kind in (0, 1, 3, 77, -1):
        yield "describe", kind, "t", None
        yield "alter", kind, "t", ("a", SET, "1")
        yield "replace", kind, "t", ("a", "1")
    yield from _loggers()
    yield from _client_metrics()
    yield from _groups()
    yield from (("list", *kinds) for kinds in ((), (TOPIC,), (BROKER,), (LOGGER,), (TOPIC, GROUP), (1,), (METRICS, 99)))


def _refused_by_brokers() -> Iterator[tuple[Any, ...]]:
    for name in ("", "1"):
        for setting in ("num.partitions", "node.id", "log.retention.hours", "delete.topic.enable", "listeners"):
            yield "alter", BROKER, name, (setting, SET, "3")
        for setting, value in (
            ("log.retention.ms", "x"),
            ("log.cleanup.policy", "x"),
            ("compression.type", "lzo"),
            ("log.cleaner.max.compaction.lag.ms", "0"),
            ("max.connections", "0"),
            ("num.io.threads", "100"),
            ("num.io.threads", "3"),
            ("num.network.threads", "0"),
            ("background.threads", "1"),
            ("ssl.keystore.location", "/x"),
            ("follower.replication.throttled.rate", "x"),
            ("log.retention.ms", None),
        ):
            yield "alter", BROKER, name, (setting, SET, value)
            yield "replace", BROKER, name, (setting, value)
    yield "alter", BROKER, "", ("sasl.jaas.config", SET, "x")
    yield "alter", BROKER, "", ("listener.name.x.ssl.keystore.location", SET, "x")
    yield "alter", BROKER, "1", ("log.retention.ms", SET, "9"), ("log.retention.ms", DELETE, None)
    yield "alter", BROKER, "1", ("log.retention.ms", APPEND, "1")
    yield "alter", BROKER, "1", ("num.partitions", DELETE, None)
    for name in ("2", "x"):
        yield "alter", BROKER, name, ("log.retention.ms", SET, "9")
        yield "replace", BROKER, name, ("log.retention.ms", "9")
        yield "describe", BROKER, name, None


def _lists_and_replacing() -> Iterator[tuple[Any, ...]]:
    replicas = "leader.replication.throttled.replicas"
    yield "replace", TOPIC, "t", ("cleanup.policy", "compact"), ("segment.bytes", "3000000")
    yield "describe", TOPIC, "t", OF_TOPIC
    for value in ("x", None):
        yield "replace", TOPIC, "t", ("segment.bytes", value)
        yield "alter", TOPIC, "t", ("segment.bytes", SET, value)
    yield "replace", TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")
    yield "replace", TOPIC, "t"
    for operation, value in ((APPEND, "compact"), (APPEND, "compact"), (SUBTRACT, "delete"), (SUBTRACT, "compact")):
        yield "alter", TOPIC, "t", ("cleanup.policy", operation, value)
        yield "describe", TOPIC, "t", ["cleanup.policy"]
    yield "alter", TOPIC, "t", (replicas, APPEND, "0:1,1:1")
    yield "alter", TOPIC, "t", (replicas, SUBTRACT, "0:1")
    yield "describe", TOPIC, "t", [replicas]
    yield "alter", TOPIC, "t", ("cleanup.policy", APPEND, "x")
    yield "alter", TOPIC, "t", ("cleanup.policy", APPEND, None)
    yield "alter", TOPIC, "t", ("retention.ms", APPEND, "5")
    yield "alter", TOPIC, "t", ("unheard.of", SET, "1")
    yield "alter", TOPIC, "t", ("unheard.of", DELETE, None)
    yield "alter", TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")
    yield "alter", TOPIC, "t", ("max.compaction.lag.ms", SET, "1"), ("min.compaction.lag.ms", SET, "2")
    yield "alter", TOPIC, "t"
    yield "describe", TOPIC, "t", None


def _loggers() -> Iterator[tuple[Any, ...]]:
    for name in ("", "2", "x"):
        yield "describe", LOGGER, name, ["root"]
        yield "alter", LOGGER, name, ("root", SET, "INFO")
    yield "alter", LOGGER, "1", ("root", SET, "INFO")
    yield "describe", LOGGER, "1", ["root"]
    yield "alter", LOGGER, "1", ("root", SET, "LOUD")
    yield "alter", LOGGER, "1", ("unheard.of", SET, "INFO")
    yield "alter", LOGGER, "1", ("root", DELETE, None)
    yield "alter", LOGGER, "1", ("root", APPEND, "INFO")
    yield "replace", LOGGER, "1", ("root", "INFO")
    yield "alter", LOGGER, "1", ("root", SET, "ERROR")
    yield "describe", LOGGER, "1", ["root", "unheard.of"]


def _client_metrics() -> Iterator[tuple[Any, ...]]:
    for name in ("m", ""):
        yield "describe", METRICS, name, None
        for setting, value in (
            ("interval.ms", "1000"),
            ("interval.ms", "5"),
            ("interval.ms", "x"),
            ("metrics", "a,b"),
            ("match", "client_id=x"),
            ("match", "unheard=x"),
            ("match", "x"),
            ("match", "client_id=("),
            ("match", "client_id=a=b"),
            ("match", "client_id = a,client_software_name=b.*"),
            ("metrics", " 1 "),
            ("unheard.of", "x"),
        ):
            yield "alter", METRICS, name, (setting, SET, value)
        yield "alter", METRICS, name, ("metrics", APPEND, "c")
    yield "describe", METRICS, "m", []
    yield "list", METRICS
    yield "alter", METRICS, "m", ("metrics", DELETE, None), ("match", DELETE, None), ("interval.ms", DELETE, None)
    yield "list", METRICS
    yield "replace", METRICS, "n", ("interval.ms", "1000")


def _groups() -> Iterator[tuple[Any, ...]]:
    for name in ("g", ""):
        for setting, value in (
            ("consumer.session.timeout.ms", "50000"),
            ("consumer.session.timeout.ms", "5"),
            ("consumer.session.timeout.ms", "x"),
            ("consumer.heartbeat.interval.ms", "60000"),
            ("share.auto.offset.reset", "by_duration:PT1H"),
            ("share.auto.offset.reset", "x"),
            ("streams.num.standby.replicas", "2"),
            ("streams.num.standby.replicas", "3"),
            ("streams.num.standby.replicas", "-1"),
            ("streams.initial.rebalance.delay.ms", "-1"),
            ("unheard.of", "x"),
        ):
            yield "alter", GROUP, name, (setting, SET, value)
        yield "alter", GROUP, name, ("consumer.session.timeout.ms", APPEND, "1")
        yield "describe", GROUP, name, ["consumer.session.timeout.ms", "share.auto.offset.reset"]
    yield "describe", GROUP, "other", ["consumer.session.timeout.ms"]
    yield "list", GROUP
    yield "replace", GROUP, "g", ("consumer.session.timeout.ms", "46000")


def responses_of(address: tuple[str, int], wait_s: float = 0.0) -> list[tuple[str, Response]]:
    """(step as JSON, answer) of every step."""
    client = ConfigClient(address, wait_s)
    responses = [(json.dumps(step), getattr(client, step[0])(*step[1:])) for step in steps()]
    client.socket.close()
    return responses


def _record(version: str) -> None:
    from coterie_conformance.servers.kafka import running

    with tempfile.TemporaryDirectory() as folder, running(version, Path(folder), STATIC) as address:
        responses = responses_of(address, wait_s=0.3)
    rows = ",\n".join(json.dumps(response) for response in responses)
    (DATA / f"config-story-{version}.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        _record(each)
