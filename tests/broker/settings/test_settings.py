"""Settings: Kafka's names, and a sentence that helps for each mistake. The tables of settings beside Apache Kafka
3.9.1's, whose responses are recorded in data/settings-of-kafka-3.9.1.json: DescribeConfigs of a topic and of a broker,
and IncrementalAlterConfigs of each topic setting with each of some values."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerSettings, SettingError, Source, Update
from coterie.broker.settings.broker_settings import COORDINATOR_SETTINGS
from coterie.broker.settings.tables.broker_table import BrokerConfig
from coterie.configuration import format_value
from coterie.coordinator.outcome import CoordinatorConfig

KAFKA = json.loads((Path(__file__).parents[1] / "data" / "settings-of-kafka-3.9.1.json").read_text())
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
# Topic settings that came with Kafka 4.4; `./run conformance --part everything` compares their rows and values.
SINCE_4_4 = {
    "errors.deadletterqueue.group.enable",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num.partition": "3"}, "there is no setting num.partition; did you mean num.partitions?"),
        ({"num.partitions": "many"}, "num.partitions must be a whole number of 32 bits, not 'many'"),
        ({"num.partitions": "0"}, "num.partitions must be from 1 to 100000, not 0"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable must be true or false, not 'yes'"),
        ({"log.retention.hours": "0"}, "log.retention.hours must be at least 1, or below 0 for no limit, not 0"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be at least 1, not 0"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy must be one of delete, compact"),
    ],
)
def test_a_mistake_is_refused_with_a_sentence(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as error:
        BrokerSettings(given)
    assert str(error.value).startswith(message)


def test_a_topic_setting_goes_before_the_brokers() -> None:
    settings = BrokerSettings({"log.retention.ms": "5000"})
    assert settings.log_config({}).retention_ms == 5000
    assert settings.log_config({"retention.ms": "7000"}).retention_ms == 7000
    with pytest.raises(SettingError, match=r"did you mean retention\.ms"):
        settings.check_topic_configs({"retention.mss": "1"})


def test_python_values_are_taken_and_described_as_their_texts() -> None:
    given = {"num.partitions": 5, "auto.create.topics.enable": False, "node.id": 3, "log.retention.ms": None}
    settings = BrokerSettings(given)
    assert (settings.current.num_partitions, settings.current.auto_create_topics_enable) == (5, False)
    described = {name: settings.broker_synonyms(name)[0] for name in given if given[name] is not None}
    assert {name: synonym.value for name, synonym in described.items()} == {
        "num.partitions": "5",
        "auto.create.topics.enable": "false",
        "node.id": "3",
    }
    assert all(synonym.source == Source.STATIC_BROKER for synonym in described.values())
    assert settings["broker.id"] == 3
    assert not settings.broker_synonyms("log.retention.ms")
    with pytest.raises(SettingError, match=r"num\.partitions must be a whole number of 32 bits, not True"):
        BrokerSettings({"num.partitions": True})


def test_the_coordinator_has_the_brokers_settings_by_their_names() -> None:
    """What has another name is made of one, or of none; a name misspelt would keep its default without a word."""
    others = {f.name for f in fields(CoordinatorConfig)} - COORDINATOR_SETTINGS
    assert others == {
        "consumer_group_assignors",
        "consumer_group_migration_policy",
        "group_consumer_regex_refresh_interval_ms",
        "group_share_assignment_interval_ms",
        "group_share_heartbeat_interval_ms",
        "group_share_max_size",
        "group_share_session_timeout_ms",
        "group_streams_acceptable_recovery_lag",
        "group_streams_assignment_interval_ms",
        "group_streams_assignors",
        "group_streams_heartbeat_interval_ms",
        "group_streams_initial_rebalance_delay_ms",
        "group_streams_max_size",
        "group_streams_num_standby_replicas",
        "group_streams_rack_aware_assignment_tags",
        "group_streams_session_timeout_ms",
        "group_streams_task_offset_interval_ms",
        "new_member_join_timeout_ms",
        "offsets_retention_ms",
        "pending_leave_rebalances",
        "regex_problem",
        "streams_assignor_name",
        "sync_timeout_enabled",
    }
    types, of_broker = get_type_hints(CoordinatorConfig), get_type_hints(BrokerConfig)
    by_default, used = CoordinatorConfig(), BrokerSettings({}).coordinator()
    for name in COORDINATOR_SETTINGS:
        assert types[name] is of_broker[name], name
        assert getattr(by_default, name) == getattr(used, name), f"{name} has another default"


def test_a_given_setting_is_the_coordinators() -> None:
    given = {"group.initial.rebalance.delay.ms": "7", "group.consumer.max.size": "8", "offsets.retention.minutes": "9"}
    config = BrokerSettings(given).coordinator()
    assert (config.group_initial_rebalance_delay_ms, config.group_consumer_max_size) == (7, 8)
    assert config.offsets_retention_ms == 9 * 60_000


Row = tuple[str, int, str | None, bool, bool, list[str]]

# Also in Kafka 4.4, whose further settings are in the table as well.


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
