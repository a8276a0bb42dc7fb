"""Settings described and altered over the wire: beside what Apache Kafka answered to the same story, and over a restart.
Versions of Kafka as settings name them, beside org.apache.kafka.server.common.MetadataVersion of 3.9.1 (recorded)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings, SettingError, Source
from coterie.broker.settings.altered_settings import KeptConfigs, ResourceType, check_dynamic
from coterie.broker.settings.metadata_versions import release_of
from coterie.broker.storage.disk import DiskFileSystem
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.primitives import NULL_UUID
from tests.broker.settings import config_story
from tests.broker.settings.config_story import BROKER, DATA, DELETE, GROUP, METRICS, SET, TOPIC, ConfigClient, Response
from tests.broker.settings.test_settings import SINCE_4_4

MIB = "1048576"
KAFKA = json.loads((Path(__file__).parents[1] / "data" / "metadata-versions-of-kafka-3.9.1.json").read_text())
# as written -> its name; "": refused
READ: dict[str, str] = {name: name for name in KAFKA["names"]} | KAFKA["read"]
FORMAT, PROTOCOL = "message.format.version", "inter.broker.protocol.version"


def _kafka(version: str) -> list[tuple[str, Response]]:
    return [tuple(row) for row in json.loads((DATA / f"config-story-{version}.json").read_text())]


@pytest.fixture
def levels() -> Iterator[None]:
    """The story alters levels of loggers, which are the process's."""
    before = logging.root.level
    yield
    logging.root.setLevel(before)


def _of_4_3(response: Response) -> Response:
    """Without the rows of settings that came later."""
    return [[row for row in part if row[0] not in SINCE_4_4] if _is_table(part) else part for part in response]


def _is_table(part: object) -> bool:
    return isinstance(part, list) and all(isinstance(row, list) and row for row in part)


def test_settings_are_described_and_altered_as_by_kafka(levels: None) -> None:
    """Each response is that of Kafka 3.9.1 or of 4.3.0, where the two differ."""

    async def run() -> list[tuple[str, Response]]:
        broker = Broker(BrokerSettings(config_story.STATIC))
        address = await broker.start("127.0.0.1", 0)
        responses = await asyncio.to_thread(config_story.responses_of, address)
        await broker.stop()
        return responses

    theirs = zip(_kafka("3.9.1"), _kafka("4.3.0"), strict=True)
    different = []
    for (step, response), ((step_3, response_3), (step_4, response_4)) in zip(asyncio.run(run()), theirs, strict=True):
        assert step == step_3 == step_4
        if _of_4_3(response) not in (response_3, response_4):
            different.append(f"{step}\n  coterie: {response}\n  3.9.1: {response_3}\n  4.3.0: {response_4}")
    assert not different, "\n".join(different)


async def test_a_setting_that_an_earlier_coterie_took_bars_no_other(tmp_path: Path) -> None:
    """It can be removed, and stays without effect until then."""
    KeptConfigs(DiskFileSystem(tmp_path)).replace({(ResourceType.GROUP, "g"): {"streams.num.standby.replicas": "1"}})
    broker = Broker(BrokerSettings({}), tmp_path)
    client = await _connect(broker)
    change = await asyncio.to_thread(client.alter, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    removal = await asyncio.to_thread(client.alter, GROUP, "g", ("streams.num.standby.replicas", DELETE, None))
    assert (change[0], removal[0]) == (ErrorCode.NONE, ErrorCode.NONE)
    assert broker.kept_configs.of(ResourceType.GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    await _end(broker, client)


async def test_altered_settings_are_in_force_at_once_and_after_a_restart(tmp_path: Path) -> None:
    given = {"log.retention.ms": "90000", "log.segment.bytes": "5000"}
    broker = Broker(BrokerSettings(given), tmp_path)
    client = await _connect(broker)
    await asyncio.to_thread(client.create, "t", [("segment.bytes", "4000")])
    changes = [("log.retention.ms", SET, "80000"), ("message.max.bytes", SET, "2000")]
    await asyncio.to_thread(client.alter, BROKER, "", *changes)
    await asyncio.to_thread(
        client.alter, BROKER, "1", ("log.retention.ms", SET, "70000"), ("max.connections", SET, "7")
    )
    await asyncio.to_thread(client.alter, BROKER, "1", ("log.retention.ms", SET, "1"), validate_only=True)
    await asyncio.to_thread(client.alter, METRICS, "m", ("interval.ms", SET, "1000"))
    await asyncio.to_thread(client.alter, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    _expect(broker, retention_ms=70_000, max_message_bytes=2_000, segment_bytes=4_000)
    assert broker.settings["max.connections"] == 7
    await _end(broker, client)

    again = Broker(BrokerSettings(given), tmp_path)
    client = await _connect(again)
    _expect(again, retention_ms=70_000, max_message_bytes=2_000, segment_bytes=4_000)
    assert again.settings["max.connections"] == 7
    assert (await asyncio.to_thread(client.list, METRICS, GROUP))[1] == [[METRICS, "m"], [GROUP, "g"]]
    await asyncio.to_thread(client.alter, BROKER, "1", ("log.retention.ms", DELETE, None))
    _expect(again, retention_ms=80_000, max_message_bytes=2_000, segment_bytes=4_000)
    await asyncio.to_thread(client.replace, BROKER, "")
    await asyncio.to_thread(client.replace, TOPIC, "t")
    _expect(again, retention_ms=90_000, max_message_bytes=1_048_588, segment_bytes=5_000)
    await _end(again, client)


async def _connect(broker: Broker) -> ConfigClient:
    return await asyncio.to_thread(ConfigClient, await broker.start("127.0.0.1", 0), 0.0)


async def _end(broker: Broker, client: ConfigClient) -> None:
    client.socket.close()
    await broker.stop()


def _expect(broker: Broker, **values: int) -> None:
    """Of the log of topic t."""
    config = broker.topics.partition("t", 0).log.config
    assert {name: getattr(config, name) for name in values} == values


@pytest.mark.parametrize(
    ("given", "listen", "listeners"),
    [
        ({}, "127.0.0.1", "PLAINTEXT://127.0.0.1:{port}"),
        ({"listeners": "SSL://:9093"}, "127.0.0.1", "PLAINTEXT://127.0.0.1:{port}"),
        ({"listeners": "INSIDE://:0", "listener.security.protocol.map": "INSIDE:PLAINTEXT"}, "0.0.0.0", "INSIDE://:0"),
    ],
)
def test_the_listener_and_the_folder_are_those_in_use(
    tmp_path: Path, given: dict[str, str], listen: str, listeners: str
) -> None:
    """Of a broker whose address and folder the command line gives; settings of the same address are returned as they are."""

    async def run(data: Path | None) -> None:
        broker = Broker(BrokerSettings(given), data)
        _, port = await broker.start(listen, 0)
        client = await asyncio.to_thread(ConfigClient, ("127.0.0.1", port), 0.0)
        folder = "memory" if data is None else str(data)
        expected = {"listeners": listeners.format(port=port), "log.dirs": folder, "advertised.listeners": None}
        described = await asyncio.to_thread(client.describe, BROKER, "1", list(expected))
        assert {name: value for name, value, *_ in described[2]} == expected
        assert {name: source for name, _, _, source, *_ in described[2]}["log.dirs"] == Source.STATIC_BROKER
        await _end(broker, client)

    asyncio.run(run(None))
    asyncio.run(run(tmp_path))


def test_version_0_says_which_values_are_defaults(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    resource = DescribeConfigsResource(BROKER, "1", ["num.partitions", "num.io.threads"])
    configs = socket.request(DescribeConfigsRequest([resource]), highest=0).results[0].configs
    assert {config.name: config.is_default for config in configs} == {"num.partitions": False, "num.io.threads": True}
    socket.close()


def test_a_resource_may_come_once_in_a_request(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    client = ConfigClient((coterie_broker.host, coterie_broker.port), 0.0)
    resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", SET, "1")])
    response = client.socket.request(IncrementalAlterConfigsRequest([resource, resource]))
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    client.socket.close()


def test_an_unknown_topic_has_an_empty_message(coterie_broker: LocalBroker) -> None:
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    result = socket.request(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "none", None)])).results[0]
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    socket.close()


def test_a_topic_that_is_only_checked_has_an_id_too(coterie_broker: LocalBroker) -> None:
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    topics = [CreatableTopic(name, 1, 1) for name in ("a", "b")]
    results = socket.request(CreateTopicsRequest(topics, validate_only=True)).topics
    assert len({NULL_UUID, *(result.topic_id for result in results)}) == 3
    socket.close()


def test_half_the_threads_is_rounded_down() -> None:
    """DynamicBrokerConfig: of 3 threads at least 1, in whole numbers."""
    check_dynamic(BrokerSettings({"num.network.threads": "3"}), {"num.network.threads": "1"}, cluster=False)
    with pytest.raises(Refusal, match="halve"):
        check_dynamic(BrokerSettings({"num.network.threads": "4"}), {"num.network.threads": "1"}, cluster=False)


@pytest.mark.parametrize(
    "text", ["", ",", "127.0.0.1:5", "nosuch:5", "x:1,y:2", "x:-1", " x : 5 ", "x:1:2", ":5", "x:1,"]
)
def test_counts_of_hosts_that_kafka_takes(text: str) -> None:
    check_dynamic(BrokerSettings({}), {"max.connections.per.ip.overrides": text}, cluster=False)


@pytest.mark.parametrize("text", ["1", "127.0.0.1:x", "a b:5", "x:1,y", "x:", "[::1]:5", "x/y:5", "x:99999999999"])
def test_counts_of_hosts_that_kafka_refuses(text: str) -> None:
    with pytest.raises(Refusal, match="HOST:COUNT"):
        check_dynamic(BrokerSettings({}), {"max.connections.per.ip.overrides": text}, cluster=False)


@pytest.mark.parametrize(
    "configs",
    [
        {"log.cleaner.threads": "0"},
        {"num.replica.fetchers": "0"},
        {"log.cleaner.dedupe.buffer.size": MIB},
        {"max.connection.creation.rate": "0"},
        {"max.connections.per.ip": "0"},
    ],
)
def test_settings_that_kafka_checks_together_or_only_when_they_are_altered(configs: dict[str, str]) -> None:
    """As Kafka 3.9.1 and 4.3.0 answer."""
    with pytest.raises(Refusal):
        check_dynamic(BrokerSettings({}), configs, cluster=False)


def test_settings_that_go_together() -> None:
    both = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "x:1"}
    check_dynamic(BrokerSettings({}), both, cluster=False)
    check_dynamic(BrokerSettings({}), {"log.cleaner.dedupe.buffer.size": "1048577"}, cluster=False)


def is_accepted(name: str, text: str) -> bool:
    try:
        BrokerSettings({name: text})
    except SettingError:
        return False
    return True


@pytest.mark.parametrize("text", READ)
def test_a_version_is_read_as_by_kafka(text: str) -> None:
    release = READ[text].partition("-")[0]
    assert release_of(text) == (tuple(map(int, release.split("."))) if release else None)


def test_a_message_format_is_any_version_that_kafka_reads() -> None:
    accepted = {text for text in READ if is_accepted(f"log.{FORMAT}", text)}
    assert accepted == {text for text, name in READ.items() if name}
    for text in accepted:
        BrokerSettings().check_topic_configs({FORMAT: text})


def test_a_protocol_is_any_version_from_2_6_that_kafka_reads() -> None:
    since_2_6 = KAFKA["names"][KAFKA["names"].index("2.6-IV0") :]
    assert {text for text in READ if is_accepted(PROTOCOL, text)} == {
        t for t, name in READ.items() if name in since_2_6
    }


@pytest.mark.parametrize("name", [f"log.{FORMAT}", PROTOCOL])
def test_what_is_refused_names_the_versions_to_choose_from(name: str) -> None:
    with pytest.raises(SettingError, match=rf"{name} must be a version of .*3\.9, such as .*, not '?4\.0"):
        BrokerSettings({name: "4.0"})
