"""Settings of the broker and of topics: tables with Kafka's names, kinds and defaults, and the values in force."""

from __future__ import annotations

from coterie.broker.settings.broker_settings import BrokerSettings, Source, Synonym
from coterie.broker.settings.broker_table import BROKER_SETTINGS
from coterie.broker.settings.listeners import advertised_address, listen_address
from coterie.broker.settings.properties import ServerProperties, read_properties, server_properties
from coterie.broker.settings.setting import Kind, Setting, SettingError, Update, Value, format_value, parse_value
from coterie.broker.settings.topic_table import TOPIC_SETTINGS, TopicSetting

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerSettings",
    "Kind",
    "ServerProperties",
    "Setting",
    "SettingError",
    "Source",
    "Synonym",
    "TopicSetting",
    "Update",
    "Value",
    "advertised_address",
    "format_value",
    "listen_address",
    "parse_value",
    "read_properties",
    "server_properties",
]
