"""Settings of broker, topics, groups, clients and Spark options: one declaration for each, one parser of their values.

A class of settings is a frozen dataclass whose fields are made by `declared`; `settings_of` is its table by Kafka's names,
`read_settings` makes the dataclass of given texts and values.
"""

from __future__ import annotations

from coterie.configuration.setting import (
    Declaration,
    Rule,
    Setting,
    SettingError,
    at_least,
    declared,
    nearest,
    one_of,
    read_settings,
    settings_of,
    unknown_setting,
    with_values,
)
from coterie.configuration.value_types import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    VALUE_TYPES,
    Kind,
    UnfitValue,
    ValueType,
    format_value,
)

__all__ = [
    "BOOLEAN",
    "CLASS",
    "DOUBLE",
    "Declaration",
    "INT",
    "LIST",
    "LONG",
    "PASSWORD",
    "SHORT",
    "STRING",
    "VALUE_TYPES",
    "Kind",
    "Rule",
    "Setting",
    "SettingError",
    "UnfitValue",
    "ValueType",
    "at_least",
    "declared",
    "format_value",
    "nearest",
    "one_of",
    "read_settings",
    "settings_of",
    "unknown_setting",
    "with_values",
]
