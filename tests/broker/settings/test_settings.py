"""Settings: Kafka's names, and a sentence that helps for each mistake."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from coterie.broker.settings import BrokerSettings, SettingError, Source
from coterie.broker.settings.broker_settings import COORDINATOR_SETTINGS
from coterie.broker.settings.tables.broker_table import BrokerConfig
from coterie.coordinator.outcome import CoordinatorConfig


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
