"""Settings of the broker and of topics: tables with Kafka's names, kinds and defaults, and the values in force."""

from __future__ import annotations

from coterie.broker.settings.broker_settings import BrokerSettings, Source, Synonym
from coterie.broker.settings.listeners import client_listeners
from coterie.broker.settings.properties import (
    ServerProperties,
    environment_properties,
    read_properties,
    server_properties,
)
from coterie.broker.settings.setting import BrokerSetting, Update
from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS, BrokerConfig
from coterie.broker.settings.tables.topic_table import TOPIC_SETTINGS, TopicConfig, TopicSetting
from coterie.configuration import Kind, Setting, SettingError, format_value

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "BrokerSetting",
    "BrokerSettings",
    "Kind",
    "ServerProperties",
    "Setting",
    "SettingError",
    "Source",
    "Synonym",
    "TopicConfig",
    "TopicSetting",
    "Update",
    "client_listeners",
    "environment_properties",
    "format_value",
    "read_properties",
    "server_properties",
]
