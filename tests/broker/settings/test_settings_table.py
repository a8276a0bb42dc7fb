"""The tables of settings beside Apache Kafka 3.9.1's, whose responses are recorded in data/settings-of-kafka-3.9.1.json:
DescribeConfigs of a topic and of a broker, and IncrementalAlterConfigs of each topic setting with each of some values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerSettings, SettingError, Source, Update
from coterie.configuration import format_value

KAFKA = json.loads((Path(__file__).parents[1] / "data" / "settings-of-kafka-3.9.1.json").read_text())
Row = tuple[str, int, str | None, bool, bool, list[str]]

# setting -> why its row differs from Kafka's
DIFFERENT = {
    "advertised.listeners": "coterie listens where it did at its start, and says so (read-only)",
    "broker.id": "a broker on its own has id 1 by default; Kafka requires one in server.properties",
    "node.id": "as broker.id",
    "group.consumer.assignors": "by name, as Kafka 4.3's; 3.9 has Java classes, which are accepted",
    "group.coordinator.rebalance.protocols": "the consumer protocol is on by default, as in Kafka 4.3; there with streams",
    "group.share.max.size": "an INT of 1 to 1000, as in Kafka 4.4; in 3.9 a SHORT",
    "group.share.partition.max.record.locks": "2000, as in Kafka 4.4; in 3.9 it is 200",
    "listeners": "as advertised.listeners",
    "max.connections": "coterie keeps 10,000 connections at most, within the limit of open files that it sets",
    "offsets.topic.replication.factor": "there is one broker; Kafka's default of 3 cannot be had",
    "zookeeper.connection.timeout.ms": "how long a start waits; Kafka takes the session timeout",
    "zookeeper.session.timeout.ms": "Kafka 0.8's default, for the consumers that the registration is for",
}
# Also in Kafka 4.4, whose further settings are in the table as well.


# Topic settings that came with Kafka 4.4; `./run conformance --part everything` compares their rows and values.
SINCE_4_4 = {
    "errors.deadletterqueue.group.enable",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}


def our_topic_row(name: str) -> Row:
    setting = TOPIC_SETTINGS[name].setting
    settings = BrokerSettings()
    synonyms = [s.name for s in settings.topic_synonyms(name, {}) if s.source == Source.DEFAULT]
    value = format_value(settings.topic_value(name, {}))
    return name, setting.kind, value, False, setting.is_sensitive, synonyms


def our_broker_row(name: str) -> Row:
    setting = BROKER_SETTINGS[name]
    synonyms = [s.name for s in BrokerSettings().broker_synonyms(name) if s.name != name]
    read_only = setting.update == Update.READ_ONLY
    return name, setting.kind, format_value(setting.default), read_only, setting.is_sensitive, synonyms


@pytest.mark.parametrize("row", KAFKA["topic"], ids=lambda row: row[0])
def test_a_topic_setting_is_kafkas(row: list[object]) -> None:
    assert list(our_topic_row(str(row[0]))) == row


def test_there_are_no_other_topic_settings() -> None:
    assert set(TOPIC_SETTINGS) - SINCE_4_4 == {row[0] for row in KAFKA["topic"]}


def test_each_broker_setting_is_kafkas_but_for_the_differences_explained() -> None:
    different = {row[0] for row in KAFKA["broker"] if list(our_broker_row(row[0])) != row}
    assert different == set(DIFFERENT)


def error_of(name: str, value: str) -> str:
    try:
        BrokerSettings().check_topic_configs({name: value})
    except SettingError as error:
        return str(error)
    return ""


def test_each_topic_setting_takes_the_values_that_kafka_takes() -> None:
    refused = [(n, v, error) for n, values in KAFKA["accepted"].items() for v in values if (error := error_of(n, v))]
    assert not refused
    accepted = [(n, v) for n, values in KAFKA["refused"].items() for v in values if not error_of(n, v).startswith(n)]
    assert not accepted


def test_every_setting_is_documented() -> None:
    every = [*BROKER_SETTINGS.values(), *(topic.setting for topic in TOPIC_SETTINGS.values())]
    assert not [setting.name for setting in every if not setting.full_documentation.endswith(".")]
