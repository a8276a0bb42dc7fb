"""A server.properties as Apache Kafka ships it: read as Java reads it, used where coterie has the thing, warned of once
where not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.broker.settings import (
    BrokerSettings,
    SettingError,
    client_listeners,
    environment_properties,
    read_properties,
    server_properties,
)
from coterie.broker.settings.listeners import Listener, advertised_addresses, listener_at, parse_listeners
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.wire.messages.topics.metadata import MetadataRequest

# What config/kraft/server.properties of 3.9.1 and config/server.properties of 4.3.0 set, without their comments.
KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
# What config/server.properties of 3.9.1 sets besides.
ZOOKEEPER = """
broker.id=0
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (
            "# a comment\n\n num.partitions = 3 \n! another\nlog.retention.ms=-1\n",
            {"num.partitions": "3 ", "log.retention.ms": "-1"},
        ),
        ("a: b\nc d\ne\nf =\n", {"a": "b", "c": "d", "e": "", "f": ""}),
        ("long=one,\\\n    two\n", {"long": "one,two"}),
        (r"a\:b\=c=\u0041\t\\", {"a:b=c": "A\t\\"}),
        ("twice=1\ntwice=2", {"twice": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert read_properties(text) == properties


def test_an_escape_that_is_none() -> None:
    with pytest.raises(SettingError, match=r"\\u12 is not an escape"):
        read_properties(r"a=\u12")


def test_kafkas_own_files_are_taken() -> None:
    file = server_properties(read_properties(KRAFT))
    settings = BrokerSettings(file.given)
    assert not file.unknown
    assert (settings["node.id"], settings["log.dirs"]) == (1, "/tmp/kraft-combined-logs")
    assert settings.log_config({}).retention_ms == 168 * 3_600_000
    listeners = client_listeners(settings)
    assert [one.address for one in listeners] == [("0.0.0.0", 9092)]
    assert advertised_addresses(settings, listeners) == {"PLAINTEXT": ("localhost", 9092)}
    assert {"process.roles", "num.io.threads"} <= set(file.no_effect)
    have_effect = {"num.partitions", "log.retention.hours", "log.dirs", "listeners", "inter.broker.listener.name"}
    assert not have_effect & set(file.no_effect)
    older = BrokerSettings(server_properties(read_properties(ZOOKEEPER)).given)
    assert (older["node.id"], older["zookeeper.connect"]) == (0, "localhost:2181")


def test_what_changes_nothing_is_named_in_one_line() -> None:
    file = server_properties({"num.io.threads": "8", "num.partition": "3", "listener.name.x.ssl.provider": "p"})
    assert file.given == {"num.io.threads": "8"}
    assert file.warning() == (
        "without effect in coterie: listener.name.x.ssl.provider, num.io.threads; "
        "not known to coterie or Kafka: num.partition (did you mean num.partitions?)"
    )
    assert not server_properties({"num.partitions": "3"}).warning()


@pytest.mark.parametrize(
    ("given", "retention_ms", "segment_ms"),
    [
        ({}, 604_800_000, 604_800_000),
        ({"log.retention.hours": "2", "log.roll.hours": "3"}, 7_200_000, 10_800_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.roll.ms": "9"}, 300_000, 9),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7, 604_800_000),
        ({"log.retention.hours": "-1"}, -1, 604_800_000),
    ],
)
def test_milliseconds_go_before_minutes_and_hours(given: dict[str, str], retention_ms: int, segment_ms: int) -> None:
    config = BrokerSettings(given).log_config({})
    assert (config.retention_ms, config.segment_ms) == (retention_ms, segment_ms)


def test_listeners() -> None:
    assert parse_listeners("listeners", "host:1, plaintext://[::1]:2,SSL://:3") == [
        Listener("PLAINTEXT", "host", 1),
        Listener("PLAINTEXT", "::1", 2),
        Listener("SSL", "", 3, "SSL"),
    ]
    for bad in ("nowhere", "PLAINTEXT://host", "host:70000"):
        with pytest.raises(SettingError, match="listeners must be NAME://HOST:PORT"):
            parse_listeners("listeners", bad)
    mapped = {"listener.security.protocol.map": "EXTERNAL:SSL,INSIDE:PLAINTEXT"}
    both = BrokerSettings({"listeners": "EXTERNAL://a:1,INSIDE://b:2", **mapped})
    assert client_listeners(both) == [Listener("EXTERNAL", "a", 1, "SSL"), Listener("INSIDE", "b", 2)]
    assert listener_at(both, "b", 2) == Listener("INSIDE", "b", 2)
    assert listener_at(both, "c", 1) == Listener("PLAINTEXT", "c", 1)
    assert advertised_addresses(both, client_listeners(both)) == {}


@pytest.mark.parametrize(
    ("listeners", "sentence"),
    [
        (
            "EXTERNAL://a:1",
            "listener.security.protocol.map must have EXTERNAL:PROTOCOL for the listener EXTERNAL://a:1",
        ),
        ("SSL://a:1,SSL://a:2", "listeners must have each name once, and has SSL more often"),
        ("", "listeners has none for clients"),
    ],
)
def test_listeners_that_cannot_be_served(listeners: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        client_listeners(BrokerSettings({"listeners": listeners}))


def test_settings_of_one_listener() -> None:
    """As Kafka's AbstractConfig.valuesWithPrefixOverride."""
    settings = BrokerSettings(
        {
            "ssl.client.auth": "requested",
            "listener.name.external.ssl.client.auth": "required",
            "listener.name.external.plain.connections.max.reauth.ms": "5",
        }
    )
    assert settings.security("INSIDE").ssl_client_auth == "requested"
    assert settings.security("EXTERNAL").ssl_client_auth == "required"
    assert settings.security("EXTERNAL").connections_max_reauth_ms == 0
    assert settings.security("EXTERNAL", "PLAIN").connections_max_reauth_ms == 5
    with pytest.raises(SettingError, match=r"ssl\.client\.auth must be one of required, requested, none"):
        BrokerSettings({"listener.name.external.ssl.client.auth": "maybe"})


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_LISTENER_NAME_SECURE_SSL_CLIENT_AUTH", "listener.name.secure.ssl.client.auth"),
        ("KAFKA_LISTENER_NAME_INNER___NET_SSL_CLIENT_AUTH", "listener.name.inner-net.ssl.client.auth"),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_LOG4J_LOGGERS", None),
        ("PATH", None),
    ],
)
def test_a_variable_of_kafkas_image_is_a_setting(variable: str, setting: str | None) -> None:
    """KafkaDockerWrapper: _ is a dot, __ an underscore, ___ a hyphen; the JVM's variables are no settings."""
    assert environment_properties({variable: "3"}) == ({setting: "3"} if setting else {})
    assert environment_properties({variable: ""}) == {}


def test_a_broker_runs_on_a_server_properties_alone(tmp_path: Path) -> None:
    text = KRAFT.replace("PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:0").replace(
        "/tmp/kraft-combined-logs", str(tmp_path / "logs")
    )
    (tmp_path / "server.properties").write_text(text + "unheard.of=1\n")
    command = [sys.executable, "-m", "coterie", "broker", "--properties", str(tmp_path / "server.properties")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().removeprefix("listening on ").strip().rpartition(":")
        socket = BrokerSocket(host, int(port))
        broker = socket.request(MetadataRequest(topics=[])).brokers[0]
        socket.close()
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
    assert (tmp_path / "logs" / "meta.properties").exists()
    assert process.returncode == 0
    warnings = errors.splitlines()
    assert len(warnings) == 1
    assert warnings[0].endswith("not known to coterie or Kafka: unheard.of")
