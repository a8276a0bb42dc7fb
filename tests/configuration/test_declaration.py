"""A class of settings: its table by Kafka's names, the values read into it, and the classes of broker, topics and groups."""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields

import pytest

from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, BrokerSettings, TopicConfig
from coterie.broker.settings.tables.resource_tables import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    ClientMetricsConfig,
    GroupConfig,
)
from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSettings
from coterie.client.zookeeper.settings import ZOOKEEPER_SETTINGS, ZooKeeperConsumerSettings
from coterie.configuration import (
    INT,
    LIST,
    PASSWORD,
    VALUE_TYPES,
    Setting,
    SettingError,
    at_least,
    declared,
    format_value,
    nearest,
    read_settings,
    settings_of,
)
from coterie.laboratory.what_if import GRID_SETTINGS, WhatIfSetting
from coterie.pipeline.options.table import OPTIONS, OptionValues


@dataclass(frozen=True)
class Declared:
    max_poll_records: int = declared(Setting("", INT, 500, at_least(1), "The most records."))
    topics: tuple[str, ...] = declared(Setting("", LIST, ()))
    secret: str | None = declared(Setting("", PASSWORD, None))
    other: int = declared(Setting("Another.Name", INT, 7))


TABLE = settings_of(Declared, Setting)


def test_the_table_has_kafkas_names() -> None:
    assert list(TABLE) == ["max.poll.records", "topics", "secret", "Another.Name"]
    assert TABLE["max.poll.records"].documentation == "The most records."


def test_values_are_read_by_their_settings() -> None:
    given = {"max.poll.records": "10", "topics": "a, b", "secret": "hush"}
    assert read_settings(Declared, TABLE, given, "setting") == Declared(10, ("a", "b"), "hush", 7)
    assert "hush" not in repr(read_settings(Declared, TABLE, given, "setting"))
    assert read_settings(Declared, TABLE, {"secret": None}, "setting") == Declared()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"max.poll.record": 1}, "there is no setting max.poll.record; did you mean max.poll.records?"),
        ({"max.poll.records": "0"}, "max.poll.records must be at least 1, not 0"),
        ({"max.poll.records": " x "}, "max.poll.records must be a whole number of 32 bits, not ' x '"),
        ({"max.poll.records": None}, "max.poll.records must be a whole number of 32 bits, not None"),
        ({"secret": b"hush"}, "secret must be text, not a value of type bytes"),
    ],
)
def test_a_mistake_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError) as error:
        read_settings(Declared, TABLE, given, "setting")
    assert str(error.value) == sentence


def test_the_nearest_name_is_offered_in_its_own_case() -> None:
    assert nearest("startingoffset", ["startingOffsets", "endingOffsets"]) == "; did you mean startingOffsets?"
    assert not nearest("nothing.like.it", ["startingOffsets"])


CLASSES = [
    (BrokerConfig, BROKER_SETTINGS),
    (TopicConfig, {name: topic.setting for name, topic in TOPIC_SETTINGS.items()}),
    (ClientMetricsConfig, CLIENT_METRICS_SETTINGS),
    (GroupConfig, {name: setting for name, (setting, _) in GROUP_SETTINGS.items()}),
    (ClientSettings, CLIENT_SETTINGS),
    (OptionValues, OPTIONS),
    (WhatIfSetting, GRID_SETTINGS),
    (ZooKeeperConsumerSettings, ZOOKEEPER_SETTINGS),
]


@pytest.mark.parametrize(("declaration", "table"), CLASSES)
def test_a_field_has_the_type_of_the_values_that_its_setting_reads(
    declaration: type, table: dict[str, Setting[object]]
) -> None:
    """mypy checks each declaration; that the table reads into the fields by name it cannot check."""
    hints = typing.get_type_hints(declaration)
    settings = list(table.values())[: len(fields(declaration))]
    for field, setting in zip(fields(declaration), settings, strict=True):
        assert setting.name == (field.metadata["setting"].name or field.name.replace("_", "."))
        value = setting.default
        assert value == field.default
        if value is not None and setting.value_type in VALUE_TYPES.values():
            assert setting.parse(format_value(value)) == value
        alternatives = typing.get_args(hints[field.name]) if type(None) in typing.get_args(hints[field.name]) else ()
        if value is not None:
            types = [typing.get_origin(hint) or hint for hint in alternatives or (hints[field.name],)]
            assert type(value) in types, field.name
        if setting.rule is not None and value is not None:
            assert setting.rule.holds(value), field.name


def test_values_in_force_follow_what_is_altered() -> None:
    settings = BrokerSettings({"message.max.bytes": "5000"})
    assert (settings.current.max_connections, settings.topic_defaults.max_message_bytes) == (10_000, 5000)
    settings.alter({"message.max.bytes": "6000"}, {"max.connections": "7"})
    assert (settings.current.max_connections, settings.topic_defaults.max_message_bytes) == (7, 6000)
    assert settings["max.connections"] == 7
    settings.alter({}, {})
    assert (settings.current.max_connections, settings.topic_defaults.max_message_bytes) == (10_000, 5000)
